"""Noise laws: scalar ones with density, score and information, and joint ones for vectors."""

from privest.noise._affine import Affine
from privest.noise._bump import Bump
from privest.noise._by_numbers import (
    expected_squared_curvature_by_quadrature,
    fisher_information_by_quadrature,
)
from privest.noise._cauchy import Cauchy
from privest.noise._cos_squared import CosSquared
from privest.noise._custom import CustomLaw, from_logpdf
from privest.noise._gaussian import GaussianLaw
from privest.noise._joint import (
    Gaussian,
    Independent,
    JointNoise,
    MultivariateGaussian,
    Noise,
    as_joint,
)
from privest.noise._laplace import Laplace
from privest.noise._law import ScalarLaw
from privest.noise._logistic import Logistic
from privest.noise._mixture import GaussianMixture
from privest.noise._staircase import Staircase
from privest.noise._student_t import StudentT
from privest.noise._uniform import Uniform
from privest.noise.quadrature import Quadrature

__all__ = [
    "Affine",
    "Bump",
    "Cauchy",
    "CosSquared",
    "CustomLaw",
    "Gaussian",
    "GaussianLaw",
    "GaussianMixture",
    "Independent",
    "JointNoise",
    "Laplace",
    "Logistic",
    "MultivariateGaussian",
    "Noise",
    "Quadrature",
    "ScalarLaw",
    "Staircase",
    "StudentT",
    "Uniform",
    "as_joint",
    "expected_squared_curvature_by_quadrature",
    "fisher_information_by_quadrature",
    "from_logpdf",
]
