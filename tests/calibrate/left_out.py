"""Predict every measurement by a fit that never saw its system or source, and keep the errors for the accuracy page.

    python tests/calibrate/left_out.py    takes about two minutes; run it after a calibration

Writes app/measurements/left_out.json: the page cannot refit the models while a reader waits.
"""

import json
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from app import catalog
from app.accuracy import collectives, training

MEASUREMENTS = Path(__file__).parents[2] / "app" / "measurements"


def main() -> None:
    loaded = catalog.current()
    reduce = collectives.report(MEASUREMENTS / "collectives.csv", loaded, leave_one_out=True)
    step = training.report(MEASUREMENTS / "training.csv", loaded, leave_one_out=True)
    body = {
        "made": date.today().isoformat(),
        "catalog_version": loaded.version,
        "collectives": {name: reduce[name] for name in ("overall", "by_band", "by_class", "all_reduce")},
        "training": {name: step[name] for name in ("overall", "identified", "dense", "moe", "by_group")},
    }
    (MEASUREMENTS / "left_out.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
