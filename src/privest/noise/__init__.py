"""Noise laws: scalar ones with density, score and information, and joint ones for vectors."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.noise._affine import Affine
    from privest.noise._bounded import Bump, CosSquared, Uniform
    from privest.noise._custom import (
        CustomLaw,
        expected_squared_curvature_by_quadrature,
        fisher_information_by_quadrature,
        from_logpdf,
    )
    from privest.noise._joint import (
        Gaussian,
        Independent,
        JointNoise,
        MultivariateGaussian,
        Noise,
        as_joint,
    )
    from privest.noise._law import ScalarLaw
    from privest.noise._mixture import GaussianMixture
    from privest.noise._staircase import Staircase
    from privest.noise._unbounded import Cauchy, GaussianLaw, Laplace, Logistic, StudentT
    from privest.noise.quadrature import Quadrature
else:
    __getattr__ = lazy(__name__, {
        "_affine": "Affine",
        "_bounded": "Bump CosSquared Uniform",
        "_custom": "CustomLaw expected_squared_curvature_by_quadrature "
        "fisher_information_by_quadrature from_logpdf",
        "_joint": "Gaussian Independent JointNoise MultivariateGaussian Noise as_joint",
        "_law": "ScalarLaw",
        "_mixture": "GaussianMixture",
        "_staircase": "Staircase",
        "_unbounded": "Cauchy GaussianLaw Laplace Logistic StudentT",
        "quadrature": "Quadrature",
    })  # fmt: skip

__all__ = [
    "Affine", "Bump", "Cauchy", "CosSquared", "CustomLaw", "Gaussian", "GaussianLaw",
    "GaussianMixture", "Independent", "JointNoise", "Laplace", "Logistic",
    "MultivariateGaussian", "Noise", "Quadrature", "ScalarLaw", "Staircase", "StudentT",
    "Uniform", "as_joint", "expected_squared_curvature_by_quadrature",
    "fisher_information_by_quadrature", "from_logpdf",
]  # fmt: skip
