"""Arrays that formulas are made of."""

import numpy as np

from app.formulas.arrays import distinct


def test_rows_are_told_apart_however_many_they_could_be() -> None:
    """Four columns of 2^31 numbers each have more different rows than a number of 64 bits can name."""
    wide = np.array([0, 2**31 - 1, 2**31 - 1, 0])
    last = np.array([3, 3, 5, 3])
    first, which = distinct((wide, wide, wide, last), 4)
    assert (first.tolist(), which.tolist()) == ([0, 1, 2], [0, 1, 2, 0])
