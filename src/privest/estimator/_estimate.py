"""θ̂ from the release of any mechanism: y = Hθ + w, w ~ N(μ, Σ).

Where all noise is Gaussian: one generalised least squares. Else the maximum of Σ_i ℓ(z_i, (Gθ)_i).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator._clipped import ClippedRows, estimate_clipped
from privest.estimator._mle import TOLERANCE, maximum_likelihood
from privest.estimator._rls import PrivateRLS
from privest.estimator.device import as_backend, require_here
from privest.estimator.likelihood import (
    NUMPY,
    Backend,
    ClippedLikelihood,
    Likelihood,
    likelihood_of,
)
from privest.estimator.result import Estimate
from privest.linalg import PSD, Blocks, BlockWhitening, Diagonal, weighted_roots
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
STEPS = 6  # at most, of a least-squares solution; those after the first correct its rounding
CHUNK = 2**16  # numbers of a pass over the rows that stay in cache


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

    `covariance` is the inverse of −∇² Σℓ at θ̂, NaN where a trial has not converged. Cost: three
    passes over H for independent Gaussian noise, else O(q³) once to whiten; 8-20 evaluations of ℓ a
    trial and start for other noise. Memory: O(q), and up to 1000 numbers a row for several starts.

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
    trials = np.atleast_2d(z)
    added = extra_variance(grid)
    if isinstance(mechanism, Channel):
        mechanism = Componentwise(mechanism, measurements=model.measurements)
    if isinstance(mechanism, GaussianMechanism) and mechanism.ends is not None and z.ndim == 1:
        G, variance, offset, (low, high) = _clipped_coordinates(mechanism, model)
        rows = ClippedRows(G, z - offset, variance, 1.0, low - offset, high - offset)
        clipped = estimate_clipped(rows, noise_variance=1.0 + added, names=model.names)
        return replace(clipped, simulated=simulated)
    if isinstance(mechanism, GaussianMechanism) and mechanism.ends is None:
        found = _of_gaussian_mechanism(trials, mechanism, model, 1.0 + added)
    elif isinstance(mechanism, Componentwise) and _adds_gaussian(mechanism):
        found = _of_gaussian_channels(trials, mechanism, model, added)
    else:
        found = _likeliest(trials, mechanism, model, added, where)
    found = replace(found, simulated=simulated)
    if z.ndim == 2:
        return found
    assert isinstance(found.log_likelihood, np.ndarray)
    assert isinstance(found.converged, np.ndarray)
    n = model.parameters
    return replace(
        found, value=found.value[0], covariance=found.covariance.reshape(n, n),
        log_likelihood=float(found.log_likelihood[0]), converged=bool(found.converged[0]),
    )  # fmt: skip


# --- all noise is Gaussian: one generalised least squares ----------------------------------------


def _of_gaussian_mechanism(
    z: Array, mechanism: GaussianMechanism, model: LinearModel, noise: float
) -> Estimate:
    sigma, mean = _gaussian(mechanism.measurements, model)
    level = mechanism.level.for_size(mechanism.measurements)
    if np.any(mean):
        means = np.broadcast_to(mean, level.size)[:, None]
        z = z - level.factor_rows(means)[level.informative(), 0]
    found = _least_squares(z, level, noise, model.matrix, sigma, model.names)
    return replace(found, bound=found.covariance / noise)


def _adds_gaussian(mechanism: Componentwise) -> bool:
    return all(
        isinstance(channel, Additive) and isinstance(channel.law, Gaussian)
        for channel in mechanism.stated
    )


def _of_gaussian_channels(
    z: Array, mechanism: Componentwise, model: LinearModel, added: float
) -> Estimate:
    """z_i = u_i + N(m_i, v_i): (z_i − m_i)/√v_i is the release of u at the level diag(1/v)."""
    G, sigma, offset = _inputs(mechanism, model)
    laws = [channel.parameters["law"] for channel in mechanism.stated]
    means = np.array([law.mean for law in laws])
    variances = np.array([law.variance for law in laws]) + _rounding(mechanism, added)
    deviation = np.sqrt(np.broadcast_to(variances, mechanism.outputs))
    released = (z - offset - means) / deviation
    found = _least_squares(released, Diagonal(deviation**-2), 1.0, G, sigma, model.names)
    assert found.log_likelihood is not None
    return replace(found, log_likelihood=found.log_likelihood - np.log(deviation).sum())


def _least_squares(
    released: Array, level: PSD, noise: float, H: Array, sigma: PSD, names: tuple[str, ...]
) -> Estimate:
    """θ̂ from z̃ = LᵀHθ + N(0, LᵀΣL + vI), S = LLᵀ, in (trials, r): without the zero rows of Lᵀ.

    Rows that are independent as they are, others whitened: ζ = Gθ + noise. Steps PI⁻¹Gᵀ(ζ − Gθ),
    until one is below `TOLERANCE` standard errors: the second, up to a condition of 1e5.
    """
    weight: Array | float
    if level.pointwise is not None and sigma.pointwise is not None:
        if released.shape[1] < level.size:
            index = np.flatnonzero(level.informative())
            level, sigma, H = level.restrict(index), sigma.restrict(index), H[index]
        s = np.asarray(level.pointwise)
        variance = np.asarray(sigma.pointwise)
        # ζ_k = z̃_k/√s_k has variance σ_k² + v/s_k
        G = H
        zeta = released / np.sqrt(s)
        weight = 1.0 / (variance + noise / s)
        log_scale = 0.5 * len(H) * float(np.mean(np.log(s / weight)))
    else:
        # V = LᵀΣL + vI = v(Lᵀ(Σ/v)L + I) = vCCᵀ
        kernel = BlockWhitening(level, sigma.scaled(1.0 / noise))
        revealed = level.informative()
        full = np.zeros((level.size, len(released)))
        full[revealed] = released.T
        G = kernel.rows(H)[revealed]
        zeta = kernel.whiten(full)[revealed].T
        weight = 1.0 / noise
        log_scale = kernel.log_determinant + 0.5 * len(G) * math.log(noise)
    weights = np.broadcast_to(weight, len(G))
    covariance = weighted_roots(G, [weight])[0].inverse()
    theta = np.zeros((len(released), len(covariance)))
    for _ in range(STEPS):
        gradient, misfit = _residual_sums(G, zeta, weights, theta)
        step = gradient @ covariance
        theta += step
        error = np.abs(step) / np.sqrt(covariance.diagonal())
        converged = error.max(axis=1) <= TOLERANCE
        if converged.all():
            break
    return Estimate(
        value=theta, covariance=covariance, names=names, converged=converged,
        log_likelihood=-0.5 * (misfit + len(G) * math.log(2 * math.pi)) - log_scale,
        method="generalised least squares",
    )  # fmt: skip


def _residual_sums(G: Array, zeta: Array, weights: Array, theta: Array) -> tuple[Array, Array]:
    """Gᵀ diag(weights) r and rᵀ diag(weights) r of the residuals r = ζ − Gθ of every trial."""
    gradient = np.zeros(theta.shape)
    misfit = np.zeros(len(theta))
    count = max(CHUNK // max(theta.shape), 1)
    for start in range(0, len(G), count):
        part = slice(start, start + count)
        residual = zeta[:, part]
        if theta.any():
            residual = residual - theta @ G[part].T
        weighted = weights[part] * residual
        gradient += weighted @ G[part]
        misfit += np.einsum("ti,ti->t", weighted, residual)
    return gradient, misfit


# --- any noise: maximum likelihood ---------------------------------------------------------------


def _likeliest(
    z: Array, mechanism: object, model: LinearModel, added: float, where: Backend
) -> Estimate:
    G, likelihood, offset = _observed(mechanism, model, added)
    found = maximum_likelihood(G, z, likelihood, offset=offset, backend=where)
    n, good = model.parameters, found.converged
    covariance = np.full((len(z), n, n), np.nan)
    curvature = likelihood(z[good], found.value[good] @ G.T + offset).curvature
    covariance[good] = np.linalg.inv(np.einsum("ki,tk,kj->tij", G, curvature, G, optimize=True))
    return Estimate(
        value=found.value, covariance=covariance, names=model.names,
        log_likelihood=found.log_likelihood, converged=found.converged,
        method="maximum likelihood",
    )  # fmt: skip


def _observed(
    mechanism: object, model: LinearModel, added: float
) -> tuple[Array, Likelihood, Array | float]:
    """G, ℓ and b: z_i ~ p(·|η_i) with ln p = ℓ(z_i, η_i), η = Gθ + b."""
    if isinstance(mechanism, GaussianMechanism):  # z̃ = clip(Lᵀy) + e, coordinate by coordinate
        G, variance, offset, (low, high) = _clipped_coordinates(mechanism, model)
        return G, ClippedLikelihood(variance, noise=1.0 + added, low=low, high=high), offset
    if isinstance(mechanism, GeometricPerturbation):
        raise NotIdentifiable(
            "θ cannot be estimated from GeometricPerturbation: its rotation is uniform and fresh "
            "for each y, so the distribution of z depends on y through ‖Ay‖ alone, and one number "
            "does not show θ (not even its sign). Release with another mechanism."
        )
    if not isinstance(mechanism, Componentwise):
        raise InvalidInput(
            f"there is no likelihood for {type(mechanism).__name__}: pass a channel or a mechanism "
            "of privest.mechanism."
        )
    G, sigma, shift = _inputs(mechanism, model)
    known = sigma.diagonal() if sigma.pointwise is not None else _independent(sigma.dense())
    variance = known + _rounding(mechanism, added)
    if not (variance > 0).all():
        raise InvalidInput(
            f"{int((variance <= 0).sum())} of {mechanism.outputs} inputs of the channels have no "
            "measurement noise: the likelihoods here smooth p(z|y) with a variance > 0. Leave "
            "those outputs out, or give their measurements noise."
        )
    plain = Componentwise(mechanism.common or mechanism.channels, measurements=mechanism.outputs)
    return G, likelihood_of(plain, variance), shift


def _inputs(mechanism: Componentwise, model: LinearModel) -> tuple[Array, PSD, Array | float]:
    """u = Ay + b as Gθ + N(offset, Σ_u): G, Σ_u and the offset."""
    sigma, mean = _gaussian(mechanism.measurements, model)
    A = mechanism.matrix
    if A is None:
        return model.matrix, sigma, mean + mechanism.offset
    half = sigma.factor_rows(A.T)
    means = A @ np.broadcast_to(mean, model.measurements)
    return A @ model.matrix, Blocks([half.T @ half]), means + mechanism.offset


def _rounding(mechanism: Componentwise, added: float) -> Array | float:
    """What rounding and discrete noise add to the variance of each channel, `added` to a unit."""
    if not added:
        return 0.0
    found = [channel.exact_noise for channel in mechanism.stated]
    scales = [noise.scale for noise in found if noise is not None]
    if len(scales) < len(found):
        raise InvalidInput("grid is for real releases: of additive Laplace or Gaussian noise.")
    return added * np.square(scales)


def _clipped_coordinates(
    mechanism: GaussianMechanism, model: LinearModel
) -> tuple[Array, Array, Array, tuple[Array, Array]]:
    """LᵀH, the variances of Lᵀw, its mean, and the ends of every coordinate."""
    sigma, mean = _gaussian(mechanism.measurements, model)
    level = mechanism.level.for_size(mechanism.measurements)
    shown = level.informative()
    offset = np.broadcast_to(mean, (model.measurements,))[:, None]
    variance: Array
    if level.pointwise is not None and sigma.pointwise is not None:
        variance = (level.diagonal() * sigma.diagonal())[shown]
    else:
        half = sigma.factor_rows(level.times_factor(np.eye(level.size))[:, shown])
        variance = _independent(half.T @ half)
    if not (variance > 0).all():
        raise InvalidInput(
            "some coordinates of Lᵀy have no measurement noise: the likelihood of what was clipped "
            "needs a variance > 0. Give their measurements noise."
        )
    assert mechanism.ends is not None
    G, moved = (level.factor_rows(right)[shown] for right in (model.matrix, offset))
    return G, variance, moved[:, 0], mechanism.ends


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


def _independent(covariance: Array) -> Array:
    """The diagonal of cov Aw, or of cov Lᵀw; InvalidInput where it is not diagonal."""
    variance = np.diagonal(covariance)
    size = np.sqrt(variance)
    correlated = np.abs(covariance - np.diag(variance)) > CORRELATION * np.outer(size, size)
    if correlated.any():
        i, j = np.argwhere(correlated)[0]
        raise InvalidInput(
            f"the inputs of channels {i} and {j} have correlated measurement noise (AΣAᵀ is not "
            "diagonal): their joint likelihood is an integral in as many dimensions as there are "
            "outputs, and only Gaussian noise has it in closed form. Choose A with AΣAᵀ diagonal "
            "(with a range the level level.uncorrelated(Σ)), or a Gaussian mechanism without a "
            "range."
        )
    return variance
