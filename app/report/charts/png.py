"""Drawings as images of dots, for what takes no SVG: slides, mails, some wikis.

A drawing is painted in a process of its own. The painter keeps the interpreter to itself until it is done, a tenth of a
second in which nobody else would be answered; in a process it does not, and a drawing that it fails on ends that alone.
"""

import subprocess
import sys
from pathlib import Path

FONTS = Path(__file__).parent / "fonts"
"""The letters: the same wherever this runs, also where there are none on the system."""
FAMILY = "DejaVu Sans"


def painted(drawing: str, width: int, seconds: float) -> bytes:
    """A drawing as PNG.

    Args:
        drawing: as SVG.
        width: dots from its left to its right edge; as many from top to bottom as its shape asks for.
        seconds: that it may take.
    """
    command = [sys.executable, "-I", __file__, str(width)]
    done = subprocess.run(command, input=drawing.encode(), capture_output=True, timeout=seconds, check=True)  # noqa: S603
    return done.stdout


def _paint() -> None:
    """Paint the drawing that comes in, as wide as the command line says."""
    import resvg_py  # here, so that a start without pictures does without it

    image = resvg_py.svg_to_bytes(
        svg_string=sys.stdin.buffer.read().decode(),
        width=int(sys.argv[1]),
        skip_system_fonts=True,
        font_files=[str(path) for path in sorted(FONTS.glob("*.ttf"))],
        sans_serif_family=FAMILY,
    )
    sys.stdout.buffer.write(image)


if __name__ == "__main__":
    _paint()
