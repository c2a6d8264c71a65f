"""The classical Cramér-Rao bound, and identifiability under a level (`thm:identifiable`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Index
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.linalg import PSD, Blocks, InformationRoot, level_root, root_of_rows, weighted_roots
from privest.linalg.batched import solve_lower
from privest.linalg.tolerances import EXTREME, SQUARED, TAKES_PART, rank_tolerance
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel, as_level
from privest.records import Record


def local_model(model: object, theta: ArrayLike | None = None) -> LinearModel:
    """The model itself, or the linear one with H = F'(θ) (remark after `thm:crbound`)."""
    if isinstance(model, LinearModel):
        if theta is not None:
            raise InvalidInput("A linear model has the same bound at every theta: leave theta out.")
        return model
    if isinstance(model, NonlinearModel):
        if theta is None:
            raise InvalidInput(
                "The bound of a nonlinear model is local: pass theta=..., or model.at(theta)."
            )
        return model.at(theta)
    raise InvalidInput(
        f"model must be a LinearModel or a NonlinearModel; received {type(model).__name__}."
    )


def in_range(model: LinearModel) -> LinearModel:
    """The model; NumericalFailure where squares of H or its noise leave the range of doubles."""
    least, most = model.square_range
    if not (least > SQUARED**2 and most < SQUARED**-2):
        top = np.abs(model.matrix).max(axis=0)
        # The column furthest out; one of zeros is another matter.
        j = int(np.argmax(np.abs(np.log(np.where(top > 0, top, 1.0)))))
        raise NumericalFailure(
            f"The column of {model.names[j]} in H is of size {top[j]:.1g}: squares of it leave the "
            "range of numbers. State this parameter in another unit."
        )
    require_size(model.inverse_information, "the variance of the noise")
    return model


def require_size(values: PSD | Array | float, what: str) -> None:
    """NumericalFailure for numbers ≥ 0 whose inverses leave the range of doubles."""
    if isinstance(values, PSD):
        values = values.diagonal() if values.pointwise is None else values.pointwise
    found = np.asarray(values)
    top = float(found.max())
    least = float(found.min())
    if least <= 0:
        least = float(found.min(initial=top, where=found > 0))
    if top > 1.0 / EXTREME or 0 < least < EXTREME:
        far = top if top > 1.0 / EXTREME else least
        raise NumericalFailure(
            f"{what} is {far:.1g}, which leaves the range of numbers when it is inverted. State "
            "the measurements in another unit."
        )


def level_for(level: PrivacyLevel | ArrayLike, model: LinearModel) -> PSD:
    """S for the measurements of the model, in the range of doubles."""
    found = as_level(level).for_size(model.measurements)
    require_size(found, "the level")
    return found


def parameter_list(directions: Array, names: Sequence[str] | None = None) -> str:
    """The names of the parameters that take part in the directions (n, h): "θ[0], θ[2]"."""
    index = np.flatnonzero(np.linalg.norm(directions, axis=1) > TAKES_PART)
    listed = [f"θ[{k}]" if names is None else names[k] for k in index[:8]]
    return ", ".join(listed) + (", …" if len(index) > 8 else "")


def require_seen(model: LinearModel, root: InformationRoot | None = None) -> None:
    """Raise NotIdentifiable if H does not determine θ even without privacy; `root`: of HᵀH."""
    m, n = model.matrix.shape
    root = weighted_roots(model.matrix, [1.0])[0] if root is None else root
    root = root.with_tolerance(model.accuracy)
    if root.rank == n:
        return
    if m < n:
        raise NotIdentifiable(
            f"{m} measurements cannot determine {n} parameters: H has fewer rows than columns. Add "
            "measurements or drop parameters.",
            root.hidden,
        )
    zero = np.flatnonzero(root.column_scale == 0)
    if len(zero):
        listed = parameter_list(np.eye(n)[:, zero], model.names)
        raise NotIdentifiable(
            f"H has zero columns: no measurement depends on {listed}.", root.hidden
        )
    listed = parameter_list(root.hidden, model.names)
    raise NotIdentifiable(
        f"H has rank {root.rank} of {n}: the columns of {listed} are linearly dependent, so these "
        "parameters cannot be told apart even without privacy.",
        root.hidden,
    )


def classical_bound(model: LinearModel) -> Array:
    """Σ_CR = (Hᵀ Σ⁻¹ H)⁻¹, Σ = (I_y(Hθ))⁻¹; a singular Σ is the limit of Σ + εI.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0], [1.0]], noise=Gaussian(cov=[1.0, 3.0]))
    >>> classical_bound(model).round(12).tolist()
    [[0.75]]
    """
    sigma = in_range(local_model(model)).inverse_information
    if sigma.pointwise is not None and np.min(sigma.pointwise) > 0:  # both roots in one pass
        found, seen = weighted_roots(model.matrix, [1.0 / sigma.pointwise, 1.0])
        require_seen(model, seen)
        return found.inverse(graded=True)
    require_seen(model)
    root = open_root(model.matrix, sigma)
    return _limit(model.matrix, sigma) if root is None else root.inverse()


def open_root(matrix: Array, sigma: PSD) -> InformationRoot | None:
    """Root of HᵀΣ⁻¹H; None where Σ is singular."""
    if sigma.pointwise is not None:
        least = np.min(sigma.pointwise)
        return weighted_roots(matrix, [1.0 / sigma.pointwise])[0] if least > 0 else None
    if isinstance(sigma, Blocks) and sigma.positive_definite:
        return root_of_rows(precision_rows(matrix, sigma))
    return None


def precision_rows(matrix: Array, sigma: PSD) -> Array:
    """Σ^-½H."""
    if sigma.pointwise is not None and np.min(sigma.pointwise) > 0:
        return np.asarray(matrix / np.sqrt(sigma.diagonal())[:, None])
    if not (isinstance(sigma, Blocks) and sigma.positive_definite):
        raise InvalidInput("the noise is singular: some measurements have none.")
    rows = np.empty(matrix.shape)
    for (index, _), factor in zip(sigma.groups, sigma.factors):
        rows[index] = solve_lower(factor.lower, matrix[index])
    return rows


def _limit(matrix: Array, sigma: PSD) -> Array:
    """lim ε→0 of (Hᵀ(Σ + εD)⁻¹H)⁻¹, D = diag Σ.

    Variance 0 makes an exact equation; the rest is estimated in the null space of these.
    """
    deviation = np.sqrt(sigma.diagonal())
    noisy = deviation > 0
    exact = matrix[~noisy]
    rest = matrix[noisy] / deviation[noisy, None]
    if sigma.pointwise is None and noisy.any():
        unit = sigma.dense()[np.ix_(noisy, noisy)] / deviation[noisy] / deviation[noisy, None]
        values, vectors = np.linalg.eigh(unit)
        rotated = vectors.T @ rest
        zero = values <= rank_tolerance(len(values)) * values[-1]
        exact = np.concatenate([exact, rotated[zero]])
        rest = rotated[~zero] / np.sqrt(values[~zero])[:, None]
    scale = np.linalg.norm(matrix, axis=0)
    exact = exact / scale
    exact = exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), np.finfo(float).tiny)
    free = scipy.linalg.null_space(exact) if len(exact) else np.eye(len(scale))
    if free.shape[1] == 0:
        return np.zeros((len(scale),) * 2)
    inner = root_of_rows((rest / scale) @ free).inverse()
    result: Array = (free @ inner @ free.T) / scale / scale[:, None]
    return result


@dataclass(frozen=True, eq=False)
class Identifiability(Record):
    """Verdict of `identifiability`.

    identifiable            HᵀSH is invertible.
    rank                    of HᵀSH: how many independent combinations of θ can be estimated.
    hidden_directions       (n, n − rank), orthonormal: no mechanism within the level reveals vᵀθ.
    unseen_directions       (n, u), orthonormal: hidden even without privacy, H v = 0.
    measurements_to_reveal  a smallest set whose levels must rise for all that H sees to become
                            identifiable.
    helpful_measurements    all that see a hidden direction.
    """

    identifiable: bool
    rank: int
    hidden_directions: Array
    unseen_directions: Array
    measurements_to_reveal: tuple[int, ...]
    helpful_measurements: Index
    names: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.identifiable

    def explain(self) -> str:
        """The verdict in words; measurements are counted from 0."""
        n = len(self.hidden_directions)
        if self.identifiable:
            return f"identifiable: all {n} parameters can be estimated under this level"
        parts = [f"not identifiable: rank {self.rank} of {n}"]
        if self.unseen_directions.shape[1]:
            unseen = parameter_list(self.unseen_directions, self.names)
            parts.append(f"hidden even without privacy: {unseen} (H does not see them apart)")
        if self.measurements_to_reveal:
            enough = _listed(self.measurements_to_reveal)
            others = [k for k in self.helpful_measurements if k not in self.measurements_to_reveal]
            also = f" ({_listed(others)} would also help)" if others else ""
            parts.append(
                f"hidden by the level: {parameter_list(self._hidden_by_level(), self.names)}; "
                f"revealing something of {enough} is enough{also}"
            )
        return "; ".join(parts)

    def _hidden_by_level(self) -> Array:
        """The hidden directions orthogonal to those that H does not see."""
        unseen = self.unseen_directions
        rest = self.hidden_directions - unseen @ (unseen.T @ self.hidden_directions)
        left, _, _ = np.linalg.svd(rest, full_matrices=False)
        return left[:, : rest.shape[1] - unseen.shape[1]]

    def __repr__(self) -> str:
        return f"Identifiability({self.explain()})"


def identifiability(
    model: LinearModel | NonlinearModel, level: PrivacyLevel | ArrayLike,
    theta: ArrayLike | None = None,
) -> Identifiability:  # fmt: skip
    """Whether θ can be estimated under I_z(y) ≤ S, and what is hidden if not.

        identifiable  ⇔  HᵀSH invertible  ⇔  LᵀH has full column rank (S = L Lᵀ)

    `theta`: of a nonlinear model (H = F'(θ)). Assumes a continuous noise density that does not
    depend on θ (`assum:w0`). Columns are compared with √(Σ_k S_kk h_kj²), so that no unit matters.
    Source: `def:identifiable`, `thm:identifiable`; the measurements to reveal are ours.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], noise=Gaussian(cov=1.0))
    >>> verdict = identifiability(model, PrivacyLevel([1.0, 0.0, 1.0]))
    >>> verdict.identifiable, verdict.rank, verdict.measurements_to_reveal
    (False, 1, (1,))
    """
    local = local_model(model, theta)
    return verdict(local, level_root(local.matrix, level_for(level, local)))


def verdict(model: LinearModel, root: InformationRoot) -> Identifiability:
    matrix = model.matrix
    n = model.parameters
    root = root.with_tolerance(model.accuracy)
    if root.rank == n:
        none = np.zeros((n, 0))
        return Identifiability(True, n, none, none, (), np.zeros(0, dtype=np.intp), model.names)
    hidden = root.hidden
    unseen = weighted_roots(matrix, [1.0])[0].with_tolerance(model.accuracy).hidden
    # In the units in which the rank was decided.
    unit, null, turned = root.null_space
    length = np.linalg.norm(matrix, axis=0)
    rows = matrix / np.where(root.column_scale > 0, unit, np.where(length > 0, length, 1.0))
    exposure = rows @ null
    seen = np.linalg.norm(exposure, axis=1) > turned * np.linalg.norm(rows, axis=1)
    # Each pivot is the measurement that reveals most of what the earlier ones leave hidden.
    pivots = scipy.linalg.qr(exposure.T, mode="r", pivoting=True)[-1]
    chosen = tuple(sorted(int(k) for k in pivots[: hidden.shape[1] - unseen.shape[1]]))
    seen[list(chosen)] = True
    helpful = np.flatnonzero(seen)
    return Identifiability(False, root.rank, hidden, unseen, chosen, helpful, model.names)


def _listed(index: Sequence[int]) -> str:
    listed = ", ".join(str(k) for k in index[:6]) + (", …" if len(index) > 6 else "")
    return f"measurement{'s' if len(index) > 1 else ''} {listed}"
