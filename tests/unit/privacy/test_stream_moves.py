"""μ and ε of a stream: of all steps together, for moves of one step and of several."""

import time

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


def cut(total, rng):
    """Any block sizes that add up to `total`."""
    ends = np.flatnonzero(rng.random(total - 1) < 0.4) + 1
    return tuple(np.diff([0, *ends, total]).tolist())


@given(streams(), st.floats(0.1, 10.0))
def test_it_is_that_of_the_cumulative_level(case, by):
    level, whole, sizes, rng = case
    dense = pv.PrivacyLevel(whole)
    moves = [
        by,
        Adjacency.measurement(by),
        Adjacency.block(by, sizes),
        Adjacency.block(by, cut(len(whole), rng)),
    ]
    moves += [
        Adjacency.block(by, (len(whole),)),
        Adjacency.direction(by * rng.standard_normal(len(whole))),
    ]
    for move in moves:
        assert level.to_mu(sensitivity=move) == pytest.approx(
            dense.to_mu(sensitivity=move), rel=RTOL
        )
    assert level.to_mu(sensitivity=Adjacency.block(by)) == pytest.approx(
        dense.to_mu(sensitivity=Adjacency.block(by, sizes)), rel=RTOL
    )
    move = Adjacency.block(by, cut(len(whole), rng))
    for given_, other in ((level, dense), (dense, level)):
        epsilon = given_.to_epsilon(delta=1e-6, sensitivity=move)
        assert epsilon == pytest.approx(other.to_epsilon(delta=1e-6, sensitivity=move), rel=1e-9)


@given(streams(), st.integers(1, 8))
def test_adjacent_steps_are_judged_at_their_worst_place(case, count):
    level, whole, sizes, _ = case
    ends = np.cumsum([0, *sizes])
    count = min(count, len(sizes))
    worst = max(
        np.linalg.eigvalsh(whole[a:b, a:b])[-1] for a, b in zip(ends[:-count], ends[count:])
    )
    mu = level.to_mu(sensitivity=Adjacency.steps(2.0, count))
    assert mu == pytest.approx(2.0 * np.sqrt(worst), rel=RTOL)
    scalar = pv.PrivacyLevel(whole).to_mu(sensitivity=Adjacency.steps(2.0, count))
    if set(sizes) == {1}:
        assert scalar == pytest.approx(mu, rel=RTOL)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 3), st.integers(1, 9))
def test_a_stream_without_an_end(seed, m, reach, count):
    """As its first steps, so many that every place is among them and none misses a later step."""
    rng = np.random.default_rng(seed)
    level = pv.StreamLevel.constant(
        psd_matrix(rng, m), lags=[0.7 * rng.standard_normal((m, m)) for _ in range(reach)]
    )
    first = level.first(3 * count + reach)
    move = Adjacency.steps(1.5, count)
    assert level.to_mu(sensitivity=move) == pytest.approx(first.to_mu(sensitivity=move), rel=RTOL)
    assert level.to_mu(sensitivity=Adjacency.block(1.0)) == pytest.approx(
        first.to_mu(sensitivity=Adjacency.block(1.0))
    )
    v = rng.standard_normal(count * m)
    later = np.concatenate([np.zeros(count * m), v, np.zeros((count + reach) * m)])
    assert level.to_mu(sensitivity=Adjacency.direction(v)) == pytest.approx(
        first.to_mu(sensitivity=Adjacency.direction(later)), rel=RTOL
    )
    sizes = cut(count * m, rng)
    repeated = Adjacency.block(1.0, sizes * 3 + (m,) * reach)
    assert level.to_mu(sensitivity=Adjacency.block(1.0, sizes)) <= first.to_mu(
        sensitivity=repeated
    ) * (1 + RTOL)
    blocks, ends = first.cumulative(), np.cumsum(sizes)
    worst = max(np.linalg.eigvalsh(blocks[e - s : e, e - s : e])[-1] for e, s in zip(ends, sizes))
    assert level.to_mu(sensitivity=Adjacency.block(1.0, sizes)) == pytest.approx(
        np.sqrt(worst), rel=RTOL
    )


@settings(max_examples=30)
@given(st.floats(0.05, 5.0), st.lists(st.floats(-2, 2), max_size=3), st.integers(0, 3))
def test_a_level_made_for_a_move_keeps_its_promise(epsilon, lags, kind):
    move = [
        1.5,
        Adjacency.block(1.5, (3, 2)),
        Adjacency.steps(1.5, 4),
        Adjacency.direction([1.0, -1.0, 0.5]),
    ][kind]
    level = pv.StreamLevel.from_epsilon(epsilon, delta=1e-6, sensitivity=move, lags=lags)
    back = level.to_epsilon(delta=1e-6, sensitivity=move)
    assert back <= epsilon * (1 + 1e-12)
    said = grid_statement(level, sensitivity=move)
    assert said.mu <= gdp.mu_of(epsilon, 1e-6) < grid_statement(level * 1.02, sensitivity=move).mu


def test_the_examples_of_the_issue():
    level = pv.StreamLevel(np.ones(4), lags=[1.0])
    epsilon = level.to_epsilon(delta=1e-6, sensitivity=Adjacency.block(1.0, sizes=(2, 2)))
    assert epsilon == pytest.approx(9.254266, abs=1e-6)
    both = pv.StreamLevel.from_cumulative(np.ones((2, 2)))
    assert both.to_mu(sensitivity=Adjacency.block(1.0, sizes=(2,))) == pytest.approx(np.sqrt(2.0))


def test_a_day_of_a_long_stream():
    """A year of minutes: a constant level has few different days, one busy hour is the worst."""
    steps, day = 525_600, 24 * 60
    constant = pv.StreamLevel(np.ones(steps), lags=[0.5])
    S = 1.0 + 0.1 * np.sin(np.arange(steps) / 9.0)
    S[300_000:300_060] = 4.0
    varied = pv.StreamLevel(S, lags=[0.5])
    start = time.process_time()
    mu = constant.to_mu(sensitivity=Adjacency.steps(1.0, day))
    blocks = constant.to_mu(sensitivity=Adjacency.block(1.0, (60,) * (steps // 60)))
    busy = varied.to_mu(sensitivity=Adjacency.steps(1.0, 10))
    assert time.process_time() - start < 10.0  # some seconds; 90 with all eigenvalues
    # Eigenvalues of the tridiagonal Toeplitz matrix with 1 + ¼ and ½: 1.25 + cos(π/(n + 1)).
    assert mu**2 == pytest.approx(1.25 + np.cos(np.pi / (day + 1)), rel=RTOL)
    assert blocks**2 == pytest.approx(1.25 + np.cos(np.pi / 61), rel=RTOL)
    assert busy**2 == pytest.approx(4.0 * (1.25 + np.cos(np.pi / 11)), rel=RTOL)


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.integers(1, 3), st.integers(0, 5))
def test_a_long_block_by_its_band(seed, m, reach, shift):
    rng = np.random.default_rng(seed)
    S = np.stack([psd_matrix(rng, m) for _ in range(60)])
    level = pv.StreamLevel(S, lags=[0.5 * rng.standard_normal((m, m)) for _ in range(reach)])
    total = 60 * m
    sizes = (shift + 1, 40, total - 41 - shift)
    whole = pv.PrivacyLevel(level.cumulative())
    mu = level.to_mu(sensitivity=Adjacency.block(1.0, sizes))
    assert mu == pytest.approx(whole.to_mu(sensitivity=Adjacency.block(1.0, sizes)), rel=RTOL)


def test_what_cannot_be_converted_is_refused():
    level, endless = (
        pv.StreamLevel(np.ones(4), lags=[1.0]),
        pv.StreamLevel.constant(np.eye(2), lags=[0.5]),
    )

    for stream in (level, endless):
        with pytest.raises(InvalidInput, match="has no records"):
            stream.to_mu(sensitivity=Adjacency.record([1.0]))
    with pytest.raises(InvalidInput, match="add up to 5; the level has 4"):
        level.to_mu(sensitivity=Adjacency.block(1.0, (2, 3)))
    with pytest.raises(InvalidInput, match="length 3; the level has 4"):
        level.to_mu(sensitivity=Adjacency.direction([1.0, 1.0, 1.0]))
    with pytest.raises(InvalidInput, match="covers 3 measurements: steps of this stream have 2"):
        endless.to_mu(sensitivity=Adjacency.block(1.0, (2, 1)))
    with pytest.raises(InvalidInput, match="covers 3 measurements: steps of this stream have 2"):
        endless.to_mu(sensitivity=Adjacency.direction([1.0, 1.0, 1.0]))
    with pytest.raises(InvalidInput, match="too long"):
        endless.to_mu(sensitivity=Adjacency.steps(1.0, 10**9))
    long = pv.StreamLevel(np.ones(20_000), lags=[1.0])
    with pytest.raises(InvalidInput, match="too long"):
        long.to_mu(sensitivity=Adjacency.block(1.0, (20_000,)))
    for bad in (0, -1, 1.5, True, "day"):
        with pytest.raises(InvalidInput, match="adjacent steps must be a whole number"):
            Adjacency.steps(1.0, bad)
    with pytest.raises(InvalidInput, match="sensitivity must be"):
        Adjacency.steps(0.0, 3)
    for bad in (0.5, ["x"], [np.eye(2)]):
        with pytest.raises(InvalidInput):
            pv.StreamLevel.from_epsilon(1.0, delta=1e-6, sensitivity=1.0, lags=bad)
    # Where nothing ties steps together, there is nothing to compute.
    assert pv.StreamLevel.constant(4.0).to_mu(sensitivity=Adjacency.steps(1.0, 10**9)) == 2.0
