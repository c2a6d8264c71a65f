"""μ and ε of a stream: of all steps together, for moves of one step and of several."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.errors import InvalidInput
from privest.privacy import Adjacency, gdp, grid_statement
from strategies import psd_matrix

# Eigenvalues of matrices of at most 60 rows, of products of as many terms: some hundred roundings.
RTOL = 1e-11


@st.composite
def streams(draw):
    """(level, S̄, sizes): every form that a stream level has."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps, m = draw(st.integers(1, 20)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["constant", "lags", "own", "cumulative", "past", "changing"]))
    reach = draw(st.integers(0, 4))
    weights = [0.7 * rng.standard_normal((m, m)) for _ in range(reach)]
    sizes = (m,) * steps
    if kind == "constant":
        level = pv.StreamLevel.constant(psd_matrix(rng, m), steps=steps)
    elif kind == "lags":  # of a constant level: many equal places
        S = np.broadcast_to(psd_matrix(rng, m), (steps, m, m))
        level = pv.StreamLevel(S, lags=weights)
    elif kind == "own":
        S = np.stack([psd_matrix(rng, m) for _ in sizes])
        level = pv.StreamLevel(S, lags=weights)
    elif kind == "cumulative":
        target = psd_matrix(rng, steps * m, rank=draw(st.integers(1, steps * m)))
        level = pv.StreamLevel.from_cumulative(target, sizes)
    else:
        if kind == "changing":
            sizes = tuple(rng.integers(1, 4, steps).tolist())
        S, before = [psd_matrix(rng, k) for k in sizes], np.cumsum([0, *sizes])
        U = [0.4 * rng.standard_normal((b, k)) @ s for b, k, s in zip(before, sizes, S)]
        level = pv.StreamLevel(S, U)
    return level, level.cumulative(), sizes, rng


@given(streams(), st.floats(0.1, 10.0))
def test_it_is_that_of_the_cumulative_level(case, by):
    level, whole, sizes, _ = case
    dense = pv.PrivacyLevel(whole)
    for move in (by, Adjacency.measurement(by)):
        assert level.to_mu(sensitivity=move) == pytest.approx(
            dense.to_mu(sensitivity=move), rel=RTOL
        )
        epsilon = level.to_epsilon(delta=1e-6, sensitivity=move)
        assert epsilon == pytest.approx(dense.to_epsilon(delta=1e-6, sensitivity=move), rel=1e-9)
    ends = np.cumsum([0, *sizes])
    worst = max(np.linalg.eigvalsh(whole[a:b, a:b])[-1] for a, b in itertools.pairwise(ends))
    assert level.to_mu(sensitivity=Adjacency.block(by)) == pytest.approx(
        by * np.sqrt(worst), rel=RTOL
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 3))
def test_a_stream_without_an_end(seed, m, reach):
    """As its first steps, so many that every place is among them and none misses a later step."""
    rng = np.random.default_rng(seed)
    level = pv.StreamLevel.constant(
        psd_matrix(rng, m), lags=[0.7 * rng.standard_normal((m, m)) for _ in range(reach)]
    )
    first = level.first(3 + reach)
    for move in (1.5, Adjacency.block(1.0)):
        assert level.to_mu(sensitivity=move) == pytest.approx(
            first.to_mu(sensitivity=move), rel=RTOL
        )


@settings(max_examples=30)
@given(st.floats(0.05, 5.0), st.lists(st.floats(-2, 2), max_size=3), st.booleans())
def test_a_level_made_for_a_move_keeps_its_promise(epsilon, lags, block):
    move = Adjacency.block(1.5) if block else 1.5
    level = pv.StreamLevel.from_epsilon(epsilon, delta=1e-6, sensitivity=move, lags=lags)
    back = level.to_epsilon(delta=1e-6, sensitivity=move)
    assert back <= epsilon * (1 + 1e-12)
    said = grid_statement(level, sensitivity=move)
    assert said.mu <= gdp.mu_of(epsilon, 1e-6) < grid_statement(level * 1.02, sensitivity=move).mu


def test_what_cannot_be_converted_is_refused():
    level, endless = (
        pv.StreamLevel(np.ones(4), lags=[1.0]),
        pv.StreamLevel.constant(np.eye(2), lags=[0.5]),
    )

    for stream in (level, endless):
        with pytest.raises(InvalidInput, match="has no records"):
            stream.to_mu(sensitivity=Adjacency.record([1.0]))
    for bad in (0.5, ["x"], [np.eye(2)]):
        with pytest.raises(InvalidInput):
            pv.StreamLevel.from_epsilon(1.0, delta=1e-6, sensitivity=1.0, lags=bad)
