"""The classical Cramér-Rao bound Σ_CR = (HᵀΣ⁻¹H)⁻¹, without privacy; Σ may be singular."""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import NotIdentifiable
from privest.linalg import PSD, Blocks, InformationRoot, root_of_rows, weighted_roots
from privest.linalg.stacked import rank_tolerance, solve_lower
from privest.model import LinearModel


def parameter_list(directions: Array) -> str:
    """The parameters that take part in the directions (n, h): "θ[0], θ[2]"."""
    index = np.flatnonzero(np.linalg.norm(directions, axis=1) > 1e-8)
    return ", ".join(f"θ[{k}]" for k in index[:8]) + (", …" if len(index) > 8 else "")


def require_seen(model: LinearModel, root: InformationRoot | None = None) -> None:
    """Raise NotIdentifiable if H alone, whatever the privacy level, does not determine θ.

    `root` is the root of HᵀWH for some W > 0.
    """
    m, n = model.matrix.shape
    root = weighted_roots(model.matrix, [1.0])[0] if root is None else root
    root = root.with_tolerance(model.accuracy)
    if m < n:
        raise NotIdentifiable(
            f"{m} readings cannot determine {n} parameters: H has fewer rows than columns "
            f"(shape {(m, n)}). Add readings or drop parameters.",
            root.hidden,
        )
    zero = np.flatnonzero(root.column_scale == 0)
    if len(zero):
        listed = parameter_list(np.eye(n)[:, zero])
        raise NotIdentifiable(
            f"H has zero columns: no reading depends on {listed}.",
            root.hidden,
        )
    if root.rank < n:
        raise NotIdentifiable(
            f"H has rank {root.rank} of {n}: the columns of {parameter_list(root.hidden)} are "
            "linearly dependent, so these parameters cannot be told apart even without privacy.",
            root.hidden,
        )


def classical_bound(model: LinearModel) -> Array:
    """Σ_CR: the least error covariance of an unbiased estimate from y itself.

        Σ_CR = (Hᵀ Σ⁻¹ H)⁻¹ ,   Σ = (I_y(Hθ))⁻¹

    A singular Σ is taken as the limit of Σ + εI: readings without noise fix HᵀQ₀ exactly, and the
    rest is estimated in their null space.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0], [1.0]], noise=Gaussian(cov=[1.0, 3.0]))
    >>> classical_bound(model).round(12).tolist()
    [[0.75]]
    """
    sigma = model.inverse_information
    pointwise = sigma.pointwise
    if pointwise is not None and np.all(np.asarray(pointwise) > 0):
        root = weighted_roots(model.matrix, [1.0 / pointwise])[0]
        require_seen(model, root)
        return root.inverse()
    require_seen(model)
    if isinstance(sigma, Blocks) and sigma.positive_definite:
        return root_of_rows(_precision_rows(model.matrix, sigma)).inverse()
    return _limit(model.matrix, sigma)


def _precision_rows(matrix: Array, sigma: Blocks) -> Array:
    rows = np.empty(matrix.shape)
    for (index, _), factor in zip(sigma.groups, sigma.factors):
        rows[index] = solve_lower(factor.lower, matrix[index])
    return rows


def _limit(matrix: Array, sigma: PSD) -> Array:
    """lim ε→0 of (Hᵀ(Σ + εI)⁻¹H)⁻¹ by the eigenvectors of Σ."""
    pointwise = sigma.pointwise
    if pointwise is not None:
        values, rotated = sigma.diagonal(), matrix
    else:
        values, vectors = np.linalg.eigh(sigma.dense())
        rotated = vectors.T @ matrix
    floor = 0.0 if pointwise is not None else rank_tolerance(sigma.size) * values.max(initial=0)
    exact = values <= floor
    free = scipy.linalg.null_space(rotated[exact]) if exact.any() else np.eye(matrix.shape[1])
    if free.shape[1] == 0:
        return np.zeros((matrix.shape[1],) * 2)
    rows = rotated[~exact] @ free / np.sqrt(values[~exact])[:, None]
    result: Array = free @ root_of_rows(rows).inverse() @ free.T
    return result
