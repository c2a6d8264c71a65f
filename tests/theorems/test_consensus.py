"""`coro:consensus` in its joint form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from privest.bounds import consensus_bound
from strategies import psd_matrix

levels = st.lists(st.floats(-3, 3).map(lambda e: 10.0**e), min_size=1, max_size=20)


@given(levels)
def test_printed_form(values):
    expected = sum(1 / s for s in values) / len(values) ** 2
    assert consensus_bound(pv.PrivacyLevel(values)) == pytest.approx(expected, rel=1e-12)


@given(levels, st.integers(0, 2**32 - 1))
def test_is_the_limit_of_the_main_bound_for_infinite_noise(values, seed):
    """The proof: y_i = θ + w_i with σ² → ∞, Σ_PPCR − σ²/N → the consensus bound."""
    count, variance = len(values), 1e7
    model = pv.LinearModel(np.ones((count, 1)), noise=pv.noise.Gaussian(cov=variance))
    gap = pv.bound(model, pv.PrivacyLevel(values)).covariance[0, 0] - variance / count
    expected = consensus_bound(pv.PrivacyLevel(values))
    # first order in 1/(s σ²), and the difference of two numbers near σ²/N in double precision
    spread = max(1 / s for s in values)
    assert gap == pytest.approx(expected, abs=4 * spread**2 / variance + 1e-14 * variance)


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_matrix_form(count, seed):
    S = psd_matrix(np.random.default_rng(seed), count)
    ones = np.ones(count)
    expected = ones @ np.linalg.solve(S, ones) / count**2
    assert consensus_bound(pv.PrivacyLevel(S)) == pytest.approx(expected, rel=1e-10)


def test_a_level_that_shows_only_the_sum():
    """S = c·11ᵀ hides every agent but not the average."""
    assert consensus_bound(pv.PrivacyLevel(2.0 * np.ones((4, 4)))) == pytest.approx(
        1 / (2.0 * 4**2), rel=1e-12
    )


def test_hidden_averages_are_refused():
    with pytest.raises(pv.errors.NotIdentifiable, match="Agent 1 reveals nothing"):
        consensus_bound(pv.PrivacyLevel([1.0, 0.0, 2.0]))
    with pytest.raises(pv.errors.NotIdentifiable, match="hides a part of the average"):
        consensus_bound(pv.PrivacyLevel([[1.0, -1.0], [-1.0, 1.0]]))
    with pytest.raises(pv.errors.InvalidInput, match="number of agents"):
        consensus_bound(pv.PrivacyLevel(1.0))
    assert consensus_bound(1.0, agents=5) == consensus_bound(pv.PrivacyLevel(1.0), agents=5)
    for bad in (0, 2.5, -1):
        with pytest.raises(pv.errors.InvalidInput, match="whole number ≥ 1"):
            consensus_bound(pv.PrivacyLevel(1.0), agents=bad)
    with pytest.raises(pv.errors.InvalidInput, match="for 3 agents; received agents=5"):
        consensus_bound(pv.PrivacyLevel([1.0, 1.0, 1.0]), agents=5)


def test_correlated_noise_beats_it_when_only_the_diagonal_is_promised():
    """Trap: z = y + d with Σd_i = 0 keeps [I_Z(Y)]_ii small but reveals the average
    exactly; jointly its information is not below diag(S_i)."""
    count = 4
    noise_cov = np.eye(count) - np.ones((count, count)) / count + 1e-9 * np.eye(count)
    information = np.linalg.inv(noise_cov)
    per_agent = 1 / np.diagonal(noise_cov)  # what agent i's own message z_i reveals of y_i
    attained = np.ones(count) @ noise_cov @ np.ones(count) / count**2
    assert attained < 1e-8 < consensus_bound(pv.PrivacyLevel(per_agent))
    assert not pv.linalg.loewner(information, np.diag(per_agent))


def test_every_block_counts():
    rng = np.random.default_rng(5)
    blocks = [psd_matrix(rng, 2), psd_matrix(rng, 2), psd_matrix(rng, 3)]
    ones = [np.ones(len(b)) @ np.linalg.solve(b, np.ones(len(b))) for b in blocks]
    found = consensus_bound(pv.PrivacyLevel.from_blocks(blocks))
    assert found == pytest.approx(sum(ones) / 49, rel=1e-10)
