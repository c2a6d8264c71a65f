"""Pure ε: levels of Laplace noise and coins, and what a guess is worth."""

import math
import warnings

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.lattice import Coin, flips_for
from privest.ledger import Budget, Ledger, cost_of
from privest.privacy.statement import coin_epsilon, coin_of, pure_epsilon, pure_level


@pytest.mark.parametrize("law", ["laplace", "coin"])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("width", [0.01, 1.0, 371.3])
def test_a_level_keeps_its_epsilon(law, epsilon, width):
    level = pure_level(law, epsilon, width)
    assert pure_epsilon(law, level, width) <= epsilon
    ideal = epsilon if law == "laplace" else 2 * math.sinh(epsilon / 2)
    # Laplace on the grid: a width of few steps costs up to ½ g of ε (PROOF.md §3)
    assert level * width**2 == pytest.approx(ideal**2, rel=2e-3 if law == "laplace" else 1e-14)


def test_epsilon_of_a_coin_is_proved_and_near():
    for epsilon in (0.1, 1.0, 3.3):
        coin = Coin(flips_for(epsilon))
        found = coin_epsilon(coin)
        assert found <= epsilon * (1 + 1e-15)
        assert found == pytest.approx(epsilon, rel=1e-14)
        assert flips_for(found) <= coin.flips  # the promise: (1 − q)/q ≤ e^found


def test_a_level_that_is_no_number_is_refused():
    with pytest.raises(InvalidInput, match="no level"):
        pure_level("laplace", 1e200, 1e-200)
    with pytest.raises(InvalidInput, match="epsilon"):
        pure_level("coin", -1.0, 1.0)


def test_a_ledger_counts_coins_in_pure_epsilon(tmp_path):
    """Two of ε = 1 fit a budget of 2 at δ = 0; a third does not."""
    level = pure_level("coin", 1.0, 1.0)
    cost = cost_of(level, law=coin_of(level))
    assert (float(cost.information), float(cost.epsilon), cost.sensitivity) == (
        level, coin_epsilon(coin_of(level)), "OneReading(by=1.0)",
    )  # fmt: skip
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.account("ill", budget=Budget(epsilon=2.0, delta=0.0, sensitivity=1.0))
        for k in range(2):
            assert ledger.account("ill").preview(cost).fits
            ledger.account("ill").spend_and_write(
                cost, 0, 1, {}, lambda: (np.zeros(1, dtype=np.int64), None), key=str(k)
            )
        assert not ledger.account("ill").preview(cost).fits
    with pytest.raises(InvalidInput, match="at least its own"):
        cost_of(level / 2, law=coin_of(level))


def test_a_move_beyond_the_grid_is_a_number_without_a_warning():
    """Whoever writes such a header is answered, not warned: all of the grid, 2^53 steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 1e12 < pure_epsilon("laplace", 1e300, 1e300) < math.inf
