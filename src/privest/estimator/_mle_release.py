"""Maximum likelihood from the release of any mechanism of the catalogue.

`_mle` solves Σ_i ℓ(z_i, (Gθ)_i) with one number of noise in each reading. Here a model and a
mechanism are brought to that form: y = Hθ + w, w ~ N(ω, Σ), and what the mechanism does to y.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._clipped import ClippedRows
from privest.estimator._mle import ITERATIONS, MLResult, maximum_likelihood
from privest.estimator.device import as_backend, require_here
from privest.estimator.likelihood import (
    NUMPY,
    Backend,
    ClippedLikelihood,
    GaussianLikelihood,
    Likelihood,
    Shifted,
    likelihood_of,
)
from privest.linalg import PSD, BlockWhitening, PointwiseWhitening, whitening
from privest.linalg.batched import substitute
from privest.mechanism import (
    Additive,
    AffineMechanism,
    Channel,
    Componentwise,
    GaussianMechanism,
    GeometricPerturbation,
    Rotation,
)
from privest.model import LinearModel
from privest.noise import GaussianLaw
from privest.release import Release, extra_variance

# Correlations of Aw below this count as rounding of A: they change ℓ by no more than that.
CORRELATION = 1e-10


@dataclass(frozen=True, eq=False)
class Observation:
    """A release as independent readings: z' = `read`(z), ln p(z; θ) = Σ_i ℓ(z'_i, (Gθ)_i) + c."""

    matrix: Array  # G
    likelihood: Likelihood
    read: Callable[[Array], Array]
    constant: float = 0.0  # c: ln |det| of the map from z to z'


def maximum_likelihood_of(
    model: LinearModel,
    mechanism: object,
    z: ArrayLike | Release,
    *,
    starts: int | ArrayLike | None = None,
    iterations: int = ITERATIONS,
    backend: Backend | str = NUMPY,
    grid: float = 0.0,
) -> MLResult:
    """argmax over θ of the density of releases z (trials, q) of y = Hθ + w, w Gaussian.

    Takes every mechanism of the catalogue and one `Channel` for all readings. The options are
    those of `maximum_likelihood`; `log_likelihood` is ln p(z; θ̂), and all arrays are NumPy's.
    grid: of real releases (2⁻¹⁰), 0 for simulated ones: what discrete noise and rounding add,
    3g²/4 of the squared scale of Gaussian or Laplace noise (g³ aside), is counted. A `Release`
    says it itself; bare numbers, such as `mechanism.release` returns, do not: state it.

        channels on u = Ay + b     η = AHθ + Aω + b; Aw must have independent entries (AΣAᵀ
                                   diagonal), unless all channels add Gaussian noise
        Gaussian noise             any A, S, Σ: whitened, generalised least squares in one step
        the same with a range      coordinates of Lᵀy clipped one by one: LᵀΣL must be diagonal
                                   (`PrivacyLevel.uncorrelated`); also `estimate_clipped`
        z = Ay + b + Bd            channels on B⁻¹(Ay + b), after B⁻¹z
        random rotation            NotIdentifiable: ‖z‖ is all that z shows of y

    Raises InvalidInput where w is not Gaussian or Aw correlated, NotIdentifiable where θ cannot be
    told from z. Cost: that of `maximum_likelihood`; O(q³) once to whiten a dense V.

    >>> from privest.noise import Gaussian, Laplace
    >>> model = LinearModel([[1.0], [1.0], [1.0]], noise=Gaussian(cov=0.04))
    >>> mechanism = Componentwise(Additive(Laplace(1.0)), readings=3, offset=10.0)
    >>> found = maximum_likelihood_of(model, mechanism, [10.0, 11.0, 15.0])
    >>> round(float(found.estimate[0, 0]), 6)  # the median, less the offset
    1.0
    """
    if isinstance(z, Release):
        if grid not in (0.0, z.grid):
            raise InvalidInput(f"grid = {grid:g}, but the release says {z.grid:g}: leave it out.")
        grid, z = z.grid, z.values
    seen = observation(mechanism, model, grid) if grid else observation(mechanism, model)
    where = as_backend(backend)
    require_here(z, where, "z")
    releases = np.atleast_2d(as_array(where.host(z), "z", ndim=(1, 2)))
    outputs = getattr(mechanism, "outputs", model.readings)
    if releases.shape[1] != outputs:
        raise InvalidInput(f"z has {releases.shape[1]} entries; the mechanism has {outputs}.")
    found = maximum_likelihood(
        seen.matrix,
        seen.read(releases),
        seen.likelihood,
        starts=starts,
        iterations=iterations,
        backend=where,
    )
    return replace(found, log_likelihood=found.log_likelihood + seen.constant)


@singledispatch
def observation(mechanism: object, model: LinearModel, grid: float = 0.0) -> Observation:
    """What a mechanism shows of a model, as independent readings. New ones: `register`.

    `grid` is passed on for real releases only.
    """
    raise InvalidInput(
        f"there is no likelihood for {type(mechanism).__name__}: pass a channel or a mechanism of "
        "privest.mechanism, or register a function with observation.register."
    )


@observation.register
def _channel(channel: Channel, model: LinearModel, grid: float = 0.0) -> Observation:
    return _componentwise(Componentwise(channel, readings=model.readings), model, grid)


@observation.register
def _componentwise(mechanism: Componentwise, model: LinearModel, grid: float = 0.0) -> Observation:
    more = _rounding(mechanism, grid)
    sigma, mean = _gaussian(mechanism.readings, model)
    A = mechanism.matrix
    G, shift = model.matrix, mean
    if A is not None:
        G, shift = A @ G, A @ np.broadcast_to(mean, (model.readings,))
    offset = shift + mechanism.offset
    if A is None and sigma.pointwise is not None:
        return _by_channel(mechanism, G, sigma.diagonal() + more, offset)
    laws = [c.law for c in mechanism.channels if isinstance(c, Additive)]
    added = [(law.variance, law.mean) for law in laws if isinstance(law, GaussianLaw)]
    if len(added) == mechanism.outputs:
        variances, means = np.array(added).T
        return _whitened(G, _congruence(A, sigma), variances + more, offset + means)
    return _by_channel(mechanism, G, _independent(_congruence(A, sigma)) + more, offset)


def _rounding(mechanism: Componentwise, grid: float) -> Array | float:
    """What the grid adds to the variance of every output: the rest of z is as without it."""
    if not grid:
        return 0.0
    found = [channel.exact_noise for channel in mechanism.channels]
    scales = [noise.scale for noise in found if noise is not None]
    if len(scales) < len(found):
        raise InvalidInput("grid is for real releases: of additive Laplace or Gaussian noise.")
    return extra_variance(grid) * np.square(scales)


def _by_channel(
    mechanism: Componentwise, G: Array, variance: Array, offset: Array | float
) -> Observation:
    """Independent inputs of the channels, of these variances about Gθ + offset."""
    if not (variance > 0).all():
        raise InvalidInput(
            f"{int((variance <= 0).sum())} of {mechanism.outputs} inputs of the channels have no "
            "measurement noise: the likelihoods here smooth p(z|y) with a variance > 0. Leave "
            "those outputs out, or give their readings noise."
        )
    spread: ArrayLike = float(variance[0]) if (variance == variance[0]).all() else variance
    plain = Componentwise(mechanism.common or mechanism.channels, readings=mechanism.outputs)
    likelihood = likelihood_of(plain, spread)
    shifted = Shifted(likelihood, np.asarray(offset)) if np.any(offset) else likelihood
    return Observation(G, shifted, lambda z: z)


@observation.register
def _affine(mechanism: AffineMechanism, model: LinearModel, grid: float = 0.0) -> Observation:
    inner = _componentwise(mechanism.inner, model, grid)
    B = mechanism.spread

    def read(z: Array) -> Array:
        return inner.read(np.linalg.solve(B, z.T).T)

    constant = inner.constant - float(np.linalg.slogdet(B)[1])
    return Observation(inner.matrix, inner.likelihood, read, constant)


@observation.register
def _gaussian_mechanism(
    mechanism: GaussianMechanism, model: LinearModel, grid: float = 0.0
) -> Observation:
    """z̃ = Lᵀy + e by the whitening kernel, which keeps the structure of S and Σ.

    With noise of variance v: V = LᵀΣL + v I = v (Lᵀ(Σ/v)L + I).
    """
    if mechanism.ends is not None:
        return _clipped_mechanism(mechanism, model, grid)
    sigma, mean = _gaussian(mechanism.readings, model)
    level = mechanism.level.for_size(mechanism.readings)
    deviation = math.sqrt(1.0 + extra_variance(grid))
    kernel = whitening(level, sigma.scaled(1.0 / deviation**2) if grid else sigma)
    shown = level.informative()
    offset = kernel.rows(np.broadcast_to(mean, (model.readings,))[:, None].astype(float))[shown, 0]

    def read(z: Array) -> Array:
        full = np.zeros((mechanism.readings, len(z)))
        full[shown] = z.T
        return np.asarray(kernel.whiten(full)[shown].T - offset) / deviation

    if isinstance(kernel, BlockWhitening):
        log_det = sum(float(np.log(np.einsum("...ii->...i", C)).sum()) for _, C in kernel.lower)
    else:
        assert isinstance(kernel, PointwiseWhitening)
        log_det = float(np.log(kernel.deviation).sum())
    log_det += mechanism.outputs * math.log(deviation)
    unit = GaussianLikelihood(1.0, noise=0.0)
    return Observation(kernel.rows(model.matrix)[shown] / deviation, unit, read, -log_det)


def _clipped_mechanism(
    mechanism: GaussianMechanism, model: LinearModel, grid: float
) -> Observation:
    """z̃ = clip(Lᵀy) + e, coordinate by coordinate."""
    G, variance, offset, (low, high) = _clipped_coordinates(mechanism, model)
    likelihood: Likelihood = ClippedLikelihood(
        variance, noise=1.0 + extra_variance(grid), low=low, high=high
    )
    if offset.any():
        likelihood = Shifted(likelihood, offset)
    return Observation(G, likelihood, lambda z: z)


def clipped_rows(model: LinearModel, mechanism: GaussianMechanism, z: ArrayLike) -> ClippedRows:
    """A release z̃ (r,) of a `GaussianMechanism` with a range, as rows for `estimate_clipped`.

    Rows are the coordinates of Lᵀy, of which the mechanism clips each. Their noise Lᵀw must be
    independent: it is where S and Σ are diagonal; else take the level as level.uncorrelated(Σ),
    for the mechanism too.
    """
    if mechanism.ends is None:
        raise InvalidInput("the mechanism has no range: nothing was clipped.")
    G, variance, offset, (low, high) = _clipped_coordinates(mechanism, model)
    values = np.asarray(z, dtype=np.float64)
    if values.shape != (mechanism.outputs,):
        raise InvalidInput(f"z has shape {values.shape}; the mechanism has {mechanism.outputs}.")
    return ClippedRows(G, values - offset, variance, 1.0, low - offset, high - offset)


def _clipped_coordinates(
    mechanism: GaussianMechanism, model: LinearModel
) -> tuple[Array, Array, Array, tuple[Array, Array]]:
    """LᵀH, the variances of Lᵀw, its mean, and the ends of every coordinate."""
    sigma, mean = _gaussian(mechanism.readings, model)
    level = mechanism.level.for_size(mechanism.readings)
    shown = level.informative()
    offset = np.broadcast_to(mean, (model.readings,))[:, None].astype(float)
    variance: Array
    if level.pointwise is not None and sigma.pointwise is not None:
        variance = (level.diagonal() * sigma.diagonal())[shown]
    else:
        half = sigma.factor_rows(level.times_factor(np.eye(level.size))[:, shown])
        variance = _independent(half.T @ half, "Take the level as level.uncorrelated(Σ)")
    if not (variance > 0).all():
        raise InvalidInput(
            "some coordinates of Lᵀy have no measurement noise: the likelihood of what was clipped "
            "needs a variance > 0. Give their readings noise."
        )
    assert mechanism.ends is not None
    G, moved = (level.factor_rows(right)[shown] for right in (model.matrix, offset))
    return G, variance, moved[:, 0], mechanism.ends


@observation.register(Rotation)
@observation.register(GeometricPerturbation)
def _rotated(
    mechanism: Rotation | GeometricPerturbation, model: LinearModel, grid: float = 0.0
) -> Observation:
    raise NotIdentifiable(
        f"θ cannot be estimated from {type(mechanism).__name__}: its rotation is uniform and fresh "
        "for each y, so the law of z depends on y through ‖Ay‖ alone, and one number does not "
        "show θ (not even its sign). Release with another mechanism."
    )


def _gaussian(readings: int, model: LinearModel) -> tuple[PSD, Array | float]:
    """Σ and E w."""
    if readings != model.readings:
        raise InvalidInput(
            f"the mechanism is for {readings} readings; the model has {model.readings}."
        )
    if not model.noise.gaussian:
        raise InvalidInput(
            "the likelihoods here are for Gaussian measurement noise w; the model has "
            f"{model.noise!r}."
        )
    return model.covariance, model.noise.expectation(model.readings)


def _congruence(A: Array | None, sigma: PSD) -> Array:
    """AΣAᵀ."""
    if A is None:
        return sigma.dense()
    half = sigma.factor_rows(A.T)
    return np.asarray(half.T @ half)


def _independent(covariance: Array, advice: str = "Choose A with AΣAᵀ diagonal") -> Array:
    """The diagonal of cov Aw; InvalidInput where it is not diagonal."""
    variance = np.diagonal(covariance).copy()
    size = np.sqrt(np.maximum(variance, 0.0))
    correlated = np.abs(covariance - np.diag(variance)) > CORRELATION * np.outer(size, size)
    if correlated.any():
        i, j = np.argwhere(correlated)[0]
        raise InvalidInput(
            f"the inputs of channels {i} and {j} have correlated measurement noise (AΣAᵀ is not "
            "diagonal): their joint likelihood is an integral in as many dimensions as there are "
            f"outputs, and only Gaussian noise has it in closed form. {advice}, "
            "or a Gaussian mechanism without a range."
        )
    return variance


def _whitened(G: Array, covariance: Array, noise: Array, offset: Array) -> Observation:
    """z = Gθ + offset + N(0, V), V = AΣAᵀ + diag(noise) = CCᵀ: C⁻¹z has unit noise."""
    V = covariance + np.diag(noise)
    try:
        lower = np.linalg.cholesky(V)
    except np.linalg.LinAlgError:
        raise NumericalFailure(
            f"AΣAᵀ + cov d (largest entry {np.abs(V).max():.3g}, least noise {noise.min():.3g}) is "
            "numerically singular: use more release noise or a smaller Σ."
        ) from None

    def solved(rows: Array) -> Array:
        return substitute(lower, rows, lower=True)

    def read(z: Array) -> Array:
        return solved((z - offset).T).T

    log_det = float(np.log(np.diagonal(lower)).sum())
    return Observation(solved(G), GaussianLikelihood(1.0, noise=0.0), read, -log_det)
