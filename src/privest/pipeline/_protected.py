"""Real releases of an estimate: one for every conceivable measurement, and protected noise.

    z = F(u + e) ,   u = F⁻¹Tθ̂(Y) ,   FFᵀ = D ,   e exact noise of unit information on the grid

What is exact is the noise: I_z(u) ≤ 1 for every entry and every u, the doubles that the estimate
was computed in. How θ̂ moves with the measurements, and with it tr I_z(Y), is a promise for many
measurements (`thm:rate_attainablility`), as in the simulation.

Nothing depends on a measurement but u, not even whether there is a release:
- refusals have public reasons: the law of the noise, and a score whose equation can have several
  roots (θ̂ jumps there, and a jump shows without bound);
- missing measurements (NaN; which ones is public) are left out with their rows of H: the noise is
  that of the smaller model;
- measurements are clipped to ± 2⁴⁰ interquartile ranges of the law (beyond, doubles have no digits
  left for the noise), u to what the grid holds, 2⁴² deviations of the release noise;
- where the solver does not end at a root, the point that it reached is released. The residuals are
  not compared with the law. The data owner does that before, with `for_data_owner`.
The time that a solver takes depends on the measurements, within fixed numbers of steps: send a
release at a time that was set before. Least squares takes the same time for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privest import lattice
from privest.arrays import Array, fingerprint_of
from privest.errors import NotReleasable, NumericalFailure
from privest.linalg.batched import substitute
from privest.mechanism.source import Law, Source
from privest.noise import GaussianLaw, Laplace, ScalarLaw
from privest.pipeline._roots import least_squares
from privest.pipeline._score import bounded_score

if TYPE_CHECKING:
    from privest.pipeline._perturbation import OutputPerturbation

LARGEST = 2.0**40  # of a measurement, in interquartile ranges: solvers find the way back


def law_of(noise: ScalarLaw) -> Law:
    """Which law of exact noise this is; NotReleasable for the others."""
    if isinstance(noise, GaussianLaw):
        return "gaussian"
    if isinstance(noise, Laplace):
        return "laplace"
    raise NotReleasable(
        f"release noise of the law {noise!r} is for simulation only: numbers drawn in floating "
        "point reveal measurements, and exact noise is there for Gaussian and Laplace laws."
    )


def widening(noise: ScalarLaw, grid: float) -> float:
    """Variance of the noise on the grid, rounding included, over that of the continuous law.

    Both laws have unit information at most: 1 + 3g²/4 for the Gaussian; for the Laplacian, whose
    variance times information is 2 on the grid too, (2q/(1 − q)² + 1/4)g²/2 = 1 + 3g²/8 + O(g³).
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
    """θ̂ (trials, n) of finite measurements (trials, K): where the steps end, else least squares."""
    with np.errstate(all="ignore"):
        linear = least_squares(bounded_score(pipeline.law).centre, pipeline.design, y).theta
        try:
            reached = pipeline.solve(y).reached
        except (NumericalFailure, np.linalg.LinAlgError, ArithmeticError, ValueError):
            return linear
        return np.where(np.isfinite(reached).all(axis=1, keepdims=True), reached, linear)
