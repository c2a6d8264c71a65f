"""The level to begin with says what it says: checked by the guess at the plan's own level."""

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.privacy.attacker import chance_of_mu, coin_chance
from privest.workflow import starting_privacy


@pytest.mark.parametrize("width", [1e-3, 0.7, 5.0, 400.0])
def test_two_values_a_tenth_apart_are_told_in_three_of_four_cases(width):
    found = starting_privacy({"y": (1.0, 1.0 + width)})
    chance = chance_of_mu(0.1 * width * found.level**0.5)
    # Rounded down to three digits (1 in 100 of the level) and to whole steps of the grid (2⁻¹⁰).
    assert 0.74 < chance <= 0.75
    assert (found.range, found.delta) == ({"y": (1.0, 1.0 + width)}, 1e-6)


def test_after_a_logarithm_it_is_a_tenth_of_the_logarithms():
    assert starting_privacy({"y": (np.e, np.e**6)}, transform="log").level == pytest.approx(
        starting_privacy({"y": (0.0, 5.0)}).level
    )


def test_a_yes_or_no_has_no_delta():
    found = starting_privacy({"y": (0.0, 1.0)}, family="binomial")
    assert found.delta is None
    epsilon = 2 * np.arcsinh(found.level**0.5 / 2)
    assert 0.745 < coin_chance(epsilon) <= 0.75


def test_several_columns_share_one_budget():
    """Records a tenth apart in both columns: μ² = Σ (0.1·width)²·s_j, s_j = b/(2·width²)."""
    found = starting_privacy({"a": (0.0, 2.0), "b": (0.0, 50.0)})
    assert 0.74 < chance_of_mu((0.01 * found.level) ** 0.5) <= 0.75
    assert found.range == {"a": (0.0, 2.0), "b": (0.0, 50.0)}


def test_without_a_range_there_is_none():
    with pytest.raises(InvalidInput, match="needs the public range"):
        starting_privacy({})
