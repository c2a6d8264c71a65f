"""Levels of a person with several rows: what leaves, what it promises, and never more."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.mechanism import PeopleMechanism
from privest.mechanism.source import Generated, seeded
from privest.privacy import gdp, person_level, person_statement
from privest.privacy._people import mixing, own_root

LEVELS = (4.0, 2.0, 0.3, 1e-7, 12345.678)
ROWS = (1, 2, 3, 5, 24, 97, 1000)


def level_of(design, s, r, most=None):
    """S as it is written in the docs."""
    mean = np.full((r, r), 1 / r)
    if design == "A":
        return s / (most or r) * np.eye(r)
    return s / r * mean + s * (np.eye(r) - mean)


@pytest.mark.parametrize("s", LEVELS)
@pytest.mark.parametrize("r", ROWS)
def test_the_information_is_below_the_level_to_the_last_bit(s, r):
    """In rationals: eigenvalues of LLᵀ against s/r and s; and nothing is given away for it."""
    root = own_root(s, r)
    assert r * Fraction(root) ** 2 <= Fraction(s)
    assert r * root**2 > s * (1 - 1e-15)
    d, o = mixing(s, r)
    within, mean = Fraction(d) - Fraction(o), Fraction(d) + (r - 1) * Fraction(o)
    assert r * mean**2 <= Fraction(s)
    assert (within if r > 1 else mean) ** 2 <= Fraction(s)
    assert math.isclose(float(mean**2) * r, s, rel_tol=1e-12)
    if r > 1:
        assert math.isclose(float(within**2), s, rel_tol=1e-12)


@pytest.mark.parametrize("design", "AB")
def test_the_noise_has_the_law_of_the_design(design):
    """Covariance of the readings with their noise is S⁻¹; entries to five standard errors."""
    s, r, trials = 2.0, 4, 20_000
    made = PeopleMechanism(s, design)
    shown = made.release(np.zeros(r * trials), [r] * trials) * GRID / math.sqrt(s)
    noise = made.readings(shown, [r] * trials).reshape(trials, r)
    expected = np.linalg.inv(level_of(design, s, r))
    spread = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / trials)
    assert (np.abs(np.cov(noise.T) - expected) < 5 * spread).all()
    if design == "B":  # noise 1/s on each row and (r − 1)/(rs) shared
        np.testing.assert_allclose(expected, np.eye(r) / s + (r - 1) / (r * s), rtol=1e-12)


@pytest.mark.parametrize("design", "AB")
def test_what_is_shown_is_unbiased(design):
    y, sizes = np.array([0.4, -2.0, 7.0, 1.0, 1.5]), [2, 3]
    made = PeopleMechanism(400.0, design)
    many = [made.readings(made.release(y, sizes) * GRID / 20.0, sizes) for _ in range(500)]
    noise = np.sqrt(
        [np.linalg.inv(level_of(design, 400.0, r)).diagonal()[0] for r in sizes for _ in range(r)]
    )
    assert (np.abs(np.mean(many, axis=0) - y) < 5 * noise / math.sqrt(500)).all()


def test_a_largest_number_of_rows_is_the_level_of_every_row():
    made = PeopleMechanism(4.0, "A", most=4)
    assert made._exactly(np.ones(3), np.array([1, 2, 2])).high.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(InvalidInput, match="a person has 5 rows; at most 4 may leave"):
        made.release(np.ones(5), [5])


def test_blocks_do_not_matter():
    y, sizes = np.sin(np.arange(12.0)), [1, 3, 2, 1, 5]
    for design in "AB":
        whole = PeopleMechanism(3.0, design).simulate(y, sizes, seeded(5))
        made = PeopleMechanism(3.0, design)
        parts = [made.simulate(y[:4], sizes[:2], seeded(5))]
        parts += [made.simulate(y[4:], sizes[2:], seeded(5))]
        assert np.array_equal(np.concatenate(parts), whole)


def test_under_b_readings_are_never_clipped():
    """The trap: with half of 24 readings clipped, DSD shows the mean 6.25 times as well as S.

    What is shown of readings in the range is as without one; beyond it L·D·Lᵀ ≤ S.
    """
    s, r = 1.0, 24
    S = level_of("B", s, r)
    inside = np.arange(r) < r // 2
    assert math.isclose(float((S * np.outer(inside, inside)).sum()), 6.25, rel_tol=1e-12)
    free, ranged = PeopleMechanism(s, "B"), PeopleMechanism(s, "B", range=(0.0, 1.0))
    corners = np.concatenate([inside.astype(float), 1.0 - inside, np.zeros(r), np.ones(r)])
    sizes = np.full(4, r)
    low, high = ranged._clip(sizes)
    shown = free._exactly(corners, sizes).high / GRID
    assert (low <= shown).all()
    assert (shown <= high).all()
    # derivatives of what is shown, where some readings are far beyond the range
    y = np.where(inside, 50.0, 0.5)
    clipped = np.clip(
        free._exactly(y, np.array([r])).high / GRID, *(end[:r] for end in (low, high))
    )
    kept = clipped == free._exactly(y, np.array([r])).high / GRID
    L = np.sqrt(s) * (np.eye(r) - (1 - 1 / math.sqrt(r)) / r)
    assert not kept.all()
    assert np.linalg.eigvalsh(S - L @ np.diag(kept) @ L.T).min() > -1e-12


def test_under_a_readings_are_clipped():
    made = PeopleMechanism(4.0, "A", range=(0.0, 1.0))
    low, high = made._clip(np.array([1, 4, 4, 4, 4]))
    assert (high * GRID).tolist() == [2.0, 1.0, 1.0, 1.0, 1.0]
    assert not low.any()
    shown = made.release(np.full(5, 1e300), [1, 4]) * GRID
    assert (np.abs(shown - high * GRID) < 10).all()


def test_too_many_rows_together_are_refused():
    with pytest.raises(InvalidInput, match=r"1,001 rows: design B .* State a largest number"):
        PeopleMechanism(1.0, "B").release(np.zeros(1001), [1001])
    PeopleMechanism(1.0, "A").release(np.zeros(1001), [1001])


def test_missing_readings():
    y = np.array([1.0, np.nan, 2.0, 3.0])
    for make in (
        lambda d: PeopleMechanism(1.0, d).release(y, [2, 2]),
        lambda d: PeopleMechanism(1.0, d).simulate(y, [2, 2], Generated(np.random.default_rng(1))),
    ):
        assert np.isnan(make("A")).tolist() == [False, True, False, False]
        assert np.isnan(make("B")).tolist() == [True, True, False, False]


def test_rows_in_any_order_are_those_of_their_persons():
    """A: person 1 has rows 0 and 2, person 2 row 1."""
    y = np.array([0.3, 0.7, 0.9])
    made = PeopleMechanism(4.0, "A")
    loose = made.simulate_rows(y, [2, 1, 2], seeded(1))
    assert np.array_equal(loose[1:2], _at(1).simulate(y[1:2], [1], seeded(1)))
    whole = PeopleMechanism(4.0, "A").simulate(y, [1, 2], seeded(1))
    assert not np.array_equal(loose, whole)
    assert made.steps == 3
    capped = PeopleMechanism(4.0, "A", most=3)
    assert capped.release_rows(y).shape == (3,)
    with pytest.raises(InvalidInput, match="how many rows"):
        made.release_rows(y)
    with pytest.raises(InvalidInput, match="leave together"):
        PeopleMechanism(4.0, "B").release_rows(y, [2, 1, 2])


def _at(step):
    made = PeopleMechanism(4.0, "A")
    made.steps = step
    return made


def test_wrong_calls():
    with pytest.raises(InvalidInput, match='"A" or "B"'):
        PeopleMechanism(1.0, "C")
    with pytest.raises(InvalidInput, match="3 readings; received"):
        PeopleMechanism(1.0).release(np.zeros(4), [1, 2])
    with pytest.raises(InvalidInput, match="whole numbers"):
        PeopleMechanism(1.0).release(np.zeros(4), [4.0])


def steps_of(weights, moves):
    """Σ ⌈|u|/g⌉² of a move, by exact products."""
    shown = np.array([
        math.ceil(abs(sum(Fraction(w) * Fraction(x) for w, x in zip(row, moves))) / Fraction(GRID))
        for row in weights
    ])  # fmt: skip
    return int((shown**2).sum())


@pytest.mark.parametrize("design", "AB")
@pytest.mark.parametrize("s", [1.0, 0.37])
def test_the_promise_holds_for_every_corner_of_the_box(design, s):
    """All signs of all rows, persons of one to six rows: never more than stated, and not by much.

    A is attained to the step; B allows a step of the grid for every row.
    """
    by, worst = 0.7, 0
    for r in range(1, 7):
        d, o = (own_root(s, r), 0.0) if design == "A" else mixing(s, r)
        weights = np.where(np.eye(r) > 0, d, o).tolist()
        for signs in itertools.product((by, -by), repeat=r):
            worst = max(worst, steps_of(weights, signs))
    said = person_statement(s, 6, design, move=by)
    assert worst <= said.squared_steps
    if design == "A":
        assert said.squared_steps == worst
        assert said.mu == pytest.approx(by * math.sqrt(s), abs=3 * math.sqrt(6) * GRID)
    else:
        assert said.mu <= GRID * math.sqrt(worst) * 1.01 + 3 * math.sqrt(6) * GRID
        assert said.mu == pytest.approx(by * math.sqrt(6 * s), abs=6 * GRID)
    assert said.conditions
    assert said.fisher == s


def test_b_with_a_range_holds_for_any_change():
    """Ends of the numbers that are shown, all rows at once."""
    for r in (2, 5, 24):
        made = PeopleMechanism(2.0, "B", range=(-1.0, 2.0))
        low, high = made._clip(np.array([r]))
        said = person_statement(2.0, r, "B", move=3.0, enforced=True)
        assert int(((high - low) ** 2).sum()) <= said.squared_steps
        assert said.squared_steps < 1.01 * int(((high - low) ** 2).sum())
        assert not said.conditions


@pytest.mark.parametrize(("design", "capped"), [("A", True), ("A", False), ("B", False)])
def test_the_level_of_an_epsilon(design, capped):
    """It keeps the ε, and a hair more does not."""
    how = {"rows": 7, "design": design, "move": 2.0, "capped": capped, "delta": 1e-6}
    level = person_level(1.5, **how)
    assert person_statement(level, **how).epsilon <= 1.5
    more = person_statement(level * (1 + 1e-3), **how)
    assert more.mu > gdp.mu_of(1.5, 1e-6)
    with pytest.raises(InvalidInput, match="less than the steps of the grid"):
        person_level(1e-9, **how)


def test_many_rows_under_a_are_quick_and_safe():
    """A person with 10⁵ rows: steps of the grid add up, and are counted."""
    said = person_statement(1.0, 100_000, "A", move=1.0, capped=True)
    assert said.mu == pytest.approx(math.sqrt(100_000) * 4 * GRID)  # ⌈c√s/(√r g)⌉ = 4 steps a row
    assert person_statement(1.0, 100_000, "A", move=1.0).mu >= said.mu
