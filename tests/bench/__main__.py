"""Run every benchmark, or those named: make bench ARGS='web'.

A benchmark is a module of this folder with a function `run` that yields lines of text as they are known.
"""

import pkgutil
import sys
import time
from importlib import import_module
from pathlib import Path

names = sys.argv[1:] or [
    one.name for one in pkgutil.iter_modules([str(Path(__file__).parent)]) if one.name != "__main__"
]
for name in names:
    module = import_module(f"tests.bench.{name}")
    if not hasattr(module, "run"):
        continue
    print(f"== {name}: {(module.__doc__ or '').partition(chr(10))[0]}", flush=True)
    began = time.monotonic()
    for line in module.run():
        print(line, flush=True)
    print(f"   ({time.monotonic() - began:.0f} s)", flush=True)
