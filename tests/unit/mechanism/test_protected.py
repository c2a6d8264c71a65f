"""Real releases: on the grid, without a seed, within the range, and never refused for a value."""

import copy
import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import privest as pv
from privest import lattice
from privest.errors import InvalidInput, NotReleasable
from privest.lattice import _rounding
from privest.mechanism import GaussianMechanism, GeometricPerturbation, StreamMechanism
from privest.mechanism.source import Generated, Kept, Protected, as_protected, seeded
from privest.mechanism.stream_terms import begun, stream_terms

S = np.array([[4.0, 2.0, 1.0], [2.0, 3.0, 0.5], [1.0, 0.5, 2.0]])
LEVELS = {
    "number": pv.StreamLevel.constant(4.0),
    "lags": pv.StreamLevel.constant(1.0, lags=[0.5, 0.2]),
    "blocks": pv.StreamLevel.constant(S),
    "diagonal": pv.StreamLevel.from_cumulative(np.diag(np.arange(1.0, 13.0))),
    "dense": pv.StreamLevel.from_cumulative(np.eye(12) + 0.2),
}
Y = np.round(np.sin(np.arange(12.0)), 3)


def quiet(monkeypatch, words=0):
    """No noise and rounding down: what is shown, to the grid."""
    monkeypatch.setattr(lattice, "gaussian_integers", lambda n: np.zeros(n, dtype=np.int64))
    monkeypatch.setattr(lattice, "os_words", lambda n: np.full(n, words, dtype=np.uint64))


@pytest.mark.parametrize("name", LEVELS)
def test_what_is_shown_is_that_of_the_simulation(name, monkeypatch):
    """In whatever pieces: within one step of the grid below A_kȲ_k."""
    level = LEVELS[name]
    exact, _ = StreamMechanism(level)._shown(Y, 0, len(Y) // (level.block or 1))
    quiet(monkeypatch)
    whole = StreamMechanism(level).release(Y)
    assert not whole.simulated
    assert whole.grid == 2.0**-10
    assert np.array_equal(np.mod(whole.values, whole.grid), np.zeros(12))
    gap = exact - whole.values
    assert ((gap > -1e-12) & (gap < whole.grid + 1e-12)).all()
    stream = StreamMechanism(level)
    parts = [stream.release(Y[k : k + 3]).values for k in range(0, 12, 3)]
    assert np.array_equal(np.concatenate(parts), whole.values)


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308, -1e300, 5e-324, 1e20])
def test_no_value_is_refused(name, value):
    level, y = LEVELS[name], Y.copy()
    y[4] = value
    released = StreamMechanism(level).release(y).values
    assert np.isfinite(released).all()
    assert np.abs(released).max() <= 2.0**43


def test_missing_is_public_and_the_only_mark(monkeypatch):
    quiet(monkeypatch)
    y = np.ma.masked_array(Y, mask=np.arange(12) == 5)
    released = StreamMechanism(1.0).release(y)
    assert np.flatnonzero(released.missing).tolist() == [5]
    assert np.isnan(released.values[5])
    many = GaussianMechanism(S, 3)
    shown = many.release([[1.0, np.nan, 2.0], [1.0, 2.0, 3.0]])
    # L is lower triangular: entry i reads the readings from i on.
    assert np.isnan(shown).tolist() == [[True, True, False], [False] * 3]


@pytest.mark.parametrize("level", [4.0, [1.0, 4.0, 9.0]])
def test_the_range_clips_readings_of_their_own(level, monkeypatch):
    """Inwards to the grid: what is shown moves by no more than √s·(high − low)."""
    quiet(monkeypatch)
    low, high = -0.3, 1.7
    mechanism = GaussianMechanism(level, 3, range=(low, high))
    shown = mechanism.release([[-1e9] * 3, [1e9] * 3])
    root = np.sqrt(np.broadcast_to(level, 3))
    for value, s in zip(shown[0], root):
        assert Fraction(low) * Fraction(s) <= Fraction(value) < Fraction(low * s) + Fraction(1, 512)
    for value, s in zip(shown[1], root):
        assert (
            Fraction(high * s) - Fraction(1, 512) < Fraction(value) <= Fraction(high) * Fraction(s)
        )
    wide = GaussianMechanism(1.0, 1, range=(0.0, 2.0)).release([[-1.0], [3.0]])
    assert wide.ravel().tolist() == [0.0, 2.0]  # ends on the grid stay


def test_correlated_levels_clip_coordinates(monkeypatch):
    """Within the range nothing changes; beyond it the coordinate stops, not the reading."""
    quiet(monkeypatch)
    free, kept = GaussianMechanism(S, 3), GaussianMechanism(S, 3, range=(-1.0, 1.0))
    corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=-1).reshape(-1, 3)
    assert np.array_equal(free.release(corners), kept.release(corners))
    far = kept.release([1e6, -1e6, 1e6])
    rows = np.abs(free._S.factor_rows(np.eye(3)))
    assert (np.abs(far) <= rows.sum(axis=1) + 2 * 2.0**-10).all()


@pytest.mark.parametrize(
    "given", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), 3.0, (1.0, 2.0, 3.0), "ab"]
)
def test_ranges_are_checked_when_the_mechanism_is_made(given):
    with pytest.raises(InvalidInput):
        StreamMechanism(1.0, range=given)


def test_a_range_that_the_grid_cannot_hold():
    with pytest.raises(InvalidInput, match="the grid holds"):
        GaussianMechanism(1.0, 1, range=(0.0, 1e13))


def test_a_release_has_no_seed():
    for kind in (GaussianMechanism, StreamMechanism):
        assert not {"seed", "rng", "random_state"} & set(inspect.signature(kind.release).parameters)
    for seed in (3, np.random.default_rng(3), seeded(3), Generated(np.random.default_rng(0))):
        with pytest.raises(InvalidInput, match="simulat"):
            StreamMechanism(1.0).release(Y, seed)
    with pytest.raises(InvalidInput, match="real releases"):
        StreamMechanism(1.0).simulate(Y, Protected())
    assert isinstance(as_protected(None), Protected)


def test_a_simulation_is_never_kept_as_a_release(tmp_path):
    with pytest.raises(InvalidInput, match="simulation"):
        GaussianMechanism(1.0, 12).release(Y, Kept(tmp_path / "a", seeded(1)))


def test_other_laws_are_for_simulation():
    with pytest.raises(NotReleasable, match="simulation only"):
        GeometricPerturbation(3, variance=0.0).release(Y[:3])


def test_the_moments_are_those_promised():
    """E z̃ = Lᵀy, cov z̃ = I·(1 + 3g²/4 at most), from 40,000 releases: 5 deviations."""
    trials, mechanism = 40_000, GaussianMechanism(S, 3)
    rest = mechanism.release(Y[:3], trials=trials) - mechanism._shown(Y[:3])
    assert np.abs(rest.mean(axis=0)).max() < 5 / np.sqrt(trials)
    assert np.abs(np.cov(rest.T) - np.eye(3)).max() < 5 * np.sqrt(2 / trials)


def exact_gap(mechanism):
    """S − LLᵀ in fractions, L the doubles that are used."""
    m = mechanism.measurements
    L = [[Fraction(0)] * mechanism.outputs for _ in range(m)]
    for weights, place in mechanism._terms:
        for i, (c, k) in enumerate(zip(weights.tolist(), place.tolist())):
            L[k][i] += Fraction(c)
    S = mechanism._S.dense()
    return [
        [Fraction(S[i, j]) - sum(a * b for a, b in zip(L[i], L[j])) for j in range(m)]
        for i in range(m)
    ]


def is_psd(matrix):
    """By elimination in fractions: exact."""
    rows = [row[:] for row in matrix]
    for k in range(len(rows)):
        if rows[k][k] < 0:
            return False
        if rows[k][k] == 0:
            if any(rows[k][k:]):
                return False
            continue
        for i in range(k + 1, len(rows)):
            ratio = rows[i][k] / rows[k][k]
            rows[i] = [a - ratio * b for a, b in zip(rows[i], rows[k])]
    return True


def test_the_information_is_within_the_level_as_typed():
    """LLᵀ ≤ S in exact arithmetic; plain roots and Cholesky factors fail it in the last bits."""
    rng, plain = np.random.default_rng(5), 0
    levels = [2.0, 3.0, 0.1, np.array([2.0, 0.7, 1e-3]), np.array([3.0, 5.0, 7.0])]
    for _ in range(20):
        Q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        S = Q * np.array([1.0, 1e-2, 1e-4]) @ Q.T
        levels.append((S + S.T) / 2)
    for level in levels:
        mechanism = GaussianMechanism(level, 3)
        assert mechanism.literal
        assert is_psd(exact_gap(mechanism))
        mechanism._literal = (
            [(c, np.arange(3) if k is None else k) for c, k in mechanism._S.factor_terms()], True
        )  # fmt: skip
        plain += not is_psd(exact_gap(mechanism))
    assert plain >= 5  # without the care


def test_a_singular_level_says_that_it_is_met_to_rounding():
    assert not GaussianMechanism(np.ones((3, 3)), 3).literal
    blocks = pv.PrivacyLevel(np.diag([2.0, 0.0, 3.0]))
    assert GaussianMechanism(blocks, 3).literal  # a diagonal: zeros are exact


MAKE = [
    pv.StreamLevel.constant,
    lambda s: pv.StreamLevel([s, s]),
    lambda s: pv.StreamLevel.from_cumulative(np.diag([s, s])),
]


@pytest.mark.parametrize("make", MAKE)
def test_streams_meet_the_level_as_typed(make):
    """c² ≤ s in fractions, c what multiplies a reading; √s as a double fails for one in five."""
    levels = [2.0, 3.0, 5.0, 7.0, 10.0, 0.1, *np.random.default_rng(1).uniform(1e-3, 1e3, 200)]
    for s in levels:
        level = make(float(s))
        terms, _ = stream_terms(level, begun(level), np.ones(1), 0, 1)
        assert Fraction(float(np.ravel(terms[0][0])[0])) ** 2 <= Fraction(float(s))


@pytest.mark.parametrize("lags", [[-1.0], [1e-145], [0.5, -2.0]])
def test_readings_of_any_size_are_remembered_as_they_are(lags, monkeypatch):
    """Clipped on the way, a later step would show more of one reading than its level."""
    quiet(monkeypatch)
    y = np.array([1e200, 1e149, 3e149, -np.inf, 1.7e308, 2.0])
    whole = StreamMechanism(pv.StreamLevel.constant(1.0, lags=lags)).release(y).values
    stream = StreamMechanism(pv.StreamLevel.constant(1.0, lags=lags))
    assert np.array_equal(np.concatenate([stream.release(v).values for v in y]), whole)
    stream.restore(stream.state())  # a checkpoint takes it


def test_large_readings_take_no_longer_way(monkeypatch):
    """Fractions decide where doubles cannot: not because a sum leaves the range of doubles."""
    asked = []
    monkeypatch.setattr(_rounding, "by_fractions", lambda *given: asked.append(given) or 0)
    for value in (1e308, np.inf, -np.inf, 1e200, 1e20):
        StreamMechanism(pv.StreamLevel.constant(4.0, lags=[1.0, 0.5])).release(np.full(200, value))
        GaussianMechanism(S, 3).release([[1.0, value, 2.0]] * 200)
    assert not asked


@pytest.mark.parametrize(
    ("level", "span"),
    [(1.0, (0.0, 1e13)), (1.0, (0.0, 1e-9)), (pv.StreamLevel([1.0, 1.0, 1e30]), (0.0, 5.0))],
)
def test_ranges_of_streams_are_checked_when_the_mechanism_is_made(level, span):
    with pytest.raises(InvalidInput, match="grid"):
        StreamMechanism(level, range=span)


@pytest.mark.parametrize("level", [1.0, pv.StreamLevel.constant(1.0, lags=[0.5])])
def test_the_range_of_a_stream_holds_one_step_at_a_time(level, monkeypatch):
    quiet(monkeypatch)
    y = np.array([1e9, -1e9, np.inf, 1.0])
    whole = StreamMechanism(level, range=(0.0, 2.0)).release(y).values
    stream = StreamMechanism(level, range=(0.0, 2.0))
    steps = np.concatenate([stream.release(value).values for value in y])
    assert np.array_equal(steps, whole)
    assert -0.01 < steps.min() < steps.max() < 3.01  # (1 + 0.5)·2, and a step of the grid


@pytest.mark.parametrize("span", [(1.0, 2.0), (-2.0, -1.0)])
@pytest.mark.parametrize("lag", [0.5, -0.5])
def test_the_range_leaves_room_for_earlier_readings_that_are_none(span, lag, monkeypatch):
    """Before the first step, and where one was missing, 0 is looked back to: nothing is clipped."""
    quiet(monkeypatch)
    for value in span:
        y = [value, np.nan, value, value]
        free = StreamMechanism(pv.StreamLevel.constant(1.0, lags=[lag])).release(y)
        kept = StreamMechanism(pv.StreamLevel.constant(1.0, lags=[lag]), range=span).release(y)
        np.testing.assert_array_equal(kept.values, free.values)


@pytest.mark.parametrize("span", [None, (-3.0, 3.0)])
def test_missing_is_marked_with_a_range_and_in_tables(span, monkeypatch):
    quiet(monkeypatch)
    table = np.ma.masked_array(Y.reshape(4, 3), mask=np.zeros((4, 3), dtype=bool))
    table[1, 1] = np.ma.masked
    each = GaussianMechanism(4.0, 3, range=span).release(table)
    assert np.array_equal(np.isnan(each), table.mask)
    tied = GaussianMechanism(S, 3, range=span).release(table)
    assert np.isnan(tied).tolist() == [[False] * 3, [True, True, False], *[[False] * 3] * 2]
    rows = StreamMechanism(pv.StreamLevel.constant(S), range=span).release(table)
    assert rows.missing.tolist() == [False, True, False, False]
    whole = np.broadcast_to(rows.missing.reshape(4, -1), (4, 3))
    assert np.array_equal(np.isnan(rows.values), whole.ravel())
    one = StreamMechanism(1.0, range=span).release(np.ma.masked_array([0.5, 0.7], [False, True]))
    assert np.isnan(one.values).tolist() == [False, True]


def test_threads_take_turns():
    """Each step is released once, whoever asks: two noises on one reading would average out."""
    stream = StreamMechanism(pv.StreamLevel.constant(1.0, lags=[0.5]))

    class Slow(Protected):
        def _integers(self, count, law):
            time.sleep(0.002)
            return super()._integers(count, law)

    with ThreadPoolExecutor(4) as pool:
        starts = list(pool.map(lambda y: stream.release(y, Slow()).start, Y))
    assert sorted(starts) == list(range(12))
    assert copy.deepcopy(stream).release(1.0).start == 12
