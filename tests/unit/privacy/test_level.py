"""`PrivacyLevel`: what it is, and what it means in differential privacy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import Adjacency, gdp, grid_statement
from strategies import KINDS, dense, psd_matrix, structured

moves = st.floats(-3, 3).map(lambda e: 10.0**e)


@st.composite
def levels(draw, m=6):
    kind = draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    value = structured(rng, kind, m, 1)
    return value, dense(value, m), rng


@given(levels(), moves)
def test_mu_is_the_length_of_the_worst_move(case, by):
    value, S, _ = case
    level = pv.PrivacyLevel(value)
    one = by * math.sqrt(np.diagonal(S).max())
    assert level.to_mu(sensitivity=by) == pytest.approx(one)
    assert level.to_mu(sensitivity=Adjacency.measurement(by)) == pytest.approx(one)
    worst = np.linalg.eigvalsh(S)[-1]
    assert level.to_mu(sensitivity=Adjacency.block(by)) == pytest.approx(by * math.sqrt(worst))


@given(levels())
def test_no_direction_of_a_move_exceeds_its_mu(case):
    """The promise: every pair y, y' within the move has (y − y')ᵀS(y − y') ≤ μ²."""
    value, S, rng = case
    mu = pv.PrivacyLevel(value).to_mu(sensitivity=Adjacency.block(2.0))
    for _ in range(20):
        move = np.zeros(6)
        part = slice(0, 2) if rng.random() < 0.5 else slice(2, 6)
        move[part] = rng.standard_normal(move[part].shape)
        move *= 2.0 / np.linalg.norm(move)
        assert move @ S @ move <= mu**2 * (1 + 1e-12)


def test_own_blocks_are_the_default_of_one_block():
    rng = np.random.default_rng(0)
    blocks = [psd_matrix(rng, 2), psd_matrix(rng, 3)]
    level = pv.PrivacyLevel.from_blocks(blocks)
    worst = max(np.linalg.eigvalsh(b)[-1] for b in blocks)
    assert level.to_mu(sensitivity=Adjacency.block(1.0)) == pytest.approx(math.sqrt(worst))


@settings(max_examples=30)
@given(st.floats(0.05, 20), st.floats(-12, -1).map(lambda e: 10.0**e), moves, st.booleans())
def test_from_epsilon_keeps_the_promise_and_wastes_at_most_the_grid(epsilon, delta, by, block):
    sensitivity = Adjacency.block(by, 2) if block else by
    level = pv.PrivacyLevel.from_epsilon(epsilon, delta=delta, sensitivity=sensitivity)
    assert level.to_epsilon(delta=delta, sensitivity=sensitivity) <= epsilon * (1 + 1e-12)
    most, mu = gdp.mu_of(epsilon, delta), level.to_mu(sensitivity=sensitivity)
    assert most - 2 * GRID * math.sqrt(2) <= mu <= most
    assert grid_statement(level, sensitivity=sensitivity).mu <= most
    more = grid_statement(level * (1 + 1e-9), sensitivity=sensitivity)
    assert more.mu > most or mu == pytest.approx(most, rel=1e-12)


@settings(max_examples=30)
@given(st.floats(-2, 4).map(lambda e: 10.0**e), moves)
def test_mu_and_rho_round_trips(number, by):
    level = pv.PrivacyLevel.from_mu(number, sensitivity=by)
    assert number * (1 - 1e-10) - GRID <= level.to_mu(sensitivity=by) <= number  # to ten digits
    level = pv.PrivacyLevel.from_rho(number, sensitivity=by)
    assert level.to_rho(sensitivity=by) <= number
    assert math.sqrt(2 * number) * (1 - 1e-10) - GRID <= level.to_mu(sensitivity=by)
    assert level.to_rho(sensitivity=by) == pytest.approx(level.to_mu(sensitivity=by) ** 2 / 2)


@settings(max_examples=30)
@given(levels(), st.floats(0.05, 10), moves)
def test_a_shape_is_scaled_to_the_promise(case, epsilon, by):
    value, S, _rng = case
    shape = pv.PrivacyLevel(value)
    level = pv.PrivacyLevel.from_epsilon(epsilon, delta=1e-6, sensitivity=by, shape=shape)
    most = gdp.mu_of(epsilon, 1e-6)
    assert grid_statement(level, sensitivity=by).mu <= most
    assert most - 6 * GRID <= level.to_mu(sensitivity=by) <= most
    scaled = level.dense(6)
    assert np.allclose(scaled * S.max(), S * scaled.max(), rtol=1e-9, atol=1e-12 * scaled.max())


def test_a_shape_that_does_not_see_the_move():
    with pytest.raises(InvalidInput, match="shows nothing of this sensitivity"):
        pv.PrivacyLevel.from_mu(1.0, sensitivity=1.0, shape=pv.PrivacyLevel([0.0, 0.0]))


def test_numbers_and_quotients():
    assert pv.PrivacyLevel(3.0).number == 3.0
    assert (pv.PrivacyLevel(3.0) / 2).number == 1.5
    assert pv.PrivacyLevel([1.0, 2.0]).number is None
    with pytest.raises(InvalidInput, match="divisor"):
        pv.PrivacyLevel(1.0) / 0


def test_the_first_ten_lines():
    level = pv.PrivacyLevel(1.0)
    assert level.to_epsilon(delta=1e-6, sensitivity=1.0) == pytest.approx(gdp.epsilon_of(1.0, 1e-6))
    same = pv.PrivacyLevel.from_epsilon(1.0, delta=1e-6, sensitivity=1.0)
    assert same.to_epsilon(delta=1e-6, sensitivity=1.0) == pytest.approx(1.0, rel=1e-2)


def test_conversions_need_a_stated_move_and_a_positive_delta():
    level = pv.PrivacyLevel(1.0)
    with pytest.raises(TypeError):
        level.to_epsilon(delta=1e-6)
    with pytest.raises(InvalidInput, match="no finite pure"):
        level.to_epsilon(delta=0.0, sensitivity=1.0)
    with pytest.raises(InvalidInput, match="no finite pure"):
        pv.PrivacyLevel.from_epsilon(1.0, delta=0.0, sensitivity=1.0)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="sensitivity must be"):
            level.to_epsilon(delta=1e-6, sensitivity=bad)
        with pytest.raises(InvalidInput, match="sensitivity must be"):
            Adjacency.block(bad)
        with pytest.raises(InvalidInput, match="sensitivity must be"):
            Adjacency.measurement(bad)
    with pytest.raises(InvalidInput, match="no blocks of its own"):
        grid_statement(level, sensitivity=Adjacency.block(1.0))
    for bad in ((2, 0), 3, (), (1.5,), (True,), "ab", [[1], [1, 1]]):
        with pytest.raises(InvalidInput, match="list of whole numbers ≥ 1"):
            pv.StreamLevel.from_cumulative(np.eye(2), bad)
    with pytest.raises(InvalidInput, match="or an Adjacency"):
        level.to_mu(sensitivity=[1.0, 2.0])
    with pytest.raises(InvalidInput, match="mu must be ≥ 0"):
        pv.PrivacyLevel.from_mu(-1.0, sensitivity=1.0)


@given(levels(), levels())
def test_sum_and_factor(first, second):
    (a, A, _), (b, B, _) = first, second
    total = pv.PrivacyLevel(a) + pv.PrivacyLevel(b)
    assert np.allclose(total.dense(6), A + B, atol=1e-12)
    assert np.allclose((2.5 * pv.PrivacyLevel(a)).dense(6), 2.5 * A, atol=1e-12)


def test_rank_size_and_repr():
    assert pv.PrivacyLevel([1.0, 0.0, 2.0]).rank == 2
    assert pv.PrivacyLevel(0.0).rank == 0
    assert pv.PrivacyLevel(np.ones((3, 3))).rank == 1
    with pytest.raises(InvalidInput, match="no rank of its own"):
        pv.PrivacyLevel(1.0).rank  # noqa: B018
    assert pv.PrivacyLevel(1.0).size is None
    assert repr(pv.PrivacyLevel(1.0)) == "PrivacyLevel(1.0)"
    assert repr(pv.PrivacyLevel([1.0, 0.0])) == "PrivacyLevel(diagonal, 2 measurements, rank 1)"
    assert repr(pv.PrivacyLevel(np.ones((3, 3)))) == "PrivacyLevel(dense, 3 measurements, rank 1)"
    two = pv.PrivacyLevel.from_blocks([np.ones((2, 2)), [[2.0]]])
    assert repr(two) == "PrivacyLevel(2 blocks, 3 measurements, rank 2)"
    assert pv.PrivacyLevel([1.0, 2.0]).for_size(2).trace() == 3.0


def test_what_is_not_a_level():
    for bad in (-1.0, [1.0, -1.0], [[1.0, 2.0], [2.0, 1.0]], [[1, 2], [0, 1]], math.nan, math.inf):
        with pytest.raises(InvalidInput):
            pv.PrivacyLevel(bad)
    with pytest.raises(InvalidInput, match="factor"):
        pv.PrivacyLevel(1.0) * -1.0
    with pytest.raises(TypeError):
        pv.PrivacyLevel(1.0) + 1.0
    with pytest.raises(InvalidInput, match="for 2 measurements; the model has 3"):
        pv.PrivacyLevel([1.0, 2.0]).for_size(3)
    with pytest.raises(InvalidInput, match="size=m"):
        pv.PrivacyLevel(1.0).dense()


# --- the level of a stream, however it is given ---------------------------------------------------


def same(one, other):
    return one.fingerprint == other.fingerprint and type(one) is type(other)


def test_every_form_of_a_stream_level_passes_one_door():
    matrix = [[2.0, 1.0], [1.0, 2.0]]
    as_stream_level, endless = pv.privacy.as_stream_level, pv.StreamLevel.constant(1.5)
    assert as_stream_level(endless) is endless
    assert same(as_stream_level(1.5), endless)
    assert same(as_stream_level(pv.PrivacyLevel(1.5)), endless)
    assert same(as_stream_level(matrix), pv.StreamLevel.constant(matrix))
    assert same(as_stream_level(1.5, measurements=2), pv.StreamLevel.constant(1.5 * np.eye(2)))
    assert same(
        as_stream_level(pv.PrivacyLevel(1.5), measurements=2),
        pv.StreamLevel.constant(1.5 * np.eye(2)),
    )
    assert same(
        as_stream_level(pv.PrivacyLevel(matrix), measurements=2), pv.StreamLevel.constant(matrix)
    )
    assert same(as_stream_level([1.0, 2.0]), pv.StreamLevel([1.0, 2.0]))
    assert same(as_stream_level(pv.PrivacyLevel([1.0, 2.0]), 2), pv.StreamLevel([1.0, 2.0]))
    blocks = np.array([matrix, np.eye(2).tolist()])
    assert same(as_stream_level(blocks), pv.StreamLevel(blocks))
    assert same(as_stream_level(pv.PrivacyLevel(blocks), 2, measurements=2), pv.StreamLevel(blocks))
    sizes = [np.eye(2), np.eye(3)]
    assert same(as_stream_level(sizes), pv.StreamLevel(sizes))
    one_by_one = pv.PrivacyLevel([1.0, 2.0, 3.0, 4.0])
    found = as_stream_level(one_by_one, 2, measurements=2)
    assert found.final_blocks().diagonal().tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("given", "steps", "measurements", "text"),
    [
        (None, None, None, "level is None"),
        (-1.0, None, None, "positive semi-definite"),
        ("1.0", None, None, "real numbers"),
        (pv.PrivacyLevel([1.0, 2.0]), None, None, "one whole data set"),
        (pv.PrivacyLevel([1.0, 2.0]), 3, None, "is for 2 measurements"),
        (pv.PrivacyLevel([[2.0, 1.0], [1.0, 2.0]]), 2, 1, "ties steps together"),
        (pv.StreamLevel.constant(1.0), None, 2, "measurements of size 1;"),
        ([np.eye(2), np.eye(3)], None, 2, "measurements of changing size"),
        ([1.0, 2.0], None, 2, "measurements of size 1;"),
    ],
)
def test_a_stream_level_fails_closed(given, steps, measurements, text):
    with pytest.raises(pv.errors.InvalidInput, match=text):
        pv.privacy.as_stream_level(given, steps, measurements=measurements)


def test_a_fingerprint_tells_levels_apart_and_not_their_spelling():
    assert pv.PrivacyLevel(2.0).fingerprint == pv.PrivacyLevel([2.0, 2.0]).fingerprint
    found = {
        pv.PrivacyLevel(value).fingerprint
        for value in (2.0, 3.0, [2.0, 3.0], [[2.0, 1.0], [1.0, 2.0]], [[[2.0]], [[3.0]]])
    }
    assert len(found) == 4  # blocks of one reading are a vector


def test_streams_convert_as_levels_do():
    stream, level = pv.StreamLevel.constant(1.0, lags=[0.5]), pv.PrivacyLevel(1.25)
    assert stream.to_mu(sensitivity=0.5) == level.to_mu(sensitivity=0.5)
    assert stream.to_rho(sensitivity=0.5) == level.to_rho(sensitivity=0.5)
