"""Distributions of measurement and privacy noise.

A list of distributions is independent noise, one for each measurement; `1 + 0.5*d` shifts and
scales.
"""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.noise._bounded import Bump, CosSquared, Uniform
    from privest.noise._custom import from_logpdf
    from privest.noise._staircase import Staircase
    from privest.noise._unbounded import (
        Cauchy,
        Gaussian,
        GaussianMixture,
        Laplace,
        Logistic,
        StudentT,
    )
    from privest.noise.distribution import Affine as Affine
    from privest.noise.distribution import Distribution
    from privest.noise.joint import Independent as Independent
    from privest.noise.joint import JointNoise as JointNoise
    from privest.noise.joint import Noise as Noise
    from privest.noise.joint import as_joint as as_joint
    from privest.noise.quadrature import Quadrature as Quadrature
else:
    __getattr__ = lazy(__name__, {
        "_bounded": "Bump CosSquared Uniform",
        "_custom": "from_logpdf",
        "_staircase": "Staircase",
        "_unbounded": "Cauchy Gaussian GaussianMixture Laplace Logistic StudentT",
        "distribution": "Affine Distribution",
        "joint": "Independent JointNoise Noise as_joint",
        "quadrature": "Quadrature",
    })  # fmt: skip

__all__ = [
    "Bump", "Cauchy", "CosSquared", "Distribution", "Gaussian", "GaussianMixture", "Laplace",
    "Logistic", "Staircase", "StudentT", "Uniform", "from_logpdf",
]  # fmt: skip
