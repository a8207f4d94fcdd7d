"""Arrays that formulas are made of."""

import numpy as np
import pytest

from app.formulas import arrays
from app.formulas.arrays import distinct


def test_rows_are_told_apart_however_many_they_could_be() -> None:
    """Four columns of 2^31 numbers each have more different rows than a number of 64 bits can name."""
    wide = np.array([0, 2**31 - 1, 2**31 - 1, 0])
    last = np.array([3, 3, 5, 3])
    first, which = distinct((wide, wide, wide, last), 4)
    assert (first.tolist(), which.tolist()) == ([0, 1, 2], [0, 1, 2, 0])


def test_rows_are_told_apart_alike_whether_they_are_sorted_or_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    for count in (1, 2, 50):
        columns = [draw.integers(0, most, count) for most in (2, 3, 4)]
        found = []
        for codes in (0, 2**20):
            monkeypatch.setattr(arrays, "CODES_OF_A_ROW", codes)
            found.append([column.tolist() for column in distinct(columns, count)])
        assert found[0] == found[1]
