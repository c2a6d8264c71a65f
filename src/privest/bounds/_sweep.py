"""The bound for many scalar levels at once, from one factorisation (`thm:crbound`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from privest.arrays import EPS, Array, ArrayLike, Flags, as_array, plural
from privest.bounds._bound import Bound, GivenBound, inverse_information, unknown
from privest.bounds._classical import classical_bound, local_model, require_size
from privest.bounds._trace import eigen_coordinates, inverse_gram
from privest.errors import InvalidInput
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
from privest.records import plain


class Sweep(GivenBound):
    """The bounds of k scalar levels; `levels` (k,)."""

    levels: Array

    def __init__(
        self, names: tuple[str, ...], levels: Array, information: Array, covariance: Array,
        floor: Array, classical: Array,
    ) -> None:  # fmt: skip
        super().__init__(names, covariance, classical, information=information)
        self.levels = levels
        self._floor = floor

    @property
    def cost_floor(self) -> Array:
        return self._floor

    @property
    def trace(self) -> Array:
        """tr Σ_PPCR (k,)."""
        return np.asarray(self.covariance.trace(axis1=1, axis2=2))

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, k: int) -> Bound:
        return GivenBound(
            self.names, self.covariance[k], self.classical, information=self.information[k]
        )

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"levels": plain(self.levels)}

    def __repr__(self) -> str:
        ends = f"{self.levels.min():g} to {self.levels.max():g}"
        count = plural(len(self.names), "parameter")
        return f"Bound({plural(len(self), 'level')} from {ends}, {count})"


def sweep(
    model: LinearModel | NonlinearModel, levels: ArrayLike, *, theta: ArrayLike | None = None
) -> Sweep:
    """The bounds of the levels s·I for every number s of `levels` (k,).

        PI(s) = Hᵀ U diag(s / (1 + s λ)) Uᵀ H ,   Σ = U diag(λ) Uᵀ
        Σ_PPCR(s) = (1/s + σ²) (HᵀH)⁻¹            for Σ = σ²I

    Raises NotIdentifiable if H does not determine θ. Cost: one pass over H for Σ = σ²I; otherwise
    one eigen-decomposition of Σ and O(kmn²). Source: `thm:crbound`, `coro:PPCR`.

    >>> from privest.noise import Gaussian
    >>> found = sweep(LinearModel([[2.0]], noise=Gaussian(cov=0.5)), [0.0, 1.0, 4.0])
    >>> found.covariance.ravel().tolist()  # (1/s + 1/2)/4
    [inf, 0.375, 0.1875]
    """
    numbers = as_array(levels, "the levels", ndim=1)
    if numbers.size == 0 or numbers.min() < 0:
        raise InvalidInput("the levels of a sweep must be numbers ≥ 0, at least one of them.")
    require_size(numbers, "a level of the sweep")
    local = local_model(model, theta)
    classical = classical_bound(local)
    inverse = inverse_gram(local)
    shown = numbers > 0
    information = np.zeros((len(numbers), *inverse.shape))
    covariance = np.full(information.shape, unknown(len(inverse)))
    floor = covariance.copy()
    with np.errstate(over="ignore", under="ignore"):  # looked at by require_range
        information[shown], covariance[shown] = _private(local, numbers[shown], inverse)
        floor[shown] = inverse / numbers[shown][:, None, None]
    for found in (information, covariance, floor):
        require_range(found[shown], "the bounds")
    return Sweep(local.names, numbers, information, covariance, floor, classical)


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
        root = private_root(model.matrix, Scalar(float(levels[k]), model.measurements), sigma)
        information[k], found[k] = root.information, inverse_information(root)
    return information, found


def _exact(levels: Array, values: Array, sigma: PSD) -> Flags:
    """(k,): at which levels the rounding of the eigenvalues of Σ stays invisible."""
    if sigma.pointwise is not None:
        return np.ones(len(levels), dtype=bool)
    error = 10 * EPS * values.max()
    return np.asarray(levels * error <= INVISIBLE * (1.0 + levels * values.min()))
