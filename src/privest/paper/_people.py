"""Streams of people: the set-up of `fig:pprls-non-syms` and `fig:pprls-syms`.

People are split at random into a reference set and blocks. The reference gives everything that is
public: the Box-Cox exponent, the units, the parameter that counts as true (least squares) and the
noise variance. Each block is a stream y_k = H_kθ + w_k of one person a step.

The private RLS is linear in the releases, θ̂_k = W_k z̃: thousands of repetitions are one product.
Steps before a block identifies θ are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import scipy

import privest as pv
from privest.arrays import Array, Index, as_kind
from privest.bounds import StreamBound
from privest.data.frames import Table
from privest.data.nhanes import load_nhanes
from privest.errors import InvalidInput
from privest.linalg import least_squares

P = TypeVar("P")
START = 10  # measurements from which claims are judged


@dataclass(frozen=True)
class Plan:
    """Sizes: people of the reference, `blocks` of `length`, and repetitions of each block."""

    reference: int
    blocks: int
    length: int
    repetitions: int = 20


# NHANES as in the paper. Diabetes has 442 people: a reference large enough that its own error is
# below a tenth of that of a block, four shorter streams, and as many runs as the paper, 400.
NHANES = Plan(reference=704, blocks=20, length=100)
DIABETES = Plan(reference=242, blocks=4, length=50, repetitions=100)


def people_of(data: str | Table, repetitions: int | None) -> tuple[Table, Plan]:
    """The table of an experiment, and how it is cut."""
    if isinstance(data, str):
        if data not in ("diabetes", "nhanes"):
            raise InvalidInput(f"data is 'diabetes', 'nhanes' or a table; received {data!r}.")
        data = load_nhanes() if data == "nhanes" else pv.data.load_diabetes()
    as_kind(data, Table, "data is 'diabetes', 'nhanes' or a table of data.load_nhanes")
    plan = NHANES if data.source.startswith("NHANES") else DIABETES
    count = plan.repetitions if repetitions is None else repetitions
    if count < 2:
        raise InvalidInput(f"at least 2 trials are needed; received {count}.")
    return data, replace(plan, repetitions=count)


@dataclass(frozen=True, eq=False)
class Split:
    """One random split of a table: public facts from the reference, and the blocks.

    rows                   H, (blocks, length, n); the first column is 1.
    measurements           y, (blocks, length): sensitive.
    theta, variance        least squares on the reference, and its residual variance.
    reference_covariance   of theta itself.
    centre                 mean response of the reference.
    """

    rows: Array = field(repr=False)
    measurements: Array = field(repr=False)
    theta: Array
    variance: float
    reference_covariance: Array = field(repr=False)
    centre: float


def split(table: Table, plan: Plan, rng: np.random.Generator) -> Split:
    """A random split of the table; nothing public is computed from the blocks."""
    needed = plan.reference + plan.blocks * plan.length
    if len(table) < needed:
        raise InvalidInput(
            f"{table.source} has {len(table)} people; {plan.blocks} blocks of {plan.length} and a "
            f"reference of {plan.reference} need {needed}."
        )
    order = rng.permutation(len(table))
    reference, others = order[: plan.reference], order[plan.reference : needed]
    response = table.response
    if not table.logarithm:
        exponent = float(scipy.stats.boxcox_normmax(response[reference], method="mle"))
        response = scipy.special.boxcox(response, exponent)
    response, features = _standard(response, reference), _standard(table.features, reference)
    rows = np.column_stack([np.ones(len(table)), features])
    theta, root = least_squares(rows[reference], response[reference])
    residual = response[reference] - rows[reference] @ theta
    variance = float(residual @ residual) / (plan.reference - len(theta))
    shape = (plan.blocks, plan.length)
    return Split(
        rows=rows[others].reshape(*shape, -1),
        measurements=response[others].reshape(shape),
        theta=theta,
        variance=variance,
        reference_covariance=variance * root.inverse(),
        centre=float(response[reference].mean()),
    )


def _standard(values: Array, reference: Index) -> Array:
    chosen = values[reference]
    spread = chosen.std(axis=0, ddof=1)
    if not np.all(spread > 0):
        raise InvalidInput("a column of the reference is constant: it has no standard unit.")
    return np.asarray((values - chosen.mean(axis=0)) / spread)


def drawn_level(length: int, rng: np.random.Generator) -> pv.StreamLevel:
    """S_k uniform in [0.2, 2], U_k = 0.1 √S_k ξ_k, ξ_k standard normal (`eq:barS`)."""
    s = rng.uniform(0.2, 2.0, length)
    ties = np.tril(rng.standard_normal((length, length)), -1)
    return pv.StreamLevel(s, 0.1 * np.sqrt(s)[:, None] * ties)


@dataclass(frozen=True, eq=False)
class Streams:
    """The B blocks of one split, K steps each: θ̂_k = W_k z̃, and the covariances of θ̂_k.

    weights    W_k (B, K, n, K); shown: A (K, K), what a release shows of the measurements.
    bound      Σ_PPCR,k (B, K, n, n). It is W_k A Σ Aᵀ W_kᵀ, `measured`, from w, and W_k W_kᵀ,
               `noise`, from the privacy noise.
    """

    split: Split
    shown: Array
    weights: Array
    bound: Array

    @classmethod
    def of(cls, own: Split, level: pv.StreamLevel) -> Streams:
        """The weights of `algo:PP_RLS`:  W_k = PI_k⁻¹ Σ_{j ≤ k} G_jᵀ [C⁻¹]_j ,  C Cᵀ = A Σ Aᵀ + I.

        Assumes Gaussian noise and one measurement a step. Cost: K³ a block.
        """
        (blocks, steps), n = own.measurements.shape, len(own.theta)
        weights = np.full((blocks, steps, n, steps), np.nan)
        bound = np.full((blocks, steps, n, n), np.nan)
        for b, rows in enumerate(own.rows):
            model = pv.LinearModel(rows, noise=own.variance)
            limits = StreamBound(model, level)
            first = limits.require_first()
            whitener = level.rows.whiten(model.covariance, np.eye(steps))
            sums = np.cumsum(limits.rows[:, :, None] * whitener[:, None, :], axis=0)
            bound[b, first:] = limits.covariance[first:]
            weights[b, first:] = bound[b, first:] @ sums[first:]
        return cls(own, level.rows.dense(), weights, bound)

    @property
    def first(self) -> int:
        """The first step (from 0) after which every block identifies θ."""
        return int(np.isfinite(self.floors).all(axis=0).argmax())

    @property
    def measured(self) -> Array:
        spread = np.sqrt(self.split.variance) * self.weights @ self.shown
        return np.asarray(spread @ spread.swapaxes(-1, -2))

    @property
    def noise(self) -> Array:
        return np.asarray(self.weights @ self.weights.swapaxes(-1, -2))

    @cached_property
    def floors(self) -> Array:
        """tr Σ_PPCR,k, (B, K)."""
        return np.asarray(np.trace(self.bound, axis1=-2, axis2=-1))

    def measurements(self, count: int) -> Array:
        """The people's own measurements, the same in every repetition, (count, B, K)."""
        return np.broadcast_to(self.split.measurements, (count, *self.split.measurements.shape))

    def synthetic(self, count: int, rng: np.random.Generator) -> Array:
        """Measurements of the same rows with θ_ref true and fresh noise, (count, B, K)."""
        own = self.split
        w = rng.standard_normal((count, *own.measurements.shape))
        return np.asarray(own.rows @ own.theta + np.sqrt(own.variance) * w)

    def estimates(self, measurements: Array, noise: Array) -> Array:
        """θ̂_k of the private RLS, (count, B, K, n), from measurements and unit noise."""
        releases = measurements @ self.shown.T + noise
        return np.asarray(np.einsum("bknj,rbj->rbkn", self.weights, releases, optimize=True))

    def squared_errors(self, measurements: Array, noise: Array) -> Array:
        """‖θ̂_k − θ_ref‖², (count, B, K)."""
        error = self.estimates(measurements, noise) - self.split.theta
        return np.asarray((error**2).sum(axis=-1))


def sampling_error(errors: Array, floors: Array, *, fresh: bool) -> Array:
    """The standard error of the mean of errors (repetitions, B, K), floors (B, K).

    Over repetitions, if the measurements are `fresh` in each; else over the blocks.
    """
    if fresh:
        cells = errors.mean(axis=1)
        return ratio_error(cells, np.ones_like(cells))
    return ratio_error(errors.mean(axis=0), floors)


def by_step(
    point: Callable[..., P], first: int, columns: Mapping[str, Array], **same: str | int
) -> list[P]:
    """A point of a figure for every step from `first`."""
    steps = len(next(iter(columns.values())))
    return [
        point(k=i + 1, **same, **{name: float(values[i]) for name, values in columns.items()})
        for i in range(first, steps)
    ]


def ratio_error(cells: Array, floors: Array) -> Array:
    """The standard error of mean(cells), (C, K): independent cells with expectation ∝ floors."""
    count = len(cells)
    ratio = cells.mean(axis=0) / floors.mean(axis=0)
    rest = cells - ratio * floors
    return np.asarray(np.sqrt((rest**2).sum(axis=0) / (count * (count - 1))))
