"""The posterior of θ from an estimate and a public normal prior."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.estimator.result import Estimate
from privest.linalg import psd

E = TypeVar("E", bound=Estimate)


def posterior(found: E, prior: ArrayLike, prior_mean: ArrayLike = 0.0) -> E:
    """Mean and covariance of θ given θ̂ ~ N(θ, C), for θ ~ N(m, P).

        θ_post = m + G(θ̂ − m) ,   cov = (I − G)P(I − G)ᵀ + GCGᵀ ,   G = P(P + C)⁻¹

    which is (C⁻¹ + P⁻¹)⁻¹ for regular C and P. `bound` becomes Σ_BPPCR = (PI + P⁻¹)⁻¹ where the
    estimate has Σ_PPCR = PI⁻¹. Where θ̂ has known variances alone, every coefficient has its
    posterior given its own θ̂_j, and covariances stay NaN.
    The share g of a variance that is from θ̂ divides degrees of freedom by g².

    prior       P: a variance, n variances or (n, n). prior_mean: m, one number or (n,).

    >>> one = Estimate(value=np.array([3.0]), covariance=np.array([[2.0]]))
    >>> post = posterior(one, 1.0)
    >>> post.value.round(6), post.covariance.round(6)
    (array([1.]), array([[0.666667]]))
    """
    C, n = found.covariance, found.value.shape[-1]
    P = psd(prior, "the prior covariance", size=n).dense()
    mean = as_array(prior_mean, "prior_mean", ndim=(0, 1))
    if mean.shape not in ((), (n,)):
        raise InvalidInput(f"prior_mean is one number or {n}; received {mean.size}.")
    variances = np.diagonal(C, axis1=-2, axis2=-1)
    if not np.isfinite(variances).all():
        raise InvalidInput("a prior needs an estimate with finite variances.")
    alone = bool(np.isnan(C).any())
    if alone:
        C, P = np.diag(variances), np.diag(np.diagonal(P))
    covariance, from_estimate, gain = _combined(C, P)
    moved = gain @ (found.value - mean)[..., None]
    freedom = found.degrees_of_freedom
    if freedom is not None:
        part = np.diagonal(from_estimate, axis1=-2, axis2=-1)
        with np.errstate(divide="ignore", invalid="ignore"):  # what the prior knows has variance 0
            share = np.nan_to_num(part / np.diagonal(covariance, axis1=-2, axis2=-1))
            freedom = freedom / share**2
    if alone:
        covariance = np.where(np.eye(n) > 0, covariance, np.nan)
    return replace(
        found, value=mean + moved[..., 0], covariance=covariance, sampling=None, classical=None,
        bound=None if found.bound is None else _combined(found.bound, P)[0],
        degrees_of_freedom=freedom, floor=None, method=f"{found.method or 'estimate'}; prior",
    )  # fmt: skip


def _combined(C: Array, P: Array) -> tuple[Array, Array, Array]:
    """The posterior covariance, its part GCGᵀ, and G."""
    total = P + C
    gain = np.swapaxes(np.linalg.solve(total, np.broadcast_to(P, total.shape)), -1, -2)
    left = np.eye(P.shape[-1]) - gain
    from_estimate = gain @ C @ np.swapaxes(gain, -1, -2)
    return left @ P @ np.swapaxes(left, -1, -2) + from_estimate, from_estimate, gain
