"""Fit the constants of the training step to the published step times, and write them into the catalogue.

    .venv/bin/python tests/calibrate/training.py            print the fit and its left-out errors
    .venv/bin/python tests/calibrate/training.py --write    write typical values and ranges to app/catalog/training.toml

The range of a constant spans the fits that leave out one source at a time, and never less than two per cent each way.
The residuals hold a little over four of five left-out errors of their class.
"""

import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from app import catalog
from app.accuracy import statistics
from app.accuracy import training as accuracy

TARGET = Path(catalog.FOLDER) / "training.toml"
LEAST = 0.02
WITHIN = 0.86
"""Share of the left-out errors inside the residual: a little over four of five, as new sources err more."""


def shown(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:.4g}"
    scale, symbol = (1e6, "us") if value < 1e-3 else (1e3, "ms")
    return f'"{value * scale:.4g} {symbol}"'


def write(text: str, group: str, name: str, **numbers: str) -> str:
    """Replace the numbers of one constant, keeping everything else of the file."""
    start = text.index(f"[{group}.{name}]")
    end = text.find("\n[", start + 1)
    block = text[start:end]
    for field, number in numbers.items():
        block = re.sub(rf"(?m)^{field} = .*$", f"{field} = {number}", block)
    return text[:start] + block + text[end:]


def main() -> None:
    book = catalog.load()
    rows, _ = accuracy.read(accuracy.MEASUREMENTS, book)
    data = accuracy.fleet(rows, book)
    groups = np.array([row.group for row in rows])
    fitted = accuracy.fit(data, book, np.ones(len(rows), bool))
    without = accuracy.left_out(data, rows, book)
    predicted = np.zeros(len(rows))
    for name, constants in without.items():
        mine = groups == name
        predicted[mine] = np.exp(data.log_time(accuracy.reading(constants, book))).ravel()[mine]
    error = np.abs(np.log(predicted / data.measured))
    inside = np.abs(np.exp(data.log_time(accuracy.reading(fitted, book))).ravel() / data.measured - 1)
    masks = {
        "overall": np.ones(len(rows), bool),
        "identified": np.array([row.identified for row in rows]),
        "moe": np.array([row.experts for row in rows]),
        "kort22": groups == "kort22",
    }
    for name, mask in masks.items():
        left = statistics(predicted[mask], data.measured[mask])
        print(f"{name:12} in the fit {100 * np.mean(inside[mask]):5.2f} %   left out {100 * left['mean']:5.2f} %")

    text = TARGET.read_text(encoding="utf-8")
    spread = np.array([without[name] for name in without])
    for index, (group, name) in enumerate(accuracy.priors()):
        typical = float(np.exp(fitted[index]))
        low = min(float(np.exp(spread[:, index].min())), typical * (1 - LEAST))
        high = max(float(np.exp(spread[:, index].max())), typical * (1 + LEAST))
        unit = book.training[group][name].unit
        print(f"{group}.{name}: {shown(typical, unit)} ({shown(low, unit)} to {shown(high, unit)})")
        text = write(text, group, name, typical=shown(typical, unit), low=shown(low, unit), high=shown(high, unit))
    vendor = data.vendor_attention > 0
    for name, mask in {
        "dense": ~masks["moe"] & vendor,
        "open": ~masks["moe"] & ~vendor,
        "experts": masks["moe"],
    }.items():
        width = float(np.quantile(error[mask], WITHIN))
        print(f"residual {name}: {width:.3f}")
        text = write(text, "residual", name, typical=f"{width:.2f}")
    if "--write" in sys.argv:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
