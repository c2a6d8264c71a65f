"""Tests of the whitened innovations ζ_k, independent N(0, I) at every level if the system is right.

With U (n, r) the innovations, made orthonormal, and S_h the shift by h steps over n_h pairs of
steps, the autocorrelations of lag h are UᵀS_hU. For white normal ζ exactly

    E ‖UᵀS_hU‖² = n_h r (1 + (r − 1)(n + 1)/(n − 1)) / (n(n + 2))

and Σ_h r²‖UᵀS_hU‖²/E is Ljung and Box's statistic for r = 1, Hosking's up to 1 + O(1/n) for
vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index, as_confidence, as_count
from privest.errors import InvalidInput
from privest.records import Record, quantile

FEWEST = 8  # innovations of which a shape can be told at all
WORDS = {
    "whiteness": "are correlated in time",
    "normality": "are not normal",
    "mean": "have a mean other than 0",
    "variance": "have a variance other than 1",
}


@dataclass(frozen=True)
class InnovationTest(Record):
    """A statistic, χ² with `freedom` degrees if the system is right; component: the entry of ζ,
    or None.
    """

    name: str
    component: int | None
    statistic: float
    freedom: int
    p_value: float

    def __str__(self) -> str:
        of = "" if self.component is None else f" of innovation {self.component}"
        return f"{self.name}{of}: p = {self.p_value:.3g}"


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Record):
    """Tests of a system by its innovations.

    innovations       ζ (series, K, r), NaN where nothing was shown; count (r,) of each entry.
    autocorrelations  (L, r, r): of entry i with entry j, h = 1, …, L steps before.
    pairs, band       (L, r, r): from how many pairs of steps; white noise is within ± band.
    parameters        as in `StateEstimate.diagnose`; fitted: to the same releases.
    """

    innovations: Array
    count: Index
    lags: int
    autocorrelations: Array
    pairs: Index
    band: Array
    tests: tuple[InnovationTest, ...]
    parameters: int
    fitted: bool
    confidence: float
    simulated: bool

    DERIVED: ClassVar[tuple[str, ...]] = ("verdict",)

    @property
    def alarms(self) -> tuple[InnovationTest, ...]:
        """The tests with p < (1 − confidence)/number of tests."""
        limit = (1 - self.confidence) / len(self.tests)
        return tuple(test for test in self.tests if test.p_value < limit)

    @property
    def verdict(self) -> str:
        alarms = self.alarms
        body = "none speaks against the system (which does not prove it)."
        if alarms:
            words = ", ".join(WORDS[name] for name in dict.fromkeys(own.name for own in alarms))
            listed = "; ".join(map(str, alarms))
            body = f"the system does not fit: its innovations {words} ({listed})."
        if self.fitted:
            body += (
                " The model was fitted to the same releases: that mean and variance then come out "
                "right says little."
            )
        count = int(self.count.sum())
        return f"{len(self.tests)} tests of {count} innovations, lags up to {self.lags}: {body}"

    def __repr__(self) -> str:
        return f"Diagnosis({self.verdict})"


def diagnosis_of(
    innovations: Array, simulated: bool, *, lags: int | None, parameters: int, confidence: float,
    fitted: bool | None,
) -> Diagnosis:  # fmt: skip
    every = np.array(innovations[None] if innovations.ndim == 2 else innovations)
    there = ~np.isnan(every)
    count = np.asarray(there.sum(axis=(0, 1)))
    shaping = as_count(parameters, "parameters", least=0)
    trust = as_confidence(confidence)
    most = _lags(every.shape[1], every.shape[2], lags, shaping)
    if count.min() < FEWEST:
        raise InvalidInput(
            f"A diagnosis needs at least {FEWEST} innovations of each entry; {int(count.min())} "
            "are there."
        )
    values = np.where(there, every, 0.0)
    size = np.sqrt(np.square(values).sum(axis=(0, 1)) / count)
    if not size.min() > 0:
        raise InvalidInput("The innovations of an entry are all 0: there is nothing to test.")
    unit = values / size
    sums = _products(unit, most)
    pairs = _pairs(there, most)
    divisor = np.where(pairs > 0, pairs, np.nan)  # nothing is known of a lag without pairs
    deviation = np.sqrt((1 - np.diag(2 / (count + 2))) / divisor)  # exact
    square = float(np.square(values).sum())
    n = int(count.sum())
    below = scipy.special.chdtr(n, square)
    above = scipy.special.chdtrc(n, square)
    mean = float((np.square(values.sum(axis=(0, 1))) / count).sum())
    tests = (
        *_whiteness(unit, there, sums, pairs, count, shaping), _normality(every, count),
        _upper("mean", None, mean, len(count)),
        InnovationTest("variance", None, square, n, min(1.0, 2 * float(min(below, above)))),
    )  # fmt: skip
    return Diagnosis(
        every, count, most, sums / divisor, pairs, quantile(trust) * deviation, tests, shaping,
        bool(shaping if fitted is None else fitted), trust, simulated,
    )  # fmt: skip


def _lags(steps: int, width: int, asked: int | None, fitted: int) -> int:
    if asked is None:
        found = min(int(10 * math.log10(steps)), steps // 5) if steps else 0
        found = max(found, 1, fitted // width**2 + 1)
    else:
        found = as_count(asked, "lags", least=1)
    if found >= steps:
        raise InvalidInput(f"{steps} steps have no lag of {found}: ask for fewer lags.")
    return found


def _products(unit: Array, lags: int) -> Array:
    """Σ_k ζ_k ζ_{k−h}ᵀ, (L, r, r)."""
    return np.stack(
        [np.einsum("ski,skj->ij", unit[:, h:], unit[:, :-h]) for h in range(1, lags + 1)]
    )


def _pairs(there: Flags, lags: int) -> Index:
    return np.asarray(_products(there.astype(np.float64), lags).round().astype(np.int64))


def _whiteness(
    unit: Array, there: Flags, sums: Array, pairs: Index, count: Index, fitted: int
) -> list[InnovationTest]:
    lags = len(sums)
    r = len(count)
    if r == 1:
        return [_portmanteau(sums, pairs[:, 0, 0], int(count[0]), fitted, None)]
    entries = [
        _portmanteau(sums[:, j : j + 1, j : j + 1], pairs[:, j, j], int(count[j]), 0, j)
        for j in range(r)
    ]
    whole: Flags = np.asarray(there.all(axis=2))
    n = int(whole.sum())
    both = _pairs(whole[:, :, None], lags)[:, 0, 0]
    if n <= max(r, lags) or not both.any():
        return entries  # too few steps are whole: entries only
    complete = np.where(whole[:, :, None], unit, 0.0)
    lower = np.linalg.cholesky(np.einsum("ski,skj->ij", complete, complete) / n)
    white = scipy.linalg.solve_triangular(lower, complete.reshape(-1, r).T, lower=True)
    among = _products(white.T.reshape(complete.shape), lags)
    return [_portmanteau(among, both, n, fitted, None), *entries]


def _portmanteau(
    sums: Array, pairs: Index, n: int, fitted: int, component: int | None
) -> InnovationTest:
    """Σ_h r²‖UᵀS_hU‖²/E‖UᵀS_hU‖² of innovations with unit mean squares: sums = n UᵀS_hU."""
    r = sums.shape[1]
    known = pairs > 0  # no step has one so many steps before it: no lag
    seen = np.square(sums[known] / n).sum(axis=(1, 2))
    expected = pairs[known] * r * (1 + (r - 1) * (n + 1) / (n - 1)) / (n * (n + 2))
    statistic = float(r**2 * (seen / expected).sum())
    freedom = int(known.sum()) * r**2 - fitted
    if freedom < 1:
        raise InvalidInput(
            f"{fitted} fitted parameters leave nothing to test in {int(known.sum())} lags: ask for "
            "more lags."
        )
    return _upper("whiteness", component, statistic, freedom)


def _normality(every: Array, count: Index) -> InnovationTest:
    own = [values[~np.isnan(values)] for values in every.reshape(-1, len(count)).T]
    if not all(np.ptp(values) > 0 for values in own):
        raise InvalidInput("The innovations of an entry are all the same: nothing to test.")
    total = sum(float(scipy.stats.jarque_bera(values).statistic) for values in own)
    return _upper("normality", None, total, 2 * len(count))


def _upper(name: str, component: int | None, statistic: float, freedom: int) -> InnovationTest:
    chance = float(scipy.special.chdtrc(freedom, statistic))
    return InnovationTest(name, component, statistic, freedom, chance)
