"""Exact noise on a grid: integers of a certified distribution, and exact stochastic rounding.

A release is g·(n + X): X an integer of the discrete Gaussian or Laplace distribution, drawn
exactly, and n = ⌊u/g + W⌋, u = Lᵀy the measurement in units of its noise, rounded at random so that
E[g·n] = u. Doubles only carry integers, so no low digit reveals a value. `PROOF.md` in this folder
proves every step. `Coin` is randomised response: one random bit.
"""

from privest.lattice._exact import (
    Exactly,
    exactly,
    finite,
    literal_factor,
    literal_root,
    sum_of_products,
    two_product,
)
from privest.lattice._rounding import MOST, rounded
from privest.lattice._sampler import (
    GAUSSIAN,
    GRID,
    LAPLACE,
    DiscreteGaussian,
    DiscreteLaplace,
    gaussian_integers,
    laplace_integers,
    os_words,
)
from privest.lattice._sampler import Unsigned as Unsigned
from privest.lattice._sampler import Words as Words
from privest.lattice.coins import Coin, flips_at, flips_for, tossed

__all__ = [
    "GAUSSIAN", "GRID", "LAPLACE", "MOST", "Coin", "DiscreteGaussian", "DiscreteLaplace",
    "Exactly", "exactly", "finite", "flips_at", "flips_for", "gaussian_integers",
    "laplace_integers", "literal_factor", "literal_root", "os_words", "rounded", "sum_of_products",
    "tossed", "two_product",
]  # fmt: skip
