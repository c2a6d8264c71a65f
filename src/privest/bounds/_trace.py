"""The best release under a scalar budget tr I_z(Y) ≤ s (theory.md 3).

A linear unbiased estimate Ty of θ, released with noise of covariance D, has the loss
tr W(TΣTᵀ + D) and the budget tr TᵀD⁻¹T ≤ s. With W = BBᵀ and M = BᵀT the best D costs ‖M‖_*²/s
(nuclear norm), which leaves the convex problem

    minimise  tr MΣMᵀ + ‖M‖_*² / s   over  MH = Bᵀ ;

for Σ = σ²I its solution is least squares: σ² tr Ã + (tr Ã^½)²/s with Ã = Bᵀ(HᵀH)⁻¹B.
‖M‖_*² = min over Q > 0, tr Q = 1 of tr MᵀQ⁻¹M, attained at Q ∝ (MMᵀ)^½. For a fixed
Q = U diag(q) Uᵀ the rows of UᵀM are generalised least-squares problems with covariance
Σ + I/(s q_i). Alternating descends to the optimum, with a certificate at every step:

    value(Q) − optimum ≤ (λ_max(Q⁻¹MMᵀQ⁻¹) − tr MᵀQ⁻¹M)/s .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, as_count, as_positive
from privest.bounds._classical import (
    classical_bound,
    in_range,
    local_model,
    require_seen,
    require_size,
)
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import PSD, Blocks, Scalar, psd, weighted_roots
from privest.linalg.batched import substitute
from privest.linalg.tolerances import CERTIFICATE, GIVE_UP
from privest.model import LinearModel
from privest.privacy import metric_trace
from privest.records import Record

MAX_ROUNDS = 2000


@dataclass(frozen=True, eq=False)
class TraceBound(Record):
    """The floor on tr(W·MSE) under tr I_z(Y) ≤ s, for any mechanism and unbiased estimate.

    budget         s.
    total          the floor, sampling + privacy; attained for Gaussian noise.
    sampling       cost of the measurement noise.
    privacy        cost of the budget.
    gap            certificate: no mechanism is below total − gap.
    simple_floor   tr WΣ_CR + (tr Ã^½)²/s ≤ total, attained if range(ΣH) ⊂ range(H).
    classical      Σ_CR (n, n).
    printed        Σ_CR + (ΣH_kᵀH_k)⁻¹/s, (n, n): `coro:DP` as printed; the privacy part of its
                   trace is up to n times below the tight one.
    paper_release  loss of least squares with the paper's noise (n/s)(HᵀH)⁻¹.
    """

    budget: float
    total: float
    sampling: float
    privacy: float
    gap: float
    simple_floor: float
    classical: Array
    printed: Array
    paper_release: float

    def __repr__(self) -> str:
        return f"TraceBound(budget {self.budget:g}, total {self.total:.4g})"


class LinearRelease(NamedTuple):
    """z = M y + d, d ~ N(0, noise), of Bᵀθ where W = BBᵀ.

    map        M (r, m), r = rank W, with M H = Bᵀ.
    noise      (r, r): (‖M‖_*/s)(MMᵀ)^½, so that tr I_z(Y) = s.
    root       B (n, r); sampling, privacy, gap as in `TraceBound`, with cov w for Σ.
    """

    map: Array
    noise: Array
    root: Array
    sampling: float
    privacy: float
    gap: float


def trace_bound(
    model: LinearModel, *, budget: float | None = None, epsilon: float | None = None,
    measurements: int | None = None, weight: ArrayLike | None = None,
) -> TraceBound:  # fmt: skip
    """The least tr(W·MSE) that any mechanism with tr I_z(Y) ≤ s allows.

        min over S ≥ 0, tr S ≤ s of tr(W Σ_PPCR(S))
          = min over MH = Bᵀ of tr MΣMᵀ + ‖M‖_*²/s ,   W = BBᵀ, Σ = (I_y(Hθ))⁻¹

    budget        s > 0, or
    epsilon       of metric privacy (`def:DP`: a probability ratio ≤ e^{ε‖y_k − y_k'‖} at every
                  distance): s = Kε² (`prop:DP2Fisher`), K the number of `measurements` y_k, by
                  default one per row of H. A ratio at one distance implies no bound.
    weight        W (n, n) PSD, by default the identity.
    Guarantees: a lower bound for every admissible mechanism and unbiased estimate, also when only
    E tr I_z(Y) ≤ s holds. Attained by a linear release for Gaussian noise.
    Numerics: exact for Σ = σ²I; otherwise to `gap`, as a rule 1e-9 relative. O(mn³) a round.
    Source: section 3 of the theory page; tightens `coro:DP`.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0, 0.0], [0.0, 2.0]], noise=Gaussian(cov=1.0))
    >>> floor = trace_bound(model, budget=9.0)
    >>> round(floor.sampling, 12), round(floor.privacy, 12)  # A = diag(1, 1/4): (1 + 1/2)²/9
    (1.25, 0.25)
    """
    s = _budget(model, budget, epsilon, measurements)
    root = weight_root(weight, in_range(local_model(model)).parameters)
    classical = classical_bound(model)
    inverse = inverse_gram(model)
    found = _solve(model, model.inverse_information, root, s)
    ordinary = _least_squares_rows(model.matrix, np.ones(model.measurements), root)
    paper = float((model.inverse_information.factor_rows(ordinary.T) ** 2).sum())
    strength = float(np.linalg.svd(ordinary, compute_uv=False).sum())  # tr Ã^½
    return TraceBound(
        budget=s,
        total=found.sampling + found.privacy,
        sampling=found.sampling,
        privacy=found.privacy,
        gap=found.gap,
        simple_floor=float(np.trace(root.T @ classical @ root)) + strength**2 / s,
        classical=classical,
        printed=classical + inverse / s,
        paper_release=paper + model.parameters * float(np.trace(root.T @ inverse @ root)) / s,
    )


def _budget(
    model: LinearModel, budget: float | None, epsilon: float | None, measurements: int | None
) -> float:
    if budget is not None and epsilon is None:
        s = as_positive(budget, "budget")
    elif epsilon is not None and budget is None:
        rows = local_model(model).measurements
        count = as_count(rows if measurements is None else measurements, "measurements", least=1)
        if rows % count:
            raise InvalidInput(
                f"measurements must divide the {rows} rows of H into K equal parts; received "
                f"{count!r}."
            )
        s = metric_trace(epsilon, count)
    else:
        raise InvalidInput("give budget=, or epsilon= of metric privacy: one of them.")
    require_size(s, "the budget")
    return s


def best_linear_release(
    model: LinearModel, budget: float, weight: ArrayLike | None = None
) -> LinearRelease:
    """The linear release of Bᵀθ of least loss under tr I_z(Y) ≤ s: `trace_bound`, if Gaussian."""
    s = as_positive(budget, "budget")
    require_size(s, "the budget")
    root = weight_root(weight, in_range(local_model(model)).parameters)
    return _solve(model, model.covariance, root, s)


def weight_root(weight: ArrayLike | None, n: int) -> Array:
    """B (n, r) of full column rank with W = BBᵀ; the identity for no weight."""
    if weight is None:
        return np.eye(n)
    matrix = psd(weight, "the weight", size=n)
    root = matrix.times_factor(np.eye(n))
    root = root[:, root.any(axis=0)]
    if root.shape[1] == 0:
        raise InvalidInput("the weight is zero: nothing is asked for.")
    return root


def inverse_gram(model: LinearModel) -> Array:
    """A = (HᵀH)⁻¹."""
    root = weighted_roots(model.matrix, [1.0])[0]
    require_seen(model, root)
    return root.inverse()


def _solve(model: LinearModel, sigma: PSD, root: Array, s: float) -> LinearRelease:
    require_seen(model)
    values, rotated = eigen_coordinates(model.matrix, sigma)
    # Start from least squares, in the eigenvector coordinates of Σ.
    rows = _least_squares_rows(rotated, np.ones(len(rotated)), root)
    for _ in range(MAX_ROUNDS):
        left, strength = _shape(rows)
        weights = strength / strength.sum()
        rows = _separate_rows(rotated, values, root, left, weights, s)
        sampling = float((rows**2 @ values).sum())
        # Q⁻½M for the Q in use: ‖·‖² is what it spends, its largest singular value the slope.
        inner = left.T @ rows / np.sqrt(weights)[:, None]
        slope = float(np.linalg.norm(inner / np.sqrt(weights)[:, None], 2) ** 2)
        gap = max(slope - float((inner**2).sum()), 0.0) / s
        if isinstance(sigma, Scalar):
            gap = 0.0  # every Q gives least squares: this is the closed form
        left, strength = _shape(rows)
        privacy = float(strength.sum()) ** 2 / s
        if gap <= CERTIFICATE * (sampling + privacy):
            break
    if not gap <= GIVE_UP * (sampling + privacy):
        raise NumericalFailure(
            f"The best release was not found in {MAX_ROUNDS} rounds: certified relative gap "
            f"{gap / (sampling + privacy):.2g}."
        )
    noise = float(strength.sum()) / s * (left * strength) @ left.T
    return LinearRelease(_back(rows, sigma), noise, root, sampling, privacy, gap)


def _shape(rows: Array) -> tuple[Array, Array]:
    """Left singular vectors and singular values of M: (MMᵀ)^½ = U diag(s) Uᵀ."""
    triangle = np.linalg.qr(rows.T, mode="r")  # M = RᵀQᵀ: a small matrix is enough
    left, strength, _ = np.linalg.svd(np.asarray(triangle).T)
    return left, strength


def _least_squares_rows(matrix: Array, precision: Array, targets: Array) -> Array:
    """The rows m with m H = bᵀ, b the columns of `targets`, of least m diag(1/precision) mᵀ."""
    weight = np.sqrt(precision)[:, None]
    orthogonal, triangle = np.linalg.qr(weight * matrix)
    inner = substitute(triangle, targets, transposed=True)
    return np.asarray((weight * (orthogonal @ inner)).T)


def _separate_rows(
    matrix: Array, values: Array, root: Array, left: Array, weights: Array, s: float
) -> Array:
    rows = [
        _least_squares_rows(matrix, 1.0 / (values + 1.0 / (s * q)), (root @ vector)[:, None])[0]
        for q, vector in zip(weights, left.T)
    ]
    return np.asarray(left @ np.stack(rows))


def eigen_coordinates(matrix: Array, sigma: PSD) -> tuple[Array, Array]:
    """Eigenvalues of Σ and H in its eigenvector coordinates."""
    if not isinstance(sigma, Blocks):
        return sigma.diagonal(), matrix
    values = np.zeros(sigma.size)
    rotated = np.zeros(matrix.shape)
    for rows, stack in sigma.groups:
        block_values, vectors = np.linalg.eigh(stack)
        values[rows] = np.maximum(block_values, 0.0)  # checked PSD: negatives are rounding
        rotated[rows] = vectors.transpose(0, 2, 1) @ matrix[rows]
    return values, rotated


def _back(rows: Array, sigma: PSD) -> Array:
    if not isinstance(sigma, Blocks):
        return rows
    result = np.zeros(rows.shape)
    for index, stack in sigma.groups:
        vectors = np.linalg.eigh(stack)[1]
        result.T[index] = vectors @ rows.T[index]
    return result
