"""The bound for combinations aᵀθ when only a part of θ can be estimated (`thm:crbound`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index, as_array, as_number
from privest.bounds._classical import (
    classical_bound,
    in_range,
    level_for,
    local_model,
    open_root,
    parameter_list,
)
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import (
    InformationRoot,
    level_root,
    private_root,
    root_of_rows,
    weighted_roots,
)
from privest.linalg.batched import substitute
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel
from privest.records import Record

# A vector lies in the row space if its part outside is below so many times what rounding may have
# turned that space by: the vector itself was rounded too.
TURNED = 10.0


@dataclass(frozen=True, eq=False)
class FunctionalBound(Record):
    """The floor on the variance of an unbiased estimate of aᵀθ, for one a or for several.

    vector        a, (n,), or (k, n): one a row.
    variance      the floor, a number or (k,); inf where no release within the level shows aᵀθ.
    classical     the same without privacy; inf where the readings themselves do not show it.
    identifiable  where the variance is finite.
    hidden        (n,) or (k, n): a direction of θ that changes aᵀθ and that no release within the
                  level shows, as a unit vector; zeros where aᵀθ is identifiable.
    readings      for each a the readings that see this direction: a higher level of one of them
                  shows it. None where nothing is hidden, or H itself does not see it.
    names         of the parameters.
    """

    vector: Array
    variance: Array
    classical: Array
    identifiable: Flags
    hidden: Array
    readings: tuple[Index, ...]
    names: tuple[str, ...]

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error", "classical_error")

    @property
    def standard_error(self) -> Array:
        """√variance: the least standard error of each aᵀθ."""
        return np.sqrt(self.variance)

    @property
    def classical_error(self) -> Array:
        """√classical: the least standard error without privacy."""
        return np.sqrt(self.classical)

    def explain(self) -> str:
        """One line for each a; readings are counted from 0."""
        every = zip(
            np.atleast_2d(self.vector), np.atleast_1d(self.standard_error),
            np.atleast_1d(self.classical_error), np.atleast_2d(self.hidden), self.readings,
        )  # fmt: skip
        return "\n".join(self._line(*one) for one in every)

    def _line(self, a: Array, error: float, without: float, hidden: Array, readings: Index) -> str:
        what = _written(a, self.names)
        if np.isfinite(error):
            return f"{what}: standard error at least {error:.4g} ({without:.4g} without privacy)"
        along = parameter_list(hidden[:, None], self.names)
        if not np.isfinite(without):
            return f"{what}: hidden even without privacy: H does not see a change of {along}"
        listed = ", ".join(map(str, readings[:6])) + (", …" if len(readings) > 6 else "")
        return (
            f"{what}: hidden by the level: no release within it shows a change of {along}; "
            f"a higher level of these readings would: {listed}"
        )

    def __repr__(self) -> str:
        lines = self.explain().split("\n")
        return f"FunctionalBound({lines[0]}{f'; {len(lines) - 1} more' if lines[1:] else ''})"


def functional(
    model: LinearModel | NonlinearModel, level: PrivacyLevel | ArrayLike,
    a: ArrayLike | Mapping[str, float], theta: ArrayLike | None = None,
) -> FunctionalBound:  # fmt: skip
    """How well can aᵀθ be estimated under the level, though perhaps θ itself cannot?

        var aᵀθ̂ ≥ aᵀ PI⁺ a  if a lies in the range of PI, else inf

    Symbols: `model` and `level` as for `bound`, H of any rank; `a` a vector of n coefficients, a
    matrix (k, n) with one a row, or {name: coefficient} for one; `theta` for a nonlinear model,
    where aᵀθ is a small change about it.
    Assumes what `bound` assumes; where θ is identifiable the answer is aᵀ Σ_PPCR a.
    Guarantees: the floor holds for every mechanism with I_z(y) ≤ S and every unbiased estimate of
    aᵀθ; it is attained where `bound` is (least squares in what is seen). Where it is infinite
    `hidden` is a direction v with LᵀHv = 0 and aᵀv ≠ 0: the releases of θ and of θ + v have one
    law.
    Numerics: never a pseudo-inverse of PI, which squares the condition and depends on units. The
    row space V of LᵀH is decided with every column in its natural size d, then
    |T⁻ᵀVᵀ(a/d)|² with T the triangle of the whitened rows in this space. A part of a outside the
    row space that rounding of H could explain counts as none.
    Cost: that of `bound`.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0, -1.0], [1.0, -1.0]], noise=Gaussian(cov=1.0))  # differences only
    >>> found = functional(model, 1.0, [[1.0, -1.0], [1.0, 0.0]])
    >>> found.variance.round(12).tolist()
    [1.0, inf]
    >>> print(found.explain())
    θ[0] − θ[1]: standard error at least 1 (0.7071 without privacy)
    θ[0]: hidden even without privacy: H does not see a change of θ[0], θ[1]
    """
    local = in_range(local_model(model, theta))
    vector = _vectors(a, local)
    rows = np.atleast_2d(vector)
    s, sigma = level_for(level, local), local.inverse_information
    allowed = level_root(local.matrix, s).with_tolerance(local.accuracy)
    seen = weighted_roots(local.matrix, [1.0])[0].with_tolerance(local.accuracy)
    by_level, openly = _hidden(allowed, rows), _hidden(seen, rows)
    open_shown: Flags = np.all(openly == 0, axis=1)
    shown: Flags = np.all(by_level == 0, axis=1) & open_shown
    variance, classical = np.full((2, len(rows)), np.inf)
    if shown.any():
        root = private_root(local.matrix, s, sigma)
        variance[shown] = _variances(allowed, root, rows[shown])
    if open_shown.any():
        classical[open_shown] = _classical(local, seen, rows[open_shown])
    hidden = np.where(open_shown[:, None], by_level, openly)
    shape = vector.shape[:-1]
    return FunctionalBound(
        vector=vector,
        variance=variance.reshape(shape)[()],
        classical=classical.reshape(shape)[()],
        identifiable=shown.reshape(shape)[()],
        hidden=hidden.reshape(vector.shape),
        readings=tuple(
            _that_see(local.matrix, allowed, direction) if by else np.zeros(0, dtype=np.intp)
            for direction, by in zip(hidden, open_shown & ~shown)
        ),
        names=local.names,
    )


def _vectors(a: ArrayLike | Mapping[str, float], model: LinearModel) -> Array:
    """a, (n,) or (k, n), from numbers or from coefficients by name."""
    if isinstance(a, Mapping):
        strange = [str(name) for name in a if name not in model.names]
        if strange:
            raise InvalidInput(
                f"there is no parameter {strange[0]!r}; there are: {', '.join(model.names)}."
            )
        return np.array(
            [as_number(a.get(name, 0.0), f"the coefficient of {name}") for name in model.names]
        )
    vector = as_array(a, "a", ndim=(1, 2))
    if vector.shape[-1] != model.parameters or not vector.size:
        raise InvalidInput(
            f"a must have {model.parameters} coefficients, one a parameter, in one row or in "
            f"several; received shape {vector.shape}."
        )
    return vector


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


def _variances(
    decided: InformationRoot, root: InformationRoot, rows: Array, *, graded: bool = False
) -> Array:
    """aᵀ(RᵀR)⁺a for rows a in the row space of `decided`, which is that of R.

    `graded`: as for `InformationRoot.inverse`, where everything is seen.
    """
    n = len(root.triangle)
    top = np.abs(rows).max(axis=1)
    b = rows / np.where(top > 0, top, 1.0)[:, None]
    if decided.rank == n:
        failed = not np.diagonal(root.triangle).all() if graded else root.rank < n
    else:
        scale, space = decided.row_space
        if not space.shape[1]:
            return np.zeros(len(rows))  # nothing is seen, and nothing is asked for
        root, b = root_of_rows((root.triangle / scale) @ space), (b / scale) @ space
        failed = root.rank < space.shape[1]
    if failed:
        raise NumericalFailure(
            "This combination can be estimated, but the information matrix is too "
            f"ill-conditioned for double precision (condition {root.condition:.2g} of its root). "
            "Rescale or drop nearly dependent parameters."
        )
    half = substitute(root.triangle, b.T, transposed=True)
    with np.errstate(over="ignore", under="ignore"):
        variance = np.einsum("ij,ij->j", half, half) * top * top
    if not np.isfinite(variance).all() or ((variance <= 0) & (top > 0)).any():
        raise NumericalFailure(
            "The variance of this combination leaves the range of numbers: take smaller or larger "
            "coefficients, or another unit."
        )
    return np.asarray(variance)


def _classical(model: LinearModel, seen: InformationRoot, rows: Array) -> Array:
    """The variances without privacy; of a singular Σ through the parameters that H sees."""
    root = open_root(model.matrix, model.inverse_information)
    if root is not None:
        pointwise = model.inverse_information.pointwise is not None
        return _variances(seen, root, rows, graded=pointwise)
    scale, space = seen.row_space
    covariance = classical_bound(LinearModel((model.matrix / scale) @ space, model.noise))
    b = (rows / scale) @ space
    return np.asarray(np.einsum("ij,jk,ik->i", b, covariance, b))


def _that_see(matrix: Array, root: InformationRoot, direction: Array) -> Index:
    """The readings whose h_kᵀv is not zero beyond rounding, in units in which no column decides."""
    scale, _, turned = root.null_space
    length = np.linalg.norm(matrix, axis=0)
    unit = np.where(root.column_scale > 0, scale, np.where(length > 0, length, 1.0))
    moved = direction * unit
    rows = matrix / unit
    least = turned * np.linalg.norm(rows, axis=1) * np.linalg.norm(moved)
    return np.flatnonzero(np.abs(rows @ moved) > least)


def _written(a: Array, names: tuple[str, ...]) -> str:
    """As "2·age − bmi"."""
    index = np.flatnonzero(a)
    terms = [_term(a[j], names[j]) for j in index[:6]]
    text = " ".join(terms).removeprefix("+ ") or "0"
    return text + (" + …" if len(index) > 6 else "")


def _term(coefficient: float, name: str) -> str:
    size = "" if abs(coefficient) == 1 else f"{abs(coefficient):.4g}·"
    return f"{'−' if coefficient < 0 else '+'} {size}{name}"
