"""Fit the constants of the collectives model to the measurements in the repository and write them to the catalogue.

    .venv/bin/python tests/calibrate/collectives.py            print what would change
    .venv/bin/python tests/calibrate/collectives.py --write    write typical values and residuals

Only ``typical`` of calibrated constants and of the residuals is written; ranges and notes are for people to weigh. The
residuals come from leaving out one system at a time, so run it again after a change of the model.
"""

import argparse
import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from app import catalog as catalogue
from app.accuracy import collectives as accuracy
from app.plan import all_reduce
from app.units import show

TARGET = Path(__file__).parents[2] / "app" / "catalog" / "collectives.toml"


WIDEST = 0.5
"""A wider band says nothing a planner can use; a class that misses by more is said so in its note."""


def residuals(found: list[accuracy.Prediction], catalog: catalogue.Catalog) -> dict[str, float]:
    """Half-widths by class, for rows that latency, fill or bandwidth dominates: 80 % of left-out rows fall inside.

    The constants' own ranges already make part of the width; the residual adds in quadrature, and what collectives
    other than the all-reduce miss beyond that of their class adds once more.
    """
    result = {}
    besides = [p for p in found if p.row.configuration.collective != "all-reduce"]
    found = [p for p in found if p.row.configuration.collective == "all-reduce"]
    classes = [float(all_reduce.residual(catalog, p.group, p.choice)) for p in besides]
    further = [max(beyond(p) ** 2 - own**2, 0.0) for p, own in zip(besides, classes, strict=True)]
    result["other-collectives"] = float(np.clip(np.sqrt(np.quantile(further, 0.8)), 0.02, WIDEST))
    for group in sorted({p.group for p in found}):
        for place, name in enumerate((group, f"{group}-fill", f"{group}-bandwidth")):
            members = [p for p in found if p.group == group and dominant(p) == place]
            if len(members) >= 5:
                needed = np.quantile([beyond(p) for p in members], 0.8)
                result[name] = float(np.clip(needed, 0.02, WIDEST))
    return result


def beyond(p: accuracy.Prediction) -> float:
    """What the residual has to be for the band to reach the measurement."""
    off = np.log(p.row.time / p.time)
    reach = np.log(p.drawn_high / p.time) if off > 0 else np.log(p.time / p.drawn_low)
    return float(np.sqrt(max(off**2 - reach**2, 0.0)))


def dominant(p: accuracy.Prediction) -> int:
    """0 where latency makes most of the time, 1 fill, 2 bandwidth."""
    moving, filling = float(p.choice.bandwidth_share), float(p.choice.fill_share)
    return int(np.argmax([1 - moving - filling, filling, moving]))


GIVEN = 1600
"""The rows that constants are fitted to: whoever adds measurements agrees on it first."""


def main() -> None:
    if len(accuracy.MEASUREMENTS.read_text().splitlines()) != GIVEN + 1:
        sys.exit("Fit on the 1,600 given rows only; see app/measurements/STOP_READ_ME_collectives_engineer.txt")

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true")
    write = options.parse_args().write
    catalog = catalogue.load()
    rows, _ = accuracy.read(accuracy.MEASUREMENTS, catalog)
    learned = accuracy.fitted(rows)
    values = accuracy.constants(accuracy.fit(learned, catalog, steps=30))
    besides = accuracy.fitted(rows, other=True)
    values |= accuracy.constants(accuracy.fit(besides, catalog, steps=30, settled=values), other=True)
    left_out = accuracy.predictions([*learned, *besides], catalog, leave_one_out=True)
    text = TARGET.read_text(encoding="utf-8")
    for key, value in values.items():
        _, group, name = key.split(".")
        now = catalog.collectives[group][name]
        seconds = now.unit == "s"
        shown = f'"{show(value, "s")}"'.replace("\u202f", " ").replace("µ", "u") if seconds else f"{value:.3g}"
        print(f"{key:50} {now.typical:12.6g} -> {shown:12} [{now.low:.4g}, {now.high:.4g}]", end="")
        print("" if now.low <= value <= now.high else "   outside its range")
        text = put(text, group, name, shown)
    for name, value in residuals(left_out, catalog).items():
        print(f"residual {name:40} {value:.3f}")
        text = put(text, "residual", name, f"{value:.2g}")
    report = accuracy.summary(left_out, [], leave_one_out=True)
    print(accuracy.text(report))
    if write:
        TARGET.write_text(text, encoding="utf-8")


def put(text: str, group: str, name: str, shown: str) -> str:
    """The file with one typical value replaced."""
    head = re.escape(f"[{group}.{name}]")
    changed, count = re.subn(rf"({head}\nunit = [^\n]*\ntypical = )[^\n]*", rf"\g<1>{shown}", text)
    if count != 1:
        raise SystemExit(f"{group}.{name}: found {count} times")
    return changed


if __name__ == "__main__":
    main()
