"""Cost of a range before any release: how much is clipped, and what it does to θ̂."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array, as_kind, as_scale
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator._clipped import HIDDEN
from privest.estimator.likelihood._clipped import (
    clipped_information,
    clipped_moments,
    direct_information,
)
from privest.linalg.running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.model import LinearModel
from privest.privacy import Range, as_range
from privest.records import Record

CHUNK = 8192  # rows at a time
WIDE = 1e6  # in σ: a range with only one end in reach


@dataclass(frozen=True, eq=False, kw_only=True)
class ClippingCost(Record):
    """Cost of clipping by coefficient, against the same release without a range.

    share                mean over rows of Φ((low − m_k)/σ) + Φ((m_k − high)/σ).
    variance_ratio       (n,) of variances of maximum likelihood to those without clipping.
    bias                 (n,) of least squares on the clipped release.
    least_squares_ratio  (n,) of its mean squared errors to variances without clipping.
    """

    share: float
    standard_error: Array
    variance_ratio: Array
    bias: Array
    least_squares_ratio: Array
    rows: int


@overload
def clipping_cost(
    model: LinearModel,
    level: float,
    range: Range | tuple[float, float],
    *,
    theta: ArrayLike,
    variance_known: bool = True,
) -> ClippingCost: ...
@overload
def clipping_cost(
    model: LinearModel, level: float, range: Range | tuple[float, float], *, shares: ArrayLike
) -> CostByShare: ...  # fmt: skip
def clipping_cost(
    model: LinearModel,
    level: float,
    range: Range | tuple[float, float],
    *,
    theta: ArrayLike | None = None,
    shares: ArrayLike | None = None,
    variance_known: bool = True,
) -> ClippingCost | CostByShare:
    """Cost of clipping measurements to a public range for an estimate of θ, before any release.

    level           s of every measurement; the noise of the model has one variance σ².
    theta           θ from public knowledge: the cost at the means Hθ, by coefficient.
    shares          the cost as a function of the share clipped, where θ is not known.
    variance_known  False: σ² will be estimated from the release too; its error is counted.

    NotIdentifiable where clipping hides a combination of the coefficients.

    >>> model = LinearModel(np.ones((100, 1)), noise=1.0)
    >>> cost = clipping_cost(model, 1.0, (-1.0, 50.0), theta=[0.0])
    >>> round(cost.share, 4), cost.variance_ratio.round(3).tolist()  # Φ(−1)
    (0.1587, [1.218])
    """
    as_kind(model, LinearModel, "model must be a LinearModel")
    variances = model.covariance.diagonal()
    if model.covariance.pointwise is None or not (variances == variances[0]).all():
        raise InvalidInput("the cost of clipping is for independent noise of one variance.")
    variance = float(variances[0])
    if (theta is None) == (shares is None):
        raise InvalidInput("state theta or shares, one of them.")
    if shares is not None:
        return cost_by_share(variance, level, range, shares)
    assert theta is not None
    return cost_of_rows(model.matrix, theta, variance, level, range, variance_known=variance_known)


def cost_of_rows(
    H: ArrayLike,
    theta: ArrayLike,
    variance: float,
    level: float,
    limits: Range | tuple[float, float],
    *,
    variance_known: bool = True,
) -> ClippingCost:
    """Cost of clipping at m_k = h_kᵀθ; `H` (rows, n)."""
    ends = as_range(limits)
    sd, added = np.sqrt(as_scale(variance, "variance")), 1 / as_scale(level, "level")
    expected = as_array(theta, "the expected coefficients", ndim=1)
    n, total = len(expected), sd**2 + added
    start = RunningLeastSquares(n, rounding(n))
    for rows in _rows(H, n):
        start.add(np.asfortranarray(np.column_stack([rows, np.zeros(len(rows))]) / np.sqrt(total)))
    if not start.full:
        raise NotIdentifiable("the rows do not determine all coefficients.", start.root().hidden)
    back = np.linalg.inv(np.triu(start.triangle[:n, :n]))
    information, scatter = np.zeros((n, n)), np.zeros((n, n))
    bias, crossed, own, share, count = np.zeros(n), np.zeros(n), 0.0, 0.0, 0
    for rows in _rows(H, n):
        mean, unit = rows @ expected, rows @ back
        square, mixed, both = clipped_information(mean, sd, np.sqrt(added), ends.low, ends.high)
        outside, shift, spread = clipped_moments(mean, sd, ends.low, ends.high)
        information += unit.T @ (square[:, None] * unit)
        scatter += unit.T @ (((spread + added) / total**2)[:, None] * unit)
        bias += (shift / total) @ unit
        crossed, own = crossed + mixed @ unit, own + float(both.sum())
        share, count = share + float(outside.sum()), count + len(rows)
    if not variance_known and own > 0:
        information = information - np.outer(crossed, crossed) / own
    values, vectors = np.linalg.eigh(information)
    if not values[0] > HIDDEN:  # without clipping they are 1
        raise NotIdentifiable(
            f"with {100 * share / count:.3g} % of the measurements clipped nothing is left of a "
            "combination of the coefficients: a wider range is needed."
        )
    plain, clipped = (
        np.square(half).sum(axis=1) for half in (back, back @ (vectors / np.sqrt(values)))
    )
    naive = np.diagonal(back @ scatter @ back.T) + (back @ bias) ** 2
    return ClippingCost(
        share=share / count,
        standard_error=np.sqrt(clipped),
        variance_ratio=clipped / plain,
        bias=back @ bias,
        least_squares_ratio=naive / plain,
        rows=count,
    )


def _rows(H: ArrayLike, n: int) -> Iterator[Array]:
    rows = as_array(H, "H", ndim=2)
    if rows.shape[1] != n:
        raise InvalidInput(f"H has {rows.shape[1]} columns; there are {n} coefficients.")
    for at in range(0, len(rows), CHUNK):
        yield rows[at : at + CHUNK]


@dataclass(frozen=True, eq=False, kw_only=True)
class CostByShare(Record):
    """Cost of clipping by the share clipped, for measurements of one unknown mean.

    one_end, both_ends  (k,): factor on the variance when that share is clipped at one end, or half
                        of it at each; bias (k,) of the mean of clipped measurements.
    least_share         2Φ(−width/2σ): clipped at least.
    """

    share: Array
    one_end: Array
    both_ends: Array
    bias: Array
    least_share: float
    variance: float


def cost_by_share(
    variance: float,
    level: float,
    limits: Range | tuple[float, float],
    shares: ArrayLike = (0.01, 0.05, 0.1, 0.2, 0.3),
) -> CostByShare:
    """Cost of clipping as a function of the share clipped."""
    added, sd = 1 / as_scale(level, "level"), np.sqrt(as_scale(variance, "variance"))
    share = as_array(shares, "shares", ndim=1)
    if not share.size or not ((share > 0) & (share < 1)).all():
        raise InvalidInput(
            "shares of clipped measurements lie between 0 and 1, at least one of them."
        )
    noise, total = np.sqrt(added) / sd, 1 + added / sd**2
    # In units of σ, the end at 0, the mean at x.
    one, both = -scipy.special.ndtri(share), -scipy.special.ndtri(share / 2)
    single = direct_information(one, WIDE, noise)[0]
    double = direct_information(both, 2 * both, noise)[0]
    ends = as_range(limits)
    return CostByShare(
        share=share,
        one_end=1 / (total * single),
        both_ends=1 / (total * double),
        bias=sd * clipped_moments(one, 1.0, 0.0, WIDE)[1],
        least_share=float(2 * scipy.special.ndtr(-0.5 * ends.width / sd)),
        variance=float(sd) ** 2,
    )
