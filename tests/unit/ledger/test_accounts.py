"""Budgets and spends: every unit, exact totals, ranges, what is refused."""

import math
import os
import tempfile
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from privest.errors import BudgetExceeded, InvalidInput
from privest.ledger import Budget, Cost, Ledger
from privest.privacy import gdp

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
TINY = 5e-324  # the smallest subnormal


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.db") as opened:
        yield opened


def refused(ledger, subject, cost, **place):
    before = ledger.head
    with pytest.raises(BudgetExceeded):
        ledger.spend(subject, cost, **place)
    assert ledger.head == before  # nothing was spent
    assert not ledger.cost(subject, cost, **place).fits


def test_level_to_the_last_bit(ledger):
    ledger.open_account("a", Budget(level=1.0))
    assert ledger.cost("a", Cost(0.75)).fits
    ledger.spend("a", Cost(0.75))
    refused(ledger, "a", Cost(math.nextafter(0.25, 1)))
    ledger.spend("a", Cost(0.25))
    assert ledger.remaining("a").level == 0
    refused(ledger, "a", Cost(TINY))


def test_a_subnormal_spend_is_not_lost(ledger):
    ledger.open_account("a", Budget(level=1.0))
    ledger.spend("a", Cost(TINY))
    ledger.spend("a", Cost(1.0 - 2**-53))
    assert ledger.spent("a").level == Fraction(TINY) + Fraction(1.0 - 2**-53)
    refused(ledger, "a", Cost(2**-53))  # in floats the tiny one is gone, and this would fit
    assert float(TINY + (1.0 - 2**-53) + 2**-53) == 1.0


@pytest.mark.parametrize("bad", [-1.0, -TINY, math.nan, math.inf, -math.inf, "1", None, [1, -1.0]])
def test_spends_that_are_none(ledger, bad):
    ledger.open_account("a", Budget(level=1.0))
    for unit in ("information", "mu2", "rho", "epsilon"):
        with pytest.raises(InvalidInput):
            Cost(**{unit: bad})
    with pytest.raises(InvalidInput):
        ledger.spend("a", bad)
    assert ledger.spent("a").level == 0


def test_ranges_that_do_not_meet_cost_the_larger(ledger):
    ledger.open_account("t", Budget(level=1.0, trace=100.0))
    ledger.spend("t", Cost(0.5), start=0, stop=10)
    ledger.spend("t", Cost(1.0), start=10, stop=20)
    assert ledger.spent("t").level == 1
    assert ledger.spent("t").trace == 15
    ledger.spend("t", Cost(0.5), start=5, stop=10)
    assert ledger.spent("t", index=4).level == Fraction(1, 2)
    assert ledger.spent("t", index=5).level == 1
    refused(ledger, "t", Cost(0.25), start=4, stop=6)
    ledger.spend("t", Cost(0.25), start=0, stop=5)
    assert ledger.remaining("t", index=0).level == Fraction(1, 4)
    ledger.verify()


def test_a_vector_of_levels(ledger):
    ledger.open_account("t", Budget(level=1.0))
    ledger.spend("t", Cost([0.5, 0.5, 1.0]), start=3, stop=6)
    ledger.spend("t", Cost([0.5, 0.25]), start=3, stop=5)
    refused(ledger, "t", Cost(TINY), start=5)
    assert [ledger.spent("t", k).level for k in range(2, 7)] == [0, 1, Fraction(3, 4), 1, 0]
    assert ledger.spent("t").trace == Fraction(11, 4)
    with pytest.raises(InvalidInput, match="3 numbers for 2"):
        ledger.spend("t", Cost([0.5, 0.5, 1.0]), start=0, stop=2)


def test_many_different_levels_count_as_the_largest(ledger):
    ledger.open_account("t", Budget(level=1.0))
    levels = np.linspace(0.1, 0.9, 10_000)
    ledger.spend("t", Cost(levels), start=0, stop=10_000)
    assert ledger.spent("t", 0).level == Fraction(0.9)
    exact = sum(map(Fraction, levels.tolist()))
    assert exact <= ledger.spent("t").trace <= exact * (1 + Fraction(1, 2**50))


def test_trace_is_of_all(ledger):
    ledger.open_account("t", Budget(trace=2.0))
    ledger.spend("t", Cost(0.125), start=0, stop=8)
    ledger.spend("t", Cost([[0.5, 0.0], [0.0, 0.25]]), start=8)
    refused(ledger, "t", Cost(0.25), start=20, stop=22)
    ledger.spend("t", Cost(0.125), start=20, stop=22)
    assert ledger.remaining("t").trace == 0


def test_matrix_in_the_order_of_matrices(ledger):
    ledger.open_account("m", Budget(matrix=[[2.0, 1.0], [1.0, 2.0]]))
    assert not ledger.cost("m", Cost(1.5)).fits  # every entry is smaller, the matrix is not
    refused(ledger, "m", Cost([[1.0, -0.5], [-0.5, 1.0]]))
    ledger.spend("m", Cost([[1.0, 1.0], [1.0, 1.0]]))
    ledger.spend("m", Cost([[1.0, 0.0], [0.0, 1.0]]))
    refused(ledger, "m", Cost(TINY))
    assert ledger.remaining("m").matrix == ((0, 0), (0, 0))
    refused(ledger, "m", Cost([[1.0]]), start=1)  # of another size: not comparable
    ledger.spend("m", Cost(1.0), start=1)  # 1·I, λ_min of the budget
    refused(ledger, "m", Cost(TINY), start=1)
    ledger.verify()


def test_a_matrix_that_only_rounding_would_allow(ledger):
    ledger.open_account("m", Budget(matrix=[[1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(InvalidInput, match="to the last bit"):
        Cost([[1.0, 1.0], [1.0, 1.0 - 2**-53]])
    refused(ledger, "m", Cost([[2.0**-60, 0.0], [0.0, 0.0]]))


def test_gaussian_budget_adds_squares(ledger):
    ledger.open_account("a", Budget(mu=1.0, move=0.5))
    ledger.spend("a", Cost(mu2=0.36, move=0.5))
    ledger.spend("a", Cost(mu2=0.64, move=0.5))
    assert ledger.spent("a").mu2 == Fraction(0.36) + Fraction(0.64)
    refused(ledger, "a", Cost(mu2=0.01, move=0.5))


@pytest.mark.parametrize(
    "cost",
    [Cost(0.1), Cost(mu2=0.1, move=0.4), Cost(mu2=0.1), Cost(rho=0.1, move=0.5)],
    ids=["no unit", "another move", "no move", "ρ only"],
)
def test_a_unit_that_is_not_stated_is_refused(ledger, cost):
    ledger.open_account("a", Budget(mu=1.0, move=0.5))
    refused(ledger, "a", cost)
    with pytest.raises(BudgetExceeded, match="not known in that unit"):
        ledger.spend("a", cost)


def test_what_was_not_stated_stays_unknown(ledger):
    ledger.open_account("a", Budget(level=9.0))
    ledger.spend("a", Cost(1.0), start=0, stop=5)
    ledger.raise_budget("a", Budget(level=9.0, rho=1.0, move=1.0))
    refused(ledger, "a", Cost(1.0, rho=0.1, move=1.0), start=4, stop=6)
    ledger.spend("a", Cost(1.0, rho=0.1, move=1.0), start=5, stop=6)
    assert ledger.spent("a").rho is None
    assert ledger.spent("a", 5).rho == Fraction(0.1)


def test_zcdp_takes_all_kinds(ledger):
    ledger.open_account("a", Budget(rho=1.0, move=1.0))
    ledger.spend("a", Cost(mu2=0.5, move=1.0))  # ρ = μ²/2
    ledger.spend("a", Cost(epsilon=0.5, move=1.0))  # ρ = ε²/2
    ledger.spend("a", Cost(rho=0.5, move=1.0))
    assert ledger.spent("a").rho == Fraction(7, 8)
    refused(ledger, "a", Cost(rho=0.25, move=1.0))


def test_epsilon_of_gaussian_releases(ledger):
    mu = gdp.mu_of(1.0, 1e-6)
    ledger.open_account("a", Budget(epsilon=1.0, delta=1e-6, move=1.0))
    half = Fraction(mu) ** 2 / 2
    ledger.spend("a", Cost(mu2=half, move=1.0))
    ledger.spend("a", Cost(mu2=half, move=1.0))
    assert ledger.spent("a").epsilon == pytest.approx(1.0, rel=1e-9)
    refused(ledger, "a", Cost(mu2=1e-9, move=1.0))


def test_pure_epsilon_adds(ledger):
    ledger.open_account("a", Budget(epsilon=1.0, delta=0.0, move=1.0))
    refused(ledger, "a", Cost(mu2=1e-9, move=1.0))
    ledger.spend("a", Cost(epsilon=0.75, move=1.0))
    ledger.spend("a", Cost(epsilon=0.25, move=1.0))
    refused(ledger, "a", Cost(epsilon=TINY, move=1.0))


def test_mixed_releases(ledger):
    """(ε₁, δ) of the Gaussian part plus the pure ε, or ρ: the one that says more."""
    ledger.open_account("few", Budget(epsilon=1.0, delta=1e-6, move=1.0))
    ledger.spend("few", Cost(epsilon=0.5, move=1.0))
    most = Fraction(gdp.mu_of(0.5, 1e-6)) ** 2
    refused(ledger, "few", Cost(mu2=most * Fraction(9, 8), move=1.0))
    ledger.spend("few", Cost(mu2=most, move=1.0))
    assert ledger.spent("few").epsilon == pytest.approx(1.0, rel=1e-9)
    ledger.open_account("many", Budget(epsilon=3.0, delta=1e-6, move=1.0))
    for _ in range(100):  # Σε = 5, but ρ = 100·0.05²/2 = 0.125
        ledger.spend("many", Cost(epsilon=0.05, move=1.0))
    ledger.spend("many", Cost(rho=0.05, move=1.0))
    assert ledger.spent("many").epsilon < 3.0
    refused(ledger, "many", Cost(rho=0.5, move=1.0))
    ledger.verify()


def test_budgets_that_are_none():
    for bad in ({}, {"epsilon": 1.0}, {"delta": 1e-6}, {"mu": 1.0}, {"level": -1.0},
                {"epsilon": 1.0, "delta": 1.0, "move": 1.0}, {"matrix": [[1.0, 2.0], [2.0, 1.0]]},
                {"matrix": np.eye(40)}, {"level": math.nan}):  # fmt: skip
        with pytest.raises(InvalidInput):
            Budget(**bad)
    with pytest.raises(InvalidInput, match="not both"):
        Cost(mu2=1.0, epsilon=1.0, move=1.0)


def test_accounts(ledger):
    with pytest.raises(InvalidInput, match="no account"):
        ledger.spend("a", Cost(1.0))
    ledger.open_account("a", Budget(level=1.0))
    ledger.open_account("a", Budget(level=1.0))  # the same again
    with pytest.raises(InvalidInput, match="raise_budget"):
        ledger.open_account("a", Budget(level=2.0))
    ledger.spend("a", Cost(1.0))
    refused(ledger, "a", Cost(1.0))
    entry = ledger.raise_budget("a", Budget(level=2.0))
    assert (entry.kind, ledger.history("a")[-1].kind) == ("raised", "raised")
    ledger.spend("a", Cost(1.0))
    refused(ledger, "a", Cost(TINY))
    assert ledger.subjects() == ["a"]
    for bad in ("", "x" * 201, 7, None, "\ud800"):
        with pytest.raises(InvalidInput):
            ledger.open_account(bad, Budget(level=1.0))


def test_an_account_keeps_its_move(ledger):
    """μ of a move by 0.5, taken for one of a move by 5, would be ten times too small."""
    ledger.open_account("a", Budget(mu=1.0, move=0.5))
    ledger.spend("a", Cost(mu2=1.0, move=0.5))
    for other in (Budget(mu=2.0, move=5.0), Budget(level=1.0)):
        with pytest.raises(InvalidInput, match="Keep the move"):
            ledger.raise_budget("a", other)
    ledger.raise_budget("a", Budget(mu=2.0, level=1.0, move=0.5))
    refused(ledger, "a", Cost(0.5, mu2=1.0, move=0.5))  # the level of the first is not known
    ledger.spend("a", Cost(0.5, mu2=1.0, move=0.5), start=1)
    ledger.verify()


@pytest.mark.parametrize("bad", [True, -1, 2.5, "4", math.nan, np.array([4])])
def test_indices_are_whole_numbers(ledger, bad):
    ledger.open_account("a", Budget(level=1.0))
    for wrong in ({"start": bad}, {"start": 0, "stop": bad}, {"start": 3, "stop": 3}):
        with pytest.raises(InvalidInput):
            ledger.spend("a", Cost(1.0), **wrong)
    with pytest.raises(InvalidInput):
        ledger.spent("a", bad)
    with pytest.raises(InvalidInput):
        ledger.spend("a", Cost(1.0), start=2**62)
    ledger.spend("a", Cost(0.5), start=np.int64(3), stop=np.uint8(5))


def test_one_name_for_all(tmp_path):
    assert pv.Ledger is Ledger
    with pytest.raises(pv.errors.LedgerError, match="no ledger"):
        Ledger(tmp_path / "none.db", create=False)


doubles = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(doubles, st.integers(0, 6), st.integers(1, 4)), max_size=12))
def test_totals_are_exact(spends):
    """Whatever doubles, subnormal or huge: totals equal sums of fractions at every index."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, Ledger(f"{folder}/l.db") as ledger:
        ledger.open_account("a", Budget(level=Fraction(2**1100), trace=Fraction(2**1100)))
        at, total = [Fraction(0)] * 10, Fraction(0)
        for level, start, count in spends:
            ledger.spend("a", Cost(level), start=start, stop=start + count)
            total += count * Fraction(level)
            for k in range(start, start + count):
                at[k] += Fraction(level)
        assert [ledger.spent("a", k).level for k in range(10)] == at
        assert ledger.spent("a").level == max(at)
        assert ledger.spent("a").trace == total
        ledger.verify()
