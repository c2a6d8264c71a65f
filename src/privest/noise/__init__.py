"""Noise laws: scalar ones with density, score and information, and joint ones for vectors."""

from privest.noise.affine import Affine
from privest.noise.bump import Bump
from privest.noise.cauchy import Cauchy
from privest.noise.cos_squared import CosSquared
from privest.noise.custom import CustomLaw, from_logpdf
from privest.noise.gaussian import GaussianLaw
from privest.noise.joint import (
    Gaussian,
    Independent,
    JointNoise,
    MultivariateGaussian,
    as_joint,
)
from privest.noise.laplace import Laplace
from privest.noise.law import ScalarLaw
from privest.noise.logistic import Logistic
from privest.noise.mixture import GaussianMixture
from privest.noise.numerics.panels import Estimate
from privest.noise.quadrature import (
    expected_squared_curvature_by_quadrature,
    fisher_information_by_quadrature,
)
from privest.noise.staircase import Staircase
from privest.noise.student_t import StudentT
from privest.noise.uniform import Uniform

__all__ = [
    "Affine",
    "Bump",
    "Cauchy",
    "CosSquared",
    "CustomLaw",
    "Estimate",
    "Gaussian",
    "GaussianLaw",
    "GaussianMixture",
    "Independent",
    "JointNoise",
    "Laplace",
    "Logistic",
    "MultivariateGaussian",
    "ScalarLaw",
    "Staircase",
    "StudentT",
    "Uniform",
    "as_joint",
    "expected_squared_curvature_by_quadrature",
    "fisher_information_by_quadrature",
    "from_logpdf",
]
