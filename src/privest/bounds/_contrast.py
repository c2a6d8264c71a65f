"""The bound of combinations aᵀθ when only a part of θ can be estimated (`thm:crbound`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index
from privest.bounds._bound import GivenBound, contrast_names, contrast_rows, unknown
from privest.bounds._classical import classical_bound, open_root, parameter_list
from privest.errors import NumericalFailure
from privest.linalg import (
    PSD,
    InformationRoot,
    level_root,
    private_root,
    root_of_rows,
    weighted_roots,
)
from privest.linalg.batched import substitute
from privest.model import LinearModel

# A vector lies in the row space if its part outside is below so many times the rounding of that
# space: the vector itself was rounded too.
TURNED = 10.0


class ContrastBound(GivenBound):
    """The bound of aᵀθ for each row a; infinite where no release within the level reveals aᵀθ.

    hidden        (k, n): a unit vector v, aᵀv ≠ 0, that no release within the level reveals; zeros
                  where aᵀθ is identifiable.
    measurements  for each a those that see this direction.
    """

    hidden: Array
    measurements: tuple[Index, ...]
    parameters: tuple[str, ...]

    def __init__(
        self, rows: Array, covariance: Array, classical: Array, hidden: Array,
        measurements: tuple[Index, ...], parameters: tuple[str, ...],
    ) -> None:  # fmt: skip
        super().__init__(contrast_names(rows, parameters), covariance, classical)
        self.hidden = hidden
        self.measurements = measurements
        self.parameters = parameters

    @property
    def shown(self) -> Flags:
        return np.isfinite(self.covariance.diagonal())

    def explain(self) -> str:
        """One line for each a; measurements are counted from 0."""
        every = zip(
            self.names, self.standard_error, self.classical_error, self.hidden, self.measurements
        )
        return "\n".join(self._line(*one) for one in every)

    def _line(self, what: str, error: float, without: float, hidden: Array, seen: Index) -> str:
        if np.isfinite(error):
            return f"{what}: standard error at least {error:.4g} ({without:.4g} without privacy)"
        along = parameter_list(hidden[:, None], self.parameters)
        if not np.isfinite(without):
            return f"{what}: hidden even without privacy: H does not see a change of {along}"
        listed = ", ".join(map(str, seen[:6])) + (", …" if len(seen) > 6 else "")
        return (
            f"{what}: hidden by the level: no release within it shows a change of {along}; "
            f"a higher level of these measurements would: {listed}"
        )

    def __repr__(self) -> str:
        lines = self.explain().split("\n")
        return f"Bound({lines[0]}{f'; {len(lines) - 1} more' if lines[1:] else ''})"


def contrast_bound(
    model: LinearModel, level: PSD, weights: ArrayLike | Mapping[str, float]
) -> ContrastBound:
    """The bound of aᵀθ under the level, H of any rank.

        var aᵀθ̂ ≥ aᵀ PI⁺ a  if a lies in the range of PI, else inf

    Where it is infinite LᵀHv = 0 and aᵀv ≠ 0: the releases of θ and θ + v have one distribution.
    Numerics: |T⁻ᵀVᵀ(a/d)|², V the row space of LᵀH with columns scaled by d, T the triangle of the
    whitened rows in it.
    """
    rows = contrast_rows(weights, model.names)
    allowed = level_root(model.matrix, level).with_tolerance(model.accuracy)
    seen = weighted_roots(model.matrix, [1.0])[0].with_tolerance(model.accuracy)
    by_level = _hidden(allowed, rows)
    openly = _hidden(seen, rows)
    open_shown: Flags = np.all(openly == 0, axis=1)
    shown: Flags = np.all(by_level == 0, axis=1) & open_shown
    covariance = unknown(len(rows))
    classical = unknown(len(rows))
    if shown.any():
        root = private_root(model.matrix, level, model.inverse_information)
        covariance[np.ix_(shown, shown)] = _covariance(allowed, root, rows[shown])
    if open_shown.any():
        classical[np.ix_(open_shown, open_shown)] = _classical(model, seen, rows[open_shown])
    hidden = np.where(open_shown[:, None], by_level, openly)
    measurements = tuple(
        _that_see(model.matrix, allowed, direction) if by else np.zeros(0, dtype=np.intp)
        for direction, by in zip(hidden, open_shown & ~shown)
    )
    return ContrastBound(rows, covariance, classical, hidden, measurements, model.names)


def _hidden(root: InformationRoot, rows: Array) -> Array:
    """For each row a a unit vector v with Rv = 0 and aᵀv > 0; zeros where there is none."""
    found = np.zeros(rows.shape)
    scale, null, turned = root.null_space
    if not null.shape[1]:
        return found
    top = np.abs(rows).max(axis=1)
    sized = rows / np.where(top > 0, top, 1.0)[:, None]
    # A column of zeros has no natural size: what asks for it is hidden whatever its coefficient.
    absent = root.column_scale == 0
    b = np.where(absent, 0.0, sized / scale)
    part = (b @ null) @ null.T
    outside = np.linalg.norm(part, axis=1) > TURNED * turned * np.linalg.norm(b, axis=1)
    found[outside] = part[outside] / scale
    alone = sized[:, absent].any(axis=1)
    found[alone] = np.where(absent, sized[alone], 0.0)
    found[outside | alone] /= np.abs(found[outside | alone]).max(axis=1, keepdims=True)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(length > 0, length, 1.0))


def _covariance(
    decided: InformationRoot, root: InformationRoot, rows: Array, *, graded: bool = False
) -> Array:
    """A(RᵀR)⁺Aᵀ for rows a in the row space of `decided`; `graded` as in `inverse`."""
    n = len(root.triangle)
    top = np.abs(rows).max(axis=1)
    b = rows / np.where(top > 0, top, 1.0)[:, None]
    if decided.rank == n:
        failed = not np.diagonal(root.triangle).all() if graded else root.rank < n
    else:
        scale, space = decided.row_space
        if not space.shape[1]:
            return np.zeros((len(rows),) * 2)  # nothing is seen, and nothing is asked for
        root = root_of_rows((root.triangle / scale) @ space)
        b = (b / scale) @ space
        failed = root.rank < space.shape[1]
    if failed:
        raise NumericalFailure(
            "This combination can be estimated, but the information matrix is too "
            f"ill-conditioned for double precision (condition {root.condition:.2g} of its root). "
            "Rescale or drop nearly dependent parameters."
        )
    half = substitute(root.triangle, b.T, transposed=True)
    with np.errstate(over="ignore", under="ignore"):
        covariance = half.T @ half * top * top[:, None]
    variance = covariance.diagonal()
    if not np.isfinite(covariance).all() or ((variance <= 0) & (top > 0)).any():
        raise NumericalFailure(
            "The variance of this combination leaves the range of numbers: take smaller or larger "
            "coefficients, or another unit."
        )
    return np.asarray(covariance)


def _classical(model: LinearModel, seen: InformationRoot, rows: Array) -> Array:
    root = open_root(model.matrix, model.inverse_information)
    if root is not None:
        pointwise = model.inverse_information.pointwise is not None
        return _covariance(seen, root, rows, graded=pointwise)
    scale, space = seen.row_space
    covariance = classical_bound(LinearModel((model.matrix / scale) @ space, model.noise))
    b = (rows / scale) @ space
    return np.asarray(b @ covariance @ b.T)


def _that_see(matrix: Array, root: InformationRoot, direction: Array) -> Index:
    scale, _, turned = root.null_space
    length = np.linalg.norm(matrix, axis=0)
    unit = np.where(root.column_scale > 0, scale, np.where(length > 0, length, 1.0))
    moved = direction * unit
    rows = matrix / unit
    least = turned * np.linalg.norm(rows, axis=1) * np.linalg.norm(moved)
    return np.flatnonzero(np.abs(rows @ moved) > least)
