"""Whether all readings of a release may lie beyond one end b of the range.

Every z_k is then b + e_k, e_k of the known release noise alone, and that is all the release shows:
the likelihood is as large for any mean farther out, and no finite interval holds the truth. With
w_k = 1/var e_k and K rows

    m = Σw_k(z_k − b)/√Σw_k ~ N(0, 1) ,   C = Σw_k(z_k − b)² ~ χ²_K ,

and readings within the range push m inward and C up. Where neither is beyond its 99.5 % quantile
the release cannot exclude it: a true case is missed in at most one of a hundred releases. Where the
noise is so strong that readings in the middle of the range would not be told from such either
(half the range is less than twice the quantile in units of m), nothing is said: few rows at a low
level are uncertain, not beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import NotIdentifiable
from privest.estimator._clipped_rows import ClippedRows, chunks

TAIL = 0.005  # of each of the two tests
NORMAL_SQUARES = 2.0  # the variance of e²/var e: of normal noise, of Laplace's
LAPLACE_SQUARES = 5.0


class BeyondRange(NotIdentifiable):
    """All readings may lie beyond an end of the range; `side` says where: above or below it."""

    def __init__(self, side: str) -> None:
        super().__init__(beyond_sentence(side))
        self.side = side


def beyond_sentence(side: str) -> str:
    """What it means and what to do, for people."""
    return (
        f"all readings may lie {side} the range, as far as this release can tell. How far is not "
        "in it, so that there is no estimate with a finite interval. Release with a wider public "
        "range."
    )


class EndTest:
    """Collects the two sums for both ends, in blocks. `squares`: the variance of e²/var e."""

    def __init__(self, squares: float = NORMAL_SQUARES) -> None:
        self.squares, self.rows, self.weight = squares, 0, 0.0
        self.first, self.second, self.width = np.zeros(2), np.zeros(2), math.inf

    def add(self, z: Array, added: Array | float, low: Array | float, high: Array | float) -> None:
        """Rows with release noise of variance `added`, clipped at `low` and `high`."""
        w = np.broadcast_to(1 / np.asarray(added), z.shape)
        inward = np.stack([z - low, high - z])
        self.first += inward @ w
        self.second += np.square(inward) @ w
        self.width = min(self.width, float(np.min(np.asarray(high) - low)))
        self.weight, self.rows = self.weight + float(w.sum()), self.rows + len(z)

    def side(self) -> str | None:
        """Where all readings may lie: "below", "above"; None: not all do, or nobody can tell.

        C by a χ² with its mean and its variance: exact for normal noise.
        """
        if math.sqrt(self.weight) * self.width / 2 < -2 * scipy.special.ndtri(TAIL):
            return None  # the release is too noisy to show anything else
        freedom = self.rows * NORMAL_SQUARES / self.squares
        most = float(scipy.special.chdtri(freedom, TAIL)) * self.rows / freedom
        inward = self.first / math.sqrt(self.weight)
        low, high = (inward <= -scipy.special.ndtri(TAIL)) & (self.second <= most)
        return "below" if low else "above" if high else None


def reaches(blocks: Callable[[], Iterable[Array]]) -> bool:
    """Whether some θ puts all rows on one side: h_kᵀd > 0 for d, least squares of 1 on H.

    With an intercept always; without one readings that go through zero have no such θ.
    """
    gram: Array | float = 0.0
    ones: Array | float = 0.0
    for H in blocks():
        gram, ones = gram + H.T @ H, ones + H.sum(axis=0)
    d = np.linalg.lstsq(np.atleast_2d(gram), np.atleast_1d(ones))[0]
    return all(bool((H @ d > 0).all()) for H in blocks())


def require_within(test: EndTest, source: Callable[[], Iterable[ClippedRows]]) -> None:
    """BeyondRange where all readings may lie beyond an end. Two more passes where they may."""
    side = test.side()
    if side is not None and reaches(lambda: (part[0] for part in chunks(source()))):
        raise BeyondRange(side)
