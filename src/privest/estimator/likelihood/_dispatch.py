"""Which likelihood belongs to which channel."""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import as_array
from privest.errors import InvalidInput
from privest.estimator.likelihood._additive import (
    ConvolvedLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    VoigtLikelihood,
)
from privest.estimator.likelihood._binary import BinaryLikelihood
from privest.estimator.likelihood._combined import Rowwise, for_each_variance
from privest.estimator.likelihood._dithered import DitheredLikelihood, LaplaceQuantiserLikelihood
from privest.estimator.likelihood._inverse import (
    InverseGaussianLikelihood,
    InverseLaplaceLikelihood,
)
from privest.estimator.likelihood._quadrature import QuadratureLikelihood
from privest.estimator.likelihood._terms import Likelihood
from privest.estimator.likelihood._twin_uniform import TwinUniformLikelihood
from privest.mechanism import (
    Additive,
    BinaryQuantiser,
    Channel,
    Componentwise,
    Inverse,
    LaplaceQuantiser,
    ProbabilisticQuantiser,
    TriangularQuantiser,
    TruncatedInverse,
    TwinUniform,
)
from privest.noise import Cauchy, GaussianLaw, Laplace, ScalarLaw


@singledispatch
def likelihood_of(channel: object, variance: ArrayLike) -> Likelihood:
    """The likelihood of releases z_i ~ p(·|y_i), y = Hθ + w, w_i ~ N(0, σ_i²) independent.

    `variance` is σ², a number or one for each reading. A new kind of channel registers its own
    closed form: `@likelihood_of.register` on a function of (channel, variance).

    >>> likelihood_of(Additive(Laplace(1.0)), 0.04).scale
    1.0
    """
    raise InvalidInput(
        f"there is no likelihood for {type(channel).__name__}: pass a channel of "
        "privest.mechanism, or register a function with likelihood_of.register."
    )


@likelihood_of.register
def _any(channel: Channel, variance: ArrayLike) -> Likelihood:
    return QuadratureLikelihood(channel, variance)


@likelihood_of.register
def _additive(channel: Additive, variance: ArrayLike) -> Likelihood:
    return _of_law(channel.law, variance)


@likelihood_of.register
def _componentwise(mechanism: Componentwise, variance: ArrayLike) -> Likelihood:
    """Data perturbation: channels on the readings themselves.

    For u = Ay + b ask `maximum_likelihood_of`: it takes AH as H, the variances of Aw, and b.
    """
    if mechanism.matrix is not None or mechanism.offset.any():
        raise InvalidInput(
            "the channels act on Ay + b, so that their η is AHθ + b: pass the mechanism to "
            "privest.estimator.maximum_likelihood_of."
        )
    if mechanism.common is not None:
        return likelihood_of(mechanism.common, variance)
    spread = np.broadcast_to(as_array(variance, "the variance of w"), mechanism.readings)
    made: dict[tuple[Channel, float], Likelihood] = {}
    for pair in zip(mechanism.channels, spread.tolist()):
        if pair not in made:
            made[pair] = likelihood_of(*pair)
    return Rowwise([made[pair] for pair in zip(mechanism.channels, spread.tolist())])


@singledispatch
def _of_law(law: ScalarLaw, variance: ArrayLike) -> Likelihood:
    return for_each_variance(lambda v: ConvolvedLikelihood(law, v), variance)


@_of_law.register
def _(law: GaussianLaw, variance: ArrayLike) -> Likelihood:
    return GaussianLikelihood(variance, noise=law.variance, shift=law.loc)


@_of_law.register
def _(law: Laplace, variance: ArrayLike) -> Likelihood:
    return LaplaceLikelihood(variance, scale=law.scale)


@_of_law.register
def _(law: Cauchy, variance: ArrayLike) -> Likelihood:
    return VoigtLikelihood(variance, scale=law.scale)


@likelihood_of.register
def _inverse(channel: Inverse, variance: ArrayLike) -> Likelihood:
    return _ratio(channel.noise, variance, 0.0)


@likelihood_of.register
def _truncated(channel: TruncatedInverse, variance: ArrayLike) -> Likelihood:
    return _ratio(channel.noise, variance, channel.threshold)


def _ratio(noise: GaussianLaw | Laplace, variance: ArrayLike, edge: float) -> Likelihood:
    if isinstance(noise, Laplace):
        return InverseLaplaceLikelihood(variance, scale=noise.scale, truncation=edge)
    return InverseGaussianLikelihood(variance, sd=math.sqrt(noise.variance), truncation=edge)


@likelihood_of.register
def _uniform_dither(channel: ProbabilisticQuantiser, variance: ArrayLike) -> Likelihood:
    return DitheredLikelihood(variance, step=channel.step)


@likelihood_of.register
def _triangular_dither(channel: TriangularQuantiser, variance: ArrayLike) -> Likelihood:
    return DitheredLikelihood(variance, step=channel.step, dither="triangular")


@likelihood_of.register
def _laplace_quantiser(channel: LaplaceQuantiser, variance: ArrayLike) -> Likelihood:
    def likelihood(own: float) -> Likelihood:
        return LaplaceQuantiserLikelihood(own, step=channel.step, scale=channel.scale)

    return for_each_variance(likelihood, variance)


@likelihood_of.register
def _binary(channel: BinaryQuantiser, variance: ArrayLike) -> Likelihood:
    def likelihood(own: ArrayLike) -> Likelihood:
        return BinaryLikelihood(own, law=channel.law, threshold=channel.threshold)

    closed = isinstance(channel.law, GaussianLaw | Laplace)
    return likelihood(variance) if closed else for_each_variance(likelihood, variance)


@likelihood_of.register
def _twin_uniform(channel: TwinUniform, variance: ArrayLike) -> Likelihood:
    return TwinUniformLikelihood(variance, inner=channel.inner, outer=channel.outer)
