"""Likelihoods of releases, one family a file: ℓ(z, η) = ln ∫ p(z|y) N(y; η, σ²) dy."""

from privest.estimator.likelihood._binary import BinaryLikelihood
from privest.estimator.likelihood._convolved import ConvolvedLikelihood
from privest.estimator.likelihood._dispatch import likelihood_of
from privest.estimator.likelihood._dithered import DitheredLikelihood, LaplaceQuantiserLikelihood
from privest.estimator.likelihood._gaussian import GaussianLikelihood
from privest.estimator.likelihood._inverse_gaussian import InverseGaussianLikelihood
from privest.estimator.likelihood._inverse_laplace import InverseLaplaceLikelihood
from privest.estimator.likelihood._laplace import LaplaceLikelihood
from privest.estimator.likelihood._quadrature import QuadratureLikelihood
from privest.estimator.likelihood._rowwise import Rowwise
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms
from privest.estimator.likelihood._twin_uniform import TwinUniformLikelihood
from privest.estimator.likelihood._voigt import VoigtLikelihood

__all__ = [
    "NUMPY",
    "Backend",
    "BinaryLikelihood",
    "ConvolvedLikelihood",
    "DitheredLikelihood",
    "GaussianLikelihood",
    "InverseGaussianLikelihood",
    "InverseLaplaceLikelihood",
    "LaplaceLikelihood",
    "LaplaceQuantiserLikelihood",
    "Likelihood",
    "QuadratureLikelihood",
    "Rowwise",
    "Terms",
    "TwinUniformLikelihood",
    "VoigtLikelihood",
    "likelihood_of",
]
