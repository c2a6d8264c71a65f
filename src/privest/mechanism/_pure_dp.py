"""ε of pure differential privacy for noise that is added: how far a shift changes the density."""

from __future__ import annotations

import math

from privest.arrays import as_number
from privest.errors import InvalidInput
from privest.noise import Affine, Cauchy, Laplace, Logistic, ScalarLaw, Staircase, StudentT


def epsilon_of_shift(law: ScalarLaw, move: float) -> float:
    """sup over x and |c| ≤ move of ln f(x)/f(x − c); inf where it is not bounded or not known.

        Laplace(b)        c/b                       |l'| = 1/b
        Logistic(s)       c/s                       |l'| < 1/s, a limit in the tails
        Student(ν, s)     (ν + 1) asinh(c/2s√ν)     Cauchy: ν = 1, 2 asinh(c/2γ)
        Staircase(ε, Δ)   ε ⌈c/Δ⌉                   the jumps, Δ apart, that c can cross

    Student: with x = s√ν t and c = 2s√ν a the ratio is ((ν+1)/2) ln (1 + (t − 2a)²)/(1 + t²);
    its derivative vanishes at t² − 2at − 1 = 0, where it is (ν + 1) asinh a.
    Infinite: Gaussian and every bounded law.

    >>> epsilon_of_shift(Laplace(0.5), 1.0), epsilon_of_shift(Staircase(1.0, 2.0), 2.5)
    (2.0, 2.0)
    """
    length = as_move(move)
    if length == 0:
        return 0.0
    if isinstance(law, Affine):
        return epsilon_of_shift(law.law, length / abs(law.scale))
    if isinstance(law, Laplace | Logistic):
        return length / law.scale
    if isinstance(law, Cauchy):
        return 2.0 * math.asinh(length / (2.0 * law.scale))
    if isinstance(law, StudentT):
        return (law.df + 1.0) * math.asinh(length / (2.0 * law.scale * math.sqrt(law.df)))
    if isinstance(law, Staircase):
        return law.epsilon * math.ceil(length / law.sensitivity)
    return math.inf


def as_move(move: float) -> float:
    """A distance c ≥ 0 by which one number may move."""
    length = as_number(move, "move")
    if length < 0:
        raise InvalidInput(f"move is a distance and must be ≥ 0; received {length:g}.")
    return length
