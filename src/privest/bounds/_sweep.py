"""The bound for many scalar levels at once, from one factorisation (`thm:crbound`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privest.arrays import EPS, Array, ArrayLike, Flags, as_array, plural
from privest.bounds._classical import Floor, classical_bound, local_model, require_size
from privest.bounds._crlb import inverse_information
from privest.bounds._trace_budget import eigen_coordinates, inverse_gram
from privest.errors import NotAPrivacyLevel
from privest.linalg import (
    PSD,
    Scalar,
    pointwise_weight,
    private_root,
    require_range,
    weighted_grams,
    weighted_roots,
)
from privest.linalg.batched import inverse_of_many
from privest.linalg.tolerances import INVISIBLE
from privest.model import LinearModel, NonlinearModel


@dataclass(frozen=True, eq=False)
class BoundSweep(Floor):
    """The floors of k scalar levels.

    levels         s (k,).
    information    PI (k, n, n).
    ppcrlb         Σ_PPCR (k, n, n).
    cost_floor     (HᵀSH)⁻¹ (k, n, n), below the cost Σ_PPCR − Σ_CR.
    classical      Σ_CR (n, n): the floor without privacy.
    names          of the parameters.

    A level of 0 shows nothing: variances are infinite there, and covariances not a number.
    """

    levels: Array
    information: Array
    ppcrlb: Array
    cost_floor: Array
    classical: Array
    names: tuple[str, ...]

    DERIVED: ClassVar[tuple[str, ...]] = (
        "identifiable", "trace", "standard_error", "classical_error",
    )  # fmt: skip

    @property
    def identifiable(self) -> Flags:
        """(k,): whether there is a finite bound."""
        return np.asarray(self.levels > 0)

    @property
    def trace(self) -> Array:
        """tr Σ_PPCR (k,)."""
        return np.asarray(self.ppcrlb.trace(axis1=1, axis2=2))

    def __len__(self) -> int:
        return len(self.levels)

    def __repr__(self) -> str:
        ends = f"{self.levels.min():g} to {self.levels.max():g}"
        count = plural(len(self.names), "parameter")
        return f"BoundSweep({plural(len(self), 'level')} from {ends}, {count})"


def bound_sweep(
    model: LinearModel | NonlinearModel, levels: ArrayLike, theta: ArrayLike | None = None
) -> BoundSweep:
    """What accuracy do the levels s·I allow, for every number s of `levels` (k,)?

        PI(s) = Hᵀ U diag(s / (1 + s λ)) Uᵀ H ,   Σ = U diag(λ) Uᵀ
        Σ_PPCR(s) = (1/s + σ²) (HᵀH)⁻¹            for Σ = σ²I

    The numbers are those of `bound(model, s)`, up to rounding. Raises NotIdentifiable if H does not
    determine θ even without privacy.
    Numerics: one pass over H for Σ = σ²I, whatever k. Otherwise one eigen-decomposition of Σ and
    k weighted Gram matrices of H, O(kmn²); levels at which these would lose digits go through the
    kernel of `bound` one by one.
    Source: `thm:crbound`, `coro:PPCR`.

    >>> from privest.noise import Gaussian
    >>> sweep = bound_sweep(LinearModel([[2.0]], noise=Gaussian(cov=0.5)), [0.0, 1.0, 4.0])
    >>> sweep.trace.tolist()  # (1/s + 1/2)/4
    [inf, 0.375, 0.1875]
    """
    numbers = as_array(levels, "the levels", ndim=1, error=NotAPrivacyLevel)
    if numbers.size == 0 or numbers.min() < 0:
        raise NotAPrivacyLevel("the levels of a sweep must be numbers ≥ 0, at least one of them.")
    require_size(numbers, "a level of the sweep")
    local = local_model(model, theta)
    classical = classical_bound(local)
    inverse = inverse_gram(local)
    shown = numbers > 0
    information = np.zeros((len(numbers), *inverse.shape))
    ppcrlb = np.full(information.shape, np.where(np.eye(len(inverse)) > 0, np.inf, np.nan))
    floor = ppcrlb.copy()
    with np.errstate(over="ignore", under="ignore"):  # looked at by require_range
        information[shown], ppcrlb[shown] = _private(local, numbers[shown], inverse)
        floor[shown] = inverse / numbers[shown][:, None, None]
    for found in (information, ppcrlb, floor):
        require_range(found[shown], "the bounds")
    return BoundSweep(numbers, information, ppcrlb, floor, classical, local.names)


def _private(model: LinearModel, levels: Array, inverse: Array) -> tuple[Array, Array]:
    """PI and its inverse for levels > 0; `inverse` is (HᵀH)⁻¹."""
    sigma = model.inverse_information
    if isinstance(sigma, Scalar):
        weight = np.asarray(pointwise_weight(levels, sigma.value))[:, None, None]
        gram = weighted_roots(model.matrix, [1.0])[0].information
        return weight * gram, inverse / weight
    values, rows = eigen_coordinates(model.matrix, sigma)
    information = weighted_grams(
        rows, len(levels), lambda part: np.asarray(pointwise_weight(levels[:, None], values[part]))
    )
    found, good = inverse_of_many(information)
    for k in np.flatnonzero(~(good & _exact(levels, values, sigma))):
        root = private_root(model.matrix, Scalar(float(levels[k]), model.readings), sigma)
        information[k], found[k] = root.information, inverse_information(root)
    return information, found


def _exact(levels: Array, values: Array, sigma: PSD) -> Flags:
    """(k,): at which levels the rounding of the eigenvalues of Σ stays invisible.

    It is a part of the largest one, and changes s/(1 + sλ) most for the smallest.
    """
    if sigma.pointwise is not None:
        return np.ones(len(levels), dtype=bool)
    error = 10 * EPS * values.max()
    return np.asarray(levels * error <= INVISIBLE * (1.0 + levels * values.min()))
