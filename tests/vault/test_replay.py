"""Nothing but the integers depends on a value, and what they move by was charged: every map."""

import pytest

from vault_replay import CASES, Ledger, pairs

# The largest share of a charge that 1,000 pairs move: 1 where both ends of a range are neighbours.
# Squares: the bound is of rounding anew, and of both ends at once; persons: of A, B ≥ 0 with √2.
SQUARES = 0.5


@pytest.fixture(scope="module")
def ledger():
    made = Ledger()
    yield made
    made.close()


@pytest.mark.parametrize("name", CASES)
def test_few_neighbours(name, ledger):
    assert pairs(ledger, name, 40) <= 1


@pytest.mark.processes  # three minutes: CI runs it
@pytest.mark.parametrize("name", CASES)
def test_neighbours_cannot_be_told_apart_but_by_what_was_charged(name, ledger):
    share = pairs(ledger, name, 1000)
    assert (SQUARES if "squares" in name else 0.999) < share <= 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", CASES)
def test_a_hundred_thousand_pairs_in_all(name, ledger):
    assert pairs(ledger, name, 10**5 // len(CASES), seed=1) <= 1
