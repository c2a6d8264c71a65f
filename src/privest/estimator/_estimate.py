"""θ̂ from the release of any mechanism: y = Hθ + w, w ~ N(ω, Σ), brought to Σ_i ℓ(z_i, (Gθ)_i)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._clipped import ClippedRows, estimate_clipped
from privest.estimator._mle import maximum_likelihood
from privest.estimator._rls import PrivateRLS
from privest.estimator.device import as_backend, require_here
from privest.estimator.likelihood import (
    NUMPY,
    Backend,
    ClippedLikelihood,
    GaussianLikelihood,
    Likelihood,
    likelihood_of,
)
from privest.estimator.result import Estimate
from privest.linalg import PSD, BlockWhitening, PointwiseWhitening, whitening
from privest.linalg.batched import substitute
from privest.mechanism import (
    Additive,
    Channel,
    Componentwise,
    GaussianMechanism,
    GeometricPerturbation,
)
from privest.model import LinearModel
from privest.noise import Gaussian
from privest.release import Release, ReleaseRecord, extra_variance

# Correlations of Aw below this count as rounding of A: they change ℓ by no more than that.
CORRELATION = 1e-10


@dataclass(frozen=True, eq=False)
class Observation:
    """A release as independent values: z' = `read`(z), ln p(z; θ) = Σ_i ℓ(z'_i, (Gθ + b)_i) + c."""

    matrix: Array  # G
    likelihood: Likelihood
    read: Callable[[Array], Array] = np.asarray
    constant: float = 0.0  # c: ln |det| of the map from z to z'
    offset: Array | float = 0.0  # b


def estimate_release(
    release: ArrayLike | ReleaseRecord,
    model: LinearModel,
    mechanism: object = None,
    *,
    grid: float = 0.0,
    backend: Backend | str = NUMPY,
) -> Estimate:
    """θ̂ = argmax over θ of the density of a release z of y = Hθ + w, w Gaussian (`optEst`).

    release    z (q,), or (trials, q); a `Release` carries its level and needs no mechanism.
    mechanism  any of the catalogue, or one `Channel` for all measurements.
    grid       of a real release that is a bare array, 2⁻¹⁰: discrete noise and rounding add 3g²/4
               of the squared scale.

    Channels act on u = Ay + b: AΣAᵀ must be diagonal, unless all noise is Gaussian (generalised
    least squares, any A, S, Σ). With a range the coordinates of Lᵀy are clipped: LᵀΣL must be
    diagonal. A random rotation is not identifiable: z shows ‖y‖ alone.

    `covariance` is the inverse of −∇² Σℓ at θ̂, NaN where a trial has not converged. Cost: 8-20
    evaluations of ℓ a trial and start; O(q³) once to whiten a dense covariance.

    >>> from privest.noise import Laplace
    >>> model = LinearModel([[1.0], [1.0], [1.0]], noise=0.04)
    >>> mechanism = Componentwise(Additive(Laplace(1.0)), measurements=3, offset=10.0)
    >>> estimate_release([10.0, 11.0, 15.0], model, mechanism).value.round(6)  # median − offset
    array([1.])
    """
    if isinstance(release, Release):
        if release.level is None:
            raise InvalidInput(
                "a stream read from a record needs its level: use PrivateRLS(level, …)."
            )
        rls = PrivateRLS(release.level, model.matrix.shape[1], model.noise)
        rls.update(release, model.matrix)
        return rls.result(model.names)
    simulated, values = None, release
    if isinstance(release, ReleaseRecord):
        simulated, grid, values = release.simulated, release.grid, release.values
    if mechanism is None:
        raise InvalidInput("these values do not say how they were made: state `mechanism`.")
    where = as_backend(backend)
    require_here(values, where, "z")
    z = as_array(where.host(values), "z", ndim=(1, 2))
    outputs = getattr(mechanism, "outputs", model.measurements)
    if z.shape[-1] != outputs:
        raise InvalidInput(f"z has {z.shape[-1]} entries; the mechanism has {outputs}.")
    if isinstance(mechanism, GaussianMechanism) and mechanism.ends is not None and z.ndim == 1:
        G, variance, offset, (low, high) = _clipped_coordinates(mechanism, model)
        rows = ClippedRows(G, z - offset, variance, 1.0, low - offset, high - offset)
        noise = 1.0 + extra_variance(grid)
        clipped = estimate_clipped(rows, noise_variance=noise, names=model.names)
        return replace(clipped, simulated=simulated)
    found = _likeliest(np.atleast_2d(z), model, mechanism, grid, where)
    found = replace(found, simulated=simulated)
    if z.ndim == 2:
        return found
    assert isinstance(found.log_likelihood, np.ndarray)
    assert isinstance(found.converged, np.ndarray)
    return replace(
        found, value=found.value[0], covariance=found.covariance[0],
        log_likelihood=float(found.log_likelihood[0]), converged=bool(found.converged[0]),
    )  # fmt: skip


def _likeliest(
    z: Array, model: LinearModel, mechanism: object, grid: float, where: Backend
) -> Estimate:
    seen = observation(mechanism, model, grid) if grid else observation(mechanism, model)
    read = seen.read(z)
    found = maximum_likelihood(
        seen.matrix, read, seen.likelihood, offset=seen.offset, backend=where
    )
    G, n, good = seen.matrix, seen.matrix.shape[1], found.converged
    covariance, bound = np.full((len(read), n, n), np.nan), None
    curvature = seen.likelihood(read[good], found.value[good] @ G.T + seen.offset).curvature
    covariance[good] = np.linalg.inv(np.einsum("ki,tk,kj->tij", G, curvature, G, optimize=True))
    if isinstance(mechanism, GaussianMechanism) and mechanism.ends is None:
        bound = covariance[0] / (1.0 + extra_variance(grid))
    return Estimate(
        value=found.value, covariance=covariance, bound=bound, names=model.names,
        log_likelihood=found.log_likelihood + seen.constant, converged=found.converged,
        method="maximum likelihood",
    )  # fmt: skip


@singledispatch
def observation(mechanism: object, model: LinearModel, grid: float = 0.0) -> Observation:
    """The release of a mechanism as independent values; `register` adds mechanisms."""
    raise InvalidInput(
        f"there is no likelihood for {type(mechanism).__name__}: pass a channel or a mechanism of "
        "privest.mechanism, or register a function with observation.register."
    )


@observation.register
def _channel(channel: Channel, model: LinearModel, grid: float = 0.0) -> Observation:
    return _componentwise(Componentwise(channel, measurements=model.measurements), model, grid)


@observation.register
def _componentwise(mechanism: Componentwise, model: LinearModel, grid: float = 0.0) -> Observation:
    more = _rounding(mechanism, grid)
    sigma, mean = _gaussian(mechanism.measurements, model)
    A = mechanism.matrix
    G, shift = model.matrix, mean
    if A is not None:
        G, shift = A @ G, A @ np.broadcast_to(mean, (model.measurements,))
    offset = shift + mechanism.offset
    if A is None and sigma.pointwise is not None:
        return _by_channel(mechanism, G, sigma.diagonal() + more, offset)
    laws = [c.law for c in mechanism.channels if isinstance(c, Additive)]
    added = [(law.variance, law.mean) for law in laws if isinstance(law, Gaussian)]
    if len(added) == mechanism.outputs:
        variances, means = np.array(added).T
        return _whitened(G, _congruence(A, sigma), variances + more, offset + means)
    return _by_channel(mechanism, G, _independent(_congruence(A, sigma)) + more, offset)


def _rounding(mechanism: Componentwise, grid: float) -> Array | float:
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
    """Channels with independent inputs, of these variances about Gθ + offset."""
    if not (variance > 0).all():
        raise InvalidInput(
            f"{int((variance <= 0).sum())} of {mechanism.outputs} inputs of the channels have no "
            "measurement noise: the likelihoods here smooth p(z|y) with a variance > 0. Leave "
            "those outputs out, or give their measurements noise."
        )
    spread: ArrayLike = float(variance[0]) if (variance == variance[0]).all() else variance
    plain = Componentwise(mechanism.common or mechanism.channels, measurements=mechanism.outputs)
    return Observation(G, likelihood_of(plain, spread), offset=offset)


@observation.register
def _gaussian_mechanism(
    mechanism: GaussianMechanism, model: LinearModel, grid: float = 0.0
) -> Observation:
    """z̃ = Lᵀy + e, whitened by V = LᵀΣL + vI = v(Lᵀ(Σ/v)L + I), v the variance of e."""
    if mechanism.ends is not None:  # z̃ = clip(Lᵀy) + e, coordinate by coordinate
        G, variance, offset, (low, high) = _clipped_coordinates(mechanism, model)
        noise = 1.0 + extra_variance(grid)
        clipped = ClippedLikelihood(variance, noise=noise, low=low, high=high)
        return Observation(G, clipped, offset=offset)
    sigma, mean = _gaussian(mechanism.measurements, model)
    level = mechanism.level.for_size(mechanism.measurements)
    deviation = math.sqrt(1.0 + extra_variance(grid))
    kernel = whitening(level, sigma.scaled(1.0 / deviation**2) if grid else sigma)
    shown = level.informative()
    offset = kernel.rows(np.broadcast_to(mean, (model.measurements,))[:, None].astype(float))[
        shown, 0
    ]

    def read(z: Array) -> Array:
        full = np.zeros((mechanism.measurements, len(z)))
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


def _clipped_coordinates(
    mechanism: GaussianMechanism, model: LinearModel
) -> tuple[Array, Array, Array, tuple[Array, Array]]:
    """LᵀH, the variances of Lᵀw, its mean, and the ends of every coordinate."""
    sigma, mean = _gaussian(mechanism.measurements, model)
    level = mechanism.level.for_size(mechanism.measurements)
    shown = level.informative()
    offset = np.broadcast_to(mean, (model.measurements,))[:, None].astype(float)
    variance: Array
    if level.pointwise is not None and sigma.pointwise is not None:
        variance = (level.diagonal() * sigma.diagonal())[shown]
    else:
        half = sigma.factor_rows(level.times_factor(np.eye(level.size))[:, shown])
        variance = _independent(half.T @ half, "Take the level as level.uncorrelated(Σ)")
    if not (variance > 0).all():
        raise InvalidInput(
            "some coordinates of Lᵀy have no measurement noise: the likelihood of what was clipped "
            "needs a variance > 0. Give their measurements noise."
        )
    assert mechanism.ends is not None
    G, moved = (level.factor_rows(right)[shown] for right in (model.matrix, offset))
    return G, variance, moved[:, 0], mechanism.ends


@observation.register
def _rotated(
    mechanism: GeometricPerturbation, model: LinearModel, grid: float = 0.0
) -> Observation:
    raise NotIdentifiable(
        f"θ cannot be estimated from {type(mechanism).__name__}: its rotation is uniform and fresh "
        "for each y, so the distribution of z depends on y through ‖Ay‖ alone, and one number "
        "does not show θ (not even its sign). Release with another mechanism."
    )


def _gaussian(measurements: int, model: LinearModel) -> tuple[PSD, Array | float]:
    if measurements != model.measurements:
        raise InvalidInput(
            f"the mechanism is for {measurements} measurements; the model has {model.measurements}."
        )
    if not model.noise.gaussian:
        raise InvalidInput(
            "the likelihoods here are for Gaussian measurement noise w; the model has "
            f"{model.noise!r}."
        )
    return model.covariance, model.noise.expectation(model.measurements)


def _congruence(A: Array | None, sigma: PSD) -> Array:
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
