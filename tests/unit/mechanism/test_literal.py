"""The doubles L that a Gaussian mechanism releases with, against the level as it was typed."""

import numpy as np
import pytest

from privest.lattice import literal_factor
from privest.mechanism import GaussianMechanism
from rationals import below

RNG = np.random.default_rng(3)


def factor(terms, size):
    """L (m, m) of what is shown, (Lᵀy)_i = Σ_t c_t[i]·y[k_t[i]]."""
    found, every = np.zeros((size, size)), np.arange(size)
    for weights, place in terms:
        found[every if place is None else place, every] += weights
    return found


def conditioned(m, condition):
    Q = np.linalg.qr(RNG.standard_normal((m, m)))[0]
    S = Q * np.geomspace(1.0, 1.0 / condition, m) @ Q.T
    return (S + S.T) / 2


@pytest.mark.parametrize("condition", [1e2, 1e4])
def test_what_is_released_is_what_was_proved(condition):
    for _ in range(15):
        S = conditioned(4, condition)
        mechanism = GaussianMechanism(S, 4)
        assert mechanism.literal
        released = factor(mechanism._terms, 4)
        assert below(released, S)
        np.testing.assert_allclose(released @ released.T, S, rtol=0, atol=1e-8)
        plain = factor(mechanism._S.factor_terms(), 4)
        np.testing.assert_array_equal(released, literal_factor(S, plain)[0])  # to the last bit


def test_a_factor_that_had_to_shrink_much_is_not_taken():
    """Beyond τ = 2^−30 long averages would see (1 − τ)Lᵀy: then L stays, and `literal` says so."""
    much = 0
    for condition in np.geomspace(1e4, 1e9, 24):
        S = conditioned(4, condition)
        mechanism = GaussianMechanism(S, 4)
        plain = factor(mechanism._S.factor_terms(), 4)
        shrunk, proved = literal_factor(S, plain)
        little = bool((np.abs(shrunk) >= (1 - 2.0**-30) * np.abs(plain)).all())
        assert mechanism.literal == (proved and little)
        if not mechanism.literal:
            np.testing.assert_array_equal(factor(mechanism._terms, 4), plain)
        much += proved and not little
    assert much >= 3
