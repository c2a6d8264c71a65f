"""θ̂ from noisy sums of private values: an aggregate release that is charged and drawn at once."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import partial

import numpy as np

from privest.aggregate import (
    FeatureRows,
    Split,
    kind_of,
    release_sums,
    split,
    sum_covariance,
    sum_design,
)
from privest.arrays import Array, as_positive
from privest.errors import InvalidInput
from privest.estimator.result import Estimate
from privest.ledger import Account, Budget, Cost
from privest.linalg import RunningLeastSquares
from privest.mechanism import as_range
from privest.mechanism.source import Source
from privest.privacy import Range, gdp


def estimate_sums(
    rows: FeatureRows,
    values: Iterable[Array],
    names: tuple[str, ...],
    range: object,
    source: Source,
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    level: float | None = None,
    account: Account | None = None,
) -> Estimate:
    """One aggregate release (`aggregate.release_sums`) and the estimate from it.

    rows, values   H, public, and the private values beside its blocks; clipped to the range.
    epsilon, delta differential privacy of one value anywhere in the range; or level, s of one
    value. account        is charged before anything is drawn.
    """
    ends = as_range(range)
    if ends is None:
        raise InvalidInput("noisy sums need a range (low, high): values are clipped to it.")
    limits = Range(*ends)
    if epsilon is not None and level is None:
        promise = {"mu": gdp.mu_of(epsilon, delta)}
    elif level is not None and epsilon is None:
        promise = {"level": as_positive(level, "level")}
    else:
        raise InvalidInput("noisy sums need epsilon or level, one of them.")
    sums = RunningLeastSquares(rows.n)
    for triangle in rows.map(partial(np.linalg.qr, mode="r")):
        sums.add_matrix(triangle)
    sums.require_full(names, f"X, {rows.count:,} samples", rows.count)
    design = sum_design(rows, sums.upper)
    own = split(kind_of(design, limits, **promise), rows.n, limits, **promise)
    if account is not None:
        _charge(account, own, limits, rows.count)
    drawn = release_sums(design, values, limits, own, source)
    variance, freedom = drawn.chosen()
    return Estimate(
        value=drawn.estimate,
        covariance=sum_covariance(design.sums.cross, design.sums.gram, own.level, variance),
        names=names, simulated=source.simulated, method="noisy sums",
        degrees_of_freedom=None if np.isinf(freedom).all() else freedom,
    )  # fmt: skip


def _charge(account: Account, own: Split, limits: Range, count: int) -> None:
    mu2 = Fraction(own.stated) ** 2
    if not account.is_open:
        account.open(Budget(level=own.exposure))
    cost = Cost(own.exposure, mu2=mu2, rho=mu2 / 2, sensitivity=limits.width)
    account.spend(cost, start=0, stop=count)
