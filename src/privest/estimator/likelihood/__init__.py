"""Likelihoods of releases, one family a file: ℓ(z, η) = ln ∫ p(z|y) N(y; η, σ²) dy."""

from privest.estimator.likelihood.binary import BinaryLikelihood
from privest.estimator.likelihood.choose import likelihood_of
from privest.estimator.likelihood.convolved import ConvolvedLikelihood
from privest.estimator.likelihood.dithered import DitheredLikelihood, LaplaceQuantiserLikelihood
from privest.estimator.likelihood.gaussian import GaussianLikelihood
from privest.estimator.likelihood.inverse_gaussian import InverseGaussianLikelihood
from privest.estimator.likelihood.inverse_laplace import InverseLaplaceLikelihood
from privest.estimator.likelihood.laplace import LaplaceLikelihood
from privest.estimator.likelihood.quadrature import QuadratureLikelihood
from privest.estimator.likelihood.rowwise import Rowwise
from privest.estimator.likelihood.terms import NUMPY, Backend, Likelihood, Terms
from privest.estimator.likelihood.twin_uniform import TwinUniformLikelihood
from privest.estimator.likelihood.voigt import VoigtLikelihood

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
