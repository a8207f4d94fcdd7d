"""What the process gives back of its memory."""

import platform
import subprocess
import sys

import pytest

FILLED = """
from app.web import heap

def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1000

heap.use_one()
blocks = [b"x" * (60_000 + number) for number in range(2_000)]
last = b"x" * 60_000
del blocks
before = resident()
heap.give_back()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to give memory back")
def test_what_lies_free_below_what_is_in_use_goes_back_to_the_system() -> None:
    run = subprocess.run([sys.executable, "-c", FILLED], capture_output=True, text=True, check=True)
    assert float(run.stdout) > 100  # MB, of 120
