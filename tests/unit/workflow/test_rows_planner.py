"""Steps, weights and noise of rows: what they cost by the vault, and what a reader sees."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privest import vault
from privest.errors import InvalidInput
from privest.mechanism.simulated import simulate
from privest.privacy import Range, gdp
from privest.workflow.rows_planner import (
    GAUSSIAN_VARIANCE,
    LAPLACE_VARIANCE,
    LEVEL_COLUMN_VARIANCE,
    RowGrid,
    epsilon_of,
    gaussian_rows,
    laplace_rows,
    level_column_rows,
    level_that_keeps,
    response_rows,
)
from privest.workflow.strategies import RandomisedResponse

RANGES = [None, Range(-4.0, 6.0), Range(0.1, 50.0), Range(3.3, 3.4)]
LEVELS = np.random.default_rng(3).lognormal(0.0, 4.0, 40).tolist()
MADE = {"gaussian": gaussian_rows, "laplace": laplace_rows}
WORST = {"gaussian": GAUSSIAN_VARIANCE, "laplace": LAPLACE_VARIANCE}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("limits", RANGES)
def test_the_information_is_at_most_the_level_and_the_variance_what_plans_say(name, limits):
    for level in LEVELS:
        grid = MADE[name](level, limits)
        noise = grid.law.sigma[0] if name == "gaussian" else grid.law.scale
        assert 2**10 <= noise < 2**12
        information = grid.cost().amounts["information"]
        # Whole steps of noise from 2¹⁰ on cost at most 2⁻¹⁰ of a root, Laplace noise twice that.
        assert Fraction(level) * (1 - Fraction(1, 2**8)) <= information <= Fraction(level)
        assert grid.variance <= WORST[name] / level
        assert grid.variance >= (1 if name == "gaussian" else 2) / level * (1 - 1e-5)


@pytest.mark.parametrize("limits", RANGES[1:])
def test_a_range_is_widened_by_at_most_a_thousandth_where_the_noise_has_room(limits):
    for level in LEVELS:
        grid = gaussian_rows(level, limits)
        low, high = grid.range.ends
        step = Fraction(2) ** grid.range.exponent
        assert low * step <= Fraction(repr(limits.low))
        assert high * step >= Fraction(repr(limits.high))
        wider = grid.range.steps * step / (Fraction(repr(limits.high)) - Fraction(repr(limits.low)))
        assert wider <= 1 + Fraction(1, 2**10) or grid.law.sigma[0] >= 2**11


def test_the_grid_of_a_level_just_below_a_power_of_two():
    """σ would be rounded up to 2¹¹: then twice the steps are as good."""
    level = (1 - 1e-9) * 2.0**-22  # 1/√s is just above 2¹¹
    for times in np.linspace(0.9, 1.1, 201):
        assert 2**10 <= gaussian_rows(level * times, None).law.sigma[0] <= 2**11 - 1


@pytest.mark.parametrize(
    ("epsilon", "delta", "law"),
    [(0.3, 1e-6, "gaussian"), (8.0, 1e-9, "gaussian"), (2.0, None, "laplace")],
)
@pytest.mark.parametrize("limits", RANGES[1:])
def test_a_level_keeps_its_epsilon_and_little_is_left(epsilon, delta, law, limits):
    def cost_at(level):
        return MADE[law](level, limits).cost()

    level = level_that_keeps(epsilon, delta, limits.width, cost_at)
    found = epsilon_of(cost_at(level), delta)
    assert found <= epsilon
    ideal = gdp.mu_of(epsilon, delta) if delta else epsilon
    # Whole noise costs 2⁻¹⁰ (Laplace twice), whole steps of the range 2⁻¹⁰ or two steps of N.
    steps = MADE[law](level, limits).range.steps
    assert math.sqrt(level) * limits.width >= ideal * (1 - 2.0**-8 - 2 / steps)


def test_randomised_response_keeps_its_epsilon_in_the_units_of_the_vault():
    for epsilon in (0.1, 2.0, 20.0):
        level = RandomisedResponse().level_at_door(epsilon, None, 1.0, None, None)
        assert epsilon * (1 - 1e-8) <= epsilon_of(response_rows(level).cost(), None) <= epsilon


def test_a_level_column_charges_no_row_above_its_level():
    levels = np.random.default_rng(5).lognormal(0.0, 3.0, 500)
    levels[:20] = 0.0
    shown = levels > 0
    grid = level_column_rows(levels.max(), levels[shown].min(), Range(-2.0, 8.0))
    weights = grid.weights(levels)
    assert weights[shown].min() >= 2**16
    assert (weights[~shown] == 0).all()
    for level in levels[shown].tolist():
        information = grid.cost(level).amounts["information"]
        assert Fraction(level) * (1 - Fraction(1, 2**14)) <= information <= Fraction(level)
    variances = grid.variances(levels[shown])
    assert (variances <= LEVEL_COLUMN_VARIANCE / levels[shown]).all()
    assert (variances >= 1 / levels[shown]).all()
    with pytest.raises(InvalidInput, match="too far apart"):
        level_column_rows(1.0, 1e-30, None)


@pytest.mark.parametrize("case", ["gaussian", "laplace", "level column", "response"])
def test_released_values_are_unbiased_with_the_stated_variance(case):
    """20,000 rows: the mean within five deviations, the variance within five of its own (σ⁴ of
    Laplace noise is 5 times its square); a response between no and yes is linear.
    """
    n = 20_000
    rng = np.random.default_rng(11)
    y = rng.uniform(0.0, 1.0, n)
    levels = None
    if case == "response":
        grid = response_rows(1.5)
    elif case == "level column":
        levels = rng.choice([0.5, 3.0, 40.0], n)
        grid = level_column_rows(40.0, 0.5, Range(0.0, 1.0))
    else:
        grid = MADE[case](2.0, Range(0.0, 1.0))
    map = grid.map(n, levels)
    drawn = simulate(y, rng, map=map, law=grid.law, range=grid.range)
    noise = grid.values(np.asarray(drawn.integers), levels) - y
    variance = grid.variance if levels is None else grid.variances(levels)
    unit = noise / np.sqrt(variance)
    assert abs(unit.mean()) < 5 / math.sqrt(n)
    kurtosis = 6.0 if case == "laplace" else 3.0
    if case == "response":  # at the ends only is the variance that of the coin
        assert np.mean(unit**2) >= 1 - 5 / math.sqrt(n)
    else:
        assert np.mean(unit**2) == pytest.approx(1.0, abs=5 * math.sqrt((kurtosis - 1) / n))


def test_what_a_header_says_is_read_again():
    for grid in (gaussian_rows(2.0, RANGES[2]), laplace_rows(0.1, None), response_rows(3.0)):
        assert RowGrid.read(grid.said()) == grid
    assert isinstance(response_rows(3.0).map(7), vault.Levels)


def test_a_range_that_is_too_wide_is_refused():
    with pytest.raises(InvalidInput, match="deviations of the noise"):
        gaussian_rows(1e12, Range(-1e9, 1e9))


def test_levels_that_show_nothing_are_refused():
    grid = level_column_rows(1.0, 0.01, None)
    with pytest.raises(InvalidInput, match="write 0 for"):
        grid.weights(np.array([1.0, 1e-20]))
