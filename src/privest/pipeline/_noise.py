"""The noise of an output perturbation: its covariance for a budget, and real releases with it.

    z = F(u + e) ,   u = F⁻¹Tθ̂(Y) ,   FFᵀ = D ,   e exact noise of unit information on the grid

I_z(u) ≤ 1 for every entry and every u, exactly; tr I_z(Y) is a promise for many measurements
(`thm:rate_attainablility`). A real release depends on the measurements by u alone:
- refusals have public reasons: the distribution of the noise, and a score whose equation can have
  several roots (a jump of θ̂ reveals without bound);
- missing measurements (NaN; which ones is public) are left out with their rows of H;
- measurements are clipped to ± 2⁴⁰ interquartile ranges of the distribution, u to what the grid
  holds, 2⁴² deviations of the privacy noise;
- where the solver does not end at a root, the point that it reached is released.
The time of a solver depends on the measurements (not that of least squares): send a release at a
time that was set before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, as_choice, fingerprint_of
from privest.bounds import weight_root
from privest.errors import InvalidInput, NotReleasable, NumericalFailure
from privest.linalg.batched import substitute
from privest.mechanism.source import Law, Source
from privest.noise import Distribution, Gaussian, Laplace
from privest.pipeline._roots import least_squares

if TYPE_CHECKING:
    from privest.pipeline._perturbation import OutputPerturbation

Shape = Literal["trace", "paper"]
LARGEST = 2.0**40  # of a measurement, in interquartile ranges: solvers find the way back


@dataclass(frozen=True, eq=False)
class NoiseShape:
    """The covariance D of the privacy noise for a budget s: c·tr(D⁻¹A) = s, A = (ΣH_kᵀH_k)⁻¹.

    Among all such D, c the sensitivity of the score, tr WD is least for (theory.md 3)

        Ã = BᵀAB, W = BBᵀ:   cov of the noise on Bᵀθ̂ = c (tr Ã^½/s) Ã^½ ,   λ = (tr Ã^½)²/(s tr Ã)

    The paper takes D = c (n/s) A, λ = n/s: more by the factor n tr A/(tr A^½)² ∈ [1, n].

    targets   T (r, n): the identity (`whole`) unless the weight is singular, then Bᵀ.
    unit      (r, r) covariance of the noise on Tθ̂ for c = 1.
    spread    T A Tᵀ (r, r).
    weight    λ of the optimal score.
    gram, strength: tr Ã and tr Ã^½; loss: (r, r) L with tr(W·MSE of θ̂) = tr(L·MSE of Tθ̂).
    """

    targets: Array
    whole: bool
    unit: Array
    spread: Array
    weight: float
    gram: float
    strength: float
    loss: Array


def noise_shape(
    triangle: Array, budget: float, shape: Shape = "trace", weight: ArrayLike | None = None
) -> NoiseShape:
    """The shape for RᵀR = ΣH_kᵀH_k (`triangle` R), budget s and loss tr W·MSE (identity: None)."""
    n = len(triangle)
    if as_choice(shape, get_args(Shape), "shape") == "paper" and weight is not None:
        raise InvalidInput("the paper's shape has no weight: leave one of them out.")
    root = weight_root(weight, n)
    half = substitute(triangle, root, transposed=True)
    _, strengths, right = np.linalg.svd(half, full_matrices=False)
    strength, gram = float(strengths.sum()), float((strengths**2).sum())
    whole = root.shape[1] == n
    # For W > 0 the noise is mapped back to θ̂ itself; unmapped it would break the budget.
    back = np.linalg.inv(root.T) if whole else np.eye(root.shape[1])
    targets = np.eye(n) if whole else np.asarray(root.T)
    spread = _symmetric(back @ (half.T @ half) @ back.T)
    if shape == "paper":
        unit, multiplier = n / budget * spread, n / budget
    else:
        unit = strength / budget * _symmetric(back @ ((right.T * strengths) @ right) @ back.T)
        multiplier = strength**2 / (budget * gram)
    loss = _symmetric(root @ root.T) if whole else np.eye(root.shape[1])
    return NoiseShape(targets, whole, unit, spread, multiplier, gram, strength, loss)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2


# --- real releases --------------------------------------------------------------------------------


def law_of(noise: Distribution) -> Law:
    """The distribution of exact noise; NotReleasable where there is none."""
    if isinstance(noise, Gaussian):
        return "gaussian"
    if isinstance(noise, Laplace):
        return "laplace"
    raise NotReleasable(
        f"privacy noise {noise!r} is for simulation only: numbers drawn in floating point reveal "
        "measurements, and exact noise exists for Gaussian and Laplace distributions."
    )


def widening(noise: Distribution, grid: float) -> float:
    """Variance of the noise on the grid, rounding included, over that of continuous noise.

    1 + 3g²/4 for the Gaussian; (2q/(1 − q)² + 1/4)g²/2 = 1 + 3g²/8 + O(g³) for the Laplacian, whose
    variance times information is 2 on the grid too.
    """
    if law_of(noise) == "gaussian":
        return float(lattice.GAUSSIAN.variance + 0.25) * grid**2
    q = float(lattice.LAPLACE.ratio)
    return (2 * q / (1 - q) ** 2 + 0.25) * grid**2 / 2


def noisy(pipeline: OutputPerturbation, y: Array, source: Source) -> Array:
    """z = F(u + e) of measurements without gaps, (r,) or (trials, r). The noise is drawn first."""
    factor = np.linalg.cholesky(pipeline.information_scale)
    targets = pipeline.shape.targets
    most = LARGEST * float(np.ptp(pipeline.law.quantile([0.25, 0.75])))

    def shown() -> lattice.Exactly:
        theta = whatever_happens(pipeline, np.atleast_2d(np.clip(y, -most, most)))
        with np.errstate(all="ignore"):
            unit = substitute(factor, (theta @ targets.T).T, lower=True).T
        unit = np.where(np.isnan(unit), 0.0, unit)  # none is missing: NaN would be of a value
        return lattice.exactly(np.reshape(unit, (*y.shape[:-1], len(targets))))

    released = source.add_noise(
        shown,
        shape=(*y.shape[:-1], len(targets)),
        law=law_of(pipeline.noise),
        fingerprint=fingerprint_of("score release", factor, targets),
    )
    return np.asarray(released @ factor.T)


def whatever_happens(pipeline: OutputPerturbation, y: Array) -> Array:
    """θ̂ (trials, n) of y (trials, K): where the steps end, else least squares; never an error."""
    with np.errstate(all="ignore"):
        linear = least_squares(pipeline.score.bounded.centre, pipeline.design, y).theta
        try:
            reached = pipeline.solve(y).reached
        except (NumericalFailure, np.linalg.LinAlgError, ArithmeticError, ValueError):
            return linear
        return np.where(np.isfinite(reached).all(axis=1, keepdims=True), reached, linear)
