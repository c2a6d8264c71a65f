"""Likelihoods of releases, one family a file: ℓ(z, η) = ln ∫ p(z|y) N(y; η, σ²) dy."""

from privest.estimator.likelihood._additive import (
    ConvolvedLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    QuantiserLikelihood,
    VoigtLikelihood,
)
from privest.estimator.likelihood._binary import BinaryLikelihood
from privest.estimator.likelihood._clipped import ClippedLikelihood
from privest.estimator.likelihood._multiplicative import (
    InverseGaussianLikelihood,
    InverseLaplaceLikelihood,
    TwinUniformLikelihood,
)
from privest.estimator.likelihood._quadrature import QuadratureLikelihood
from privest.estimator.likelihood._terms import (
    NUMPY,
    Backend,
    Likelihood,
    Rowwise,
    Terms,
    likelihood_of,
)

__all__ = [
    "NUMPY", "Backend", "BinaryLikelihood", "ClippedLikelihood", "ConvolvedLikelihood",
    "GaussianLikelihood", "InverseGaussianLikelihood", "InverseLaplaceLikelihood",
    "LaplaceLikelihood", "Likelihood", "QuadratureLikelihood", "QuantiserLikelihood", "Rowwise",
    "Terms", "TwinUniformLikelihood", "VoigtLikelihood", "likelihood_of",
]  # fmt: skip
