"""Statements about releases on the grid, against other routes: mpmath, dp-accounting, rationals."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss

import privest as pv
from privest import lattice
from privest.errors import InvalidInput
from privest.lattice import GAUSSIAN, GRID, LAPLACE
from privest.mechanism import GaussianMechanism, StreamMechanism
from privest.privacy import (
    Adjacency,
    PrivacyLevel,
    StreamLevel,
    as_adjacency,
    gdp,
    grid_statement,
    largest_level,
    rows_statement,
)
from privest.privacy._discrete import (
    epsilon_of_move,
    laplace_epsilon,
    log_delta_of_move,
    log_delta_of_shift,
)

SIGMA2 = mpmath.mpf(2**21 + 1) / 2


def delta_by_mpmath(n, epsilon):
    """F(t) − e^ε F(t − n) with 60 digits: the plain formula, which cancels."""
    with mpmath.workdps(60):
        t = int(mpmath.ceil(mpmath.mpf(n) / 2 - mpmath.mpf(epsilon) * SIGMA2 / n)) - 1
        q = mpmath.exp(-1 / SIGMA2)

        def below(last):  # Σ_{x ≤ last} e^{−x²/2σ²}, last < 0: ratios r, r·q, …
            x = mpmath.mpf(last)
            term, ratio, total = mpmath.exp(-x * x / (2 * SIGMA2)), 0, 0
            ratio = mpmath.exp((2 * x - 1) / (2 * SIGMA2))
            while term > total * mpmath.mpf(10) ** -55:
                total, term, ratio = total + term, term * ratio, ratio * q
            return total

        assert t < 0
        z = mpmath.sqrt(2 * mpmath.pi * SIGMA2)
        return mpmath.log((below(t) - mpmath.exp(epsilon) * below(t - n)) / z)


@pytest.mark.parametrize(
    ("n", "epsilon"), [(102, 0.3952), (1, 0.01), (1024, 4.8), (102, 3.5), (700, 20.0)]
)
def test_delta_of_a_shift_is_that_of_60_digits(n, epsilon):
    """1e-12: `_rounding`, which holds the error of log δ for these n."""
    assert abs(log_delta_of_shift(n, epsilon) - float(delta_by_mpmath(n, epsilon))) < 1e-12


@pytest.mark.parametrize(("n", "epsilon"), [(1, 0.001), (102, 0.1), (102, 0.5), (1024, 4.9)])
def test_delta_of_a_shift_is_that_of_dp_accounting(n, epsilon):
    """Their sum subtracts two cdfs: absolute error of some 1e-16 a term."""
    peer = DiscreteGaussianPrivacyLoss(math.sqrt(float(GAUSSIAN.variance)), sensitivity=n)
    theirs = peer.get_delta_for_epsilon(epsilon)
    assert math.exp(log_delta_of_shift(n, epsilon)) == pytest.approx(theirs, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "delta", "printed"),
    [(102, 1e-6, 0.395199975), (102, 1e-10, 0.572), (1024, 1e-6, 4.88655272), (1024, 1e-10, 6.548)],
)
def test_the_table_of_the_note(n, delta, printed):
    digits = len(str(printed).split(".")[1])
    found = epsilon_of_move(Fraction(n), delta)
    assert round(found, digits) == printed
    assert log_delta_of_shift(n, found) <= math.log(delta)
    assert log_delta_of_shift(n, found * (1 - 1e-10)) > math.log(delta)  # and no smaller one
    through_mu = gdp.epsilon_of(n * GRID, delta)
    assert found <= through_mu <= found * (1 + 1e-6)


def laws(first, fraction, width=12 * 1024):
    """P(⌊u/g + W⌋ + X = k), u = (first + fraction) g, for k around 0."""
    k = np.arange(-width, width + 1.0)
    weights = [np.exp(-((k - n) ** 2) / (2 * float(SIGMA2))) for n in (first, first + 1)]
    return ((1 - fraction) * weights[0] + fraction * weights[1]) / math.sqrt(
        2 * math.pi * float(SIGMA2)
    )


@pytest.mark.parametrize("steps", [Fraction(1, 4), Fraction(3, 2), Fraction(409, 4)])
def test_no_pair_at_this_distance_has_a_larger_delta(steps):
    """δ of the two laws themselves, wherever the pair lies on the grid, both ways."""
    for epsilon in (0.0, 0.5 * float(steps) * GRID, 3 * float(steps) * GRID):
        stated = math.exp(log_delta_of_move(steps, epsilon))
        for start in (0.0, 0.3, 0.75, 0.9):
            n, fraction = divmod(start + float(steps), 1.0)
            one, other = laws(0, start), laws(int(n), fraction)
            for p, q in ((one, other), (other, one)):
                assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= stated * (1 + 1e-9)


def test_mu_needs_the_rounding_outwards():
    """Two coordinates, σ² = 4 + 1/2 (g = 1/2): δ of the products of laws against μ-GDP.

    With moves rounded outwards no pair exceeds it; without, some do.
    """
    g, variance = 0.5, 4.5
    k = np.arange(-40, 41.0)

    def law(u):
        n, f = divmod(u / g, 1.0)
        both = [np.exp(-((k - m) ** 2) / (2 * variance)) for m in (n, n + 1)]
        found = (1 - f) * both[0] + f * both[1]
        return found / found.sum()

    above = {"outwards": 0, "as they are": 0}
    rng = np.random.default_rng(1)
    for _ in range(60):
        move, start = rng.uniform(0.02, 1.2, 2), rng.uniform(0, g, 2)
        one, other = (np.multiply.outer(*(law(u) for u in at)) for at in (start, start + move))
        lengths = {"outwards": np.linalg.norm(g * np.ceil(move / g)), "as they are": 0.0}
        lengths["as they are"] = np.linalg.norm(move)
        for epsilon in (0.1, 1.0, 3.0):
            found = np.maximum(other - math.exp(epsilon) * one, 0).sum()
            for how, mu in lengths.items():
                above[how] += found > gdp.delta_of(mu, epsilon) * (1 + 1e-9)
    assert above["outwards"] == 0
    assert above["as they are"] > 0


def squared_steps_in_fractions(A, by):
    """max over columns of Σ ⌈|A_ik| by/g⌉², in rationals."""
    grid = Fraction(by) / Fraction(GRID)
    return max(
        sum(math.ceil(abs(Fraction(float(a))) * grid) ** 2 for a in column) for column in A.T
    )


def levels():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    dense = root @ root.T
    lower = np.linalg.cholesky(dense)
    yield PrivacyLevel(0.3), np.array([[math.sqrt(0.3)]])
    yield PrivacyLevel([1.0, 0.25, 0.0]), np.diag([1.0, 0.5, 0.0])
    yield PrivacyLevel(dense), lower.T
    endless = StreamLevel.constant(4.0, lags=[0.5, 0.001])
    yield endless, np.array([[2.0], [1.0], [0.002]])
    banded = endless.first(30)
    yield banded, banded.rows.dense()
    blocks = StreamLevel.constant(dense, lags=[0.25])
    yield blocks, np.vstack([lower.T, 0.25 * lower.T])
    yield blocks.first(12), blocks.first(12).rows.dense()
    target = rng.normal(size=(6, 6))
    cumulative = StreamLevel.from_cumulative(target @ target.T)
    yield cumulative, cumulative.rows.dense()
    yield (
        StreamLevel([dense, [[2.0]]]),
        np.block([[lower.T, np.zeros((3, 1))], [np.zeros((1, 3)), np.full((1, 1), math.sqrt(2))]]),
    )


@pytest.mark.parametrize(("level", "A"), list(levels()), ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("by", [1.0, 0.1, 7.3])
def test_steps_of_one_reading_are_those_of_rationals(level, A, by):
    said = grid_statement(level, sensitivity=by)
    squared = squared_steps_in_fractions(A, by)
    assert said.squared_steps == squared
    assert Fraction(said.rho) >= Fraction(squared) / (2**21 + 1)
    assert said.rho == pytest.approx(squared / (2**21 + 1), rel=1e-15)
    assert said.mu == pytest.approx(GRID * math.sqrt(squared), rel=1e-15)
    assert said.mu >= level.to_mu(sensitivity=by) * (1 - 1e-14)
    assert gdp.epsilon_of(said.mu, 1e-6) >= said.epsilon * (1 - 1e-9)
    assert said.conditions
    assert said.about in said.conditions[0]


@pytest.mark.parametrize(
    ("level", "move", "size"),
    [
        (PrivacyLevel([0.5] * 12), Adjacency.block(2.0, 3), 3),
        (PrivacyLevel(0.5), Adjacency.block(2.0, 3), 3),
        (PrivacyLevel([[2.0, 1.0], [1.0, 2.0]]), Adjacency.block(1.0), 2),
        (StreamLevel.constant(np.eye(2), lags=[0.5]), Adjacency.block(1.0), 2),
        (StreamLevel.constant(np.eye(5), lags=[0.5]).first(4), Adjacency.block(1.0), 5),
    ],
)
def test_no_direction_of_a_block_takes_more_steps(level, move, size):
    """Any direction of that length, shown through the rows of the level."""
    said, rng = grid_statement(level, sensitivity=move), np.random.default_rng(3)
    endless = isinstance(level, StreamLevel) and level.steps is None
    part = level.first(12) if endless else level
    if isinstance(part, StreamLevel):
        A = part.rows.dense()
    else:
        A = np.linalg.cholesky(part.dense(part.size or size)).T
    for _ in range(300):
        v = np.zeros(A.shape[1])
        at = size if A.shape[1] > size else 0
        v[at : at + size] = rng.normal(size=size) * rng.choice([1.0, 1e-3], size)
        v *= move.by / np.linalg.norm(v)
        assert (np.ceil(np.abs(A @ v) / GRID) ** 2).sum() <= said.squared_steps
    assert said.mu <= level.to_mu(sensitivity=move) + GRID * math.sqrt(2 * size + 2) * 1.001
    assert not said.proved


def test_a_range_makes_it_true_and_a_move_does_not():
    ranged = grid_statement(1.0, range=(0.0, 1.0))
    assert ranged.conditions == ()
    assert ranged.squared_steps == 1024**2
    assert GaussianMechanism(1.0, 4, range=(0.0, 1.0)).statement() == ranged
    assert StreamMechanism(1.0, range=(0.0, 1.0)).statement() == ranged
    both = GaussianMechanism(1.0, 4, range=(0.0, 1.0)).statement(0.5)
    assert both.conditions
    assert both.squared_steps == 512**2
    assert GaussianMechanism(1.0, 4).statement(2.0) == grid_statement(1.0, sensitivity=2.0)
    with pytest.raises(InvalidInput, match="a sensitivity"):
        GaussianMechanism(1.0, 4).statement()
    with pytest.raises(InvalidInput, match="mixes measurements"):
        grid_statement(StreamLevel.constant(1.0, lags=[0.5]), range=(0.0, 1.0))


@pytest.mark.parametrize(
    ("mechanism", "measurements"),
    [
        (lambda: GaussianMechanism([[1.0, -0.9], [-0.9, 1.0]], 2, range=(0.0, 1.0)), 2),
        (lambda: StreamMechanism(StreamLevel.constant(1.0, lags=[0.5]), range=(-1.0, 1.0)), 6),
    ],
)
def test_a_clipped_release_shifts_by_no_more_than_stated(mechanism, measurements, monkeypatch):
    """One reading jumps anywhere: the noiseless integers (same words) of both data sets."""
    half = np.uint64(2**63)
    monkeypatch.setattr(lattice, "os_words", lambda count: np.full(count, half))
    said, rng = mechanism().statement(), np.random.default_rng(4)
    assert said.conditions == ()

    class Bare(pv.mechanism.source.Protected):
        def _integers(self, count, law):
            return np.zeros(count, dtype=np.int64)

        @staticmethod
        def _rounded(shown, words, clip):
            half = np.full(len(words), 2**63, dtype=np.uint64)
            return pv.mechanism.source.Protected._rounded(shown, half, clip)

    largest = 0.0
    for _ in range(100):
        y = rng.uniform(-1, 2, measurements)
        other = y.copy()
        other[rng.integers(measurements)] = rng.choice([-1e9, 1e9, 0.3])
        shown = [np.asarray(getattr(r, "values", r)) for r in
                 (mechanism().release(given, Bare()) for given in (y, other))]  # fmt: skip
        largest = max(largest, (((shown[0] - shown[1]) / GRID) ** 2).sum())
    assert largest <= said.squared_steps
    assert largest > 0.2 * said.squared_steps  # and it does jump


def test_laplace_epsilon_is_the_supremum_over_the_grid():
    """ln of the ratio of the two laws at every z and start in a cell, 50 digits: equal at 0."""
    q = mpmath.mpf(LAPLACE.ratio.numerator) / LAPLACE.ratio.denominator

    def law(z, u):
        n = mpmath.floor(u)
        return (1 - u + n) * q ** abs(z - n) + (u - n) * q ** abs(z - n - 1)

    with mpmath.workdps(50):
        for steps in (Fraction(1, 3), Fraction(3), Fraction(7, 2)):
            size = mpmath.mpf(steps.numerator) / steps.denominator
            found = max(
                abs(mpmath.log(law(z, start + size) / law(z, start)))
                for z, start in itertools.product(
                    range(-8, 14), [mpmath.mpf(i) / 24 for i in range(24)]
                )
            )
            assert laplace_epsilon(steps) >= found
            assert laplace_epsilon(steps) == pytest.approx(float(found), rel=1e-13)


def test_laplace_statement_adds_over_coordinates():
    said = rows_statement([[0.5, 0.25], [0.25, 1.0]], sensitivity=1.0, law="laplace")
    assert said.epsilon == pytest.approx(laplace_epsilon(Fraction(1280)), rel=1e-15)
    assert said.fisher == 1.0625
    assert said.delta == 0.0
    assert said.mu is None
    assert said.metric == pytest.approx(1.25 * 1.00049, rel=1e-5)
    assert "delta = 0" in said.explain()


def test_explained_and_written():
    said = grid_statement([[1.0, 0.5], [0.5, 1.0]], sensitivity=1.0)
    text = said.explain()
    assert "not proved" in text
    assert "which no range enforces" in text
    assert said.to_dict()["squared_steps"] == said.squared_steps
    tighter = grid_statement([[1.0, 0.5], [0.5, 1.0]], sensitivity=1.0, delta=1e-9)
    assert tighter.epsilon > said.epsilon
    assert grid_statement(1.0, sensitivity=1e300).squared_steps == 2**106  # the grid ends
    with pytest.raises(InvalidInput, match="delta"):
        grid_statement(1.0, sensitivity=1.0, delta=0.0)


SHAPES = {
    "number": PrivacyLevel(1.0),
    "stream": StreamLevel.constant(1.0),
    "lags": StreamLevel.constant(1.0, lags=[0.5, 0.2]),
    "readings": StreamLevel.constant(np.eye(3)),
    "matrix": PrivacyLevel([[2.0, 1.0], [1.0, 2.0]]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.7])
def test_the_level_of_an_epsilon_keeps_it_on_the_grid(name, epsilon, tmp_path):
    """No more than asked, no less than one step for each number; its budget takes it once."""
    shape, delta, move = SHAPES[name], 1e-6, 0.7
    level = largest_level(gdp.mu_of(epsilon, delta), as_adjacency(move), shape)
    assert grid_statement(level, sensitivity=move, delta=delta).epsilon <= epsilon
    mu, shown = gdp.mu_of(epsilon, delta), 3 if name == "lags" else 2
    # n_i < a_i + 1 for each number that shows a reading, so ‖a‖ > μ/g − √(count + 1)
    assert level.to_mu(sensitivity=move) <= mu
    assert level.to_mu(sensitivity=move) > mu - 2 * math.sqrt(shown) * GRID
    larger = level * (1 + 4 * math.sqrt(shown) * GRID / mu)
    assert grid_statement(larger, sensitivity=move, delta=delta).mu > mu
    with pv.Ledger(tmp_path / "ledger.db") as ledger:
        ledger.account("y", budget=pv.ledger.Budget(epsilon=epsilon, delta=delta, sensitivity=move))
        cost = pv.ledger.cost_of(level, sensitivity=move)
        count = 2 if name == "matrix" else 1
        assert ledger.account("y").preview(cost, start=0, stop=count).fits
        drawn = np.zeros(count, dtype=np.int64)
        ledger.account("y").spend_and_write(cost, 0, count, {}, lambda: (drawn, None))
        assert not ledger.account("y").preview(cost, start=0, stop=count).fits


def test_less_than_a_step_of_the_grid_has_no_level():
    with pytest.raises(InvalidInput, match="less than one step of the grid"):
        PrivacyLevel.from_epsilon(1e-3, delta=1e-9, sensitivity=1.0)


def test_a_move_below_every_step_shows_nothing():
    """It was divided by as 0; a document may state it."""
    assert grid_statement(0.1, sensitivity=5e-324, delta=1e-6).epsilon == 0.0
