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
from ledger_at import at
from privest.errors import BudgetExceeded, InvalidInput
from privest.ledger import Budget, Cost, Ledger
from privest.privacy import gdp

IN_MEMORY = os.access("/dev/shm", os.W_OK) and "EMULATE" not in os.environ
MEMORY = "/dev/shm" if IN_MEMORY else None
TINY = 5e-324  # the smallest subnormal


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.db") as opened:
        yield opened


def refused(ledger, subject, cost, **place):
    before = ledger.head
    with pytest.raises(BudgetExceeded):
        ledger.account(subject).spend(cost, **place)
    assert ledger.head == before  # nothing was spent
    assert not ledger.account(subject).preview(cost, **place).fits


def test_level_to_the_last_bit(ledger):
    ledger.account("a", budget=Budget(level=1.0))
    assert ledger.account("a").preview(Cost(0.75)).fits
    ledger.account("a").spend(Cost(0.75))
    refused(ledger, "a", Cost(math.nextafter(0.25, 1)))
    ledger.account("a").spend(Cost(0.25))
    assert ledger.account("a").remaining.level == 0
    refused(ledger, "a", Cost(TINY))


def test_a_subnormal_spend_is_not_lost(ledger):
    ledger.account("a", budget=Budget(level=1.0))
    ledger.account("a").spend(Cost(TINY))
    ledger.account("a").spend(Cost(1.0 - 2**-53))
    assert ledger.account("a").spent.level == Fraction(TINY) + Fraction(1.0 - 2**-53)
    refused(ledger, "a", Cost(2**-53))  # in floats the tiny one is gone, and this would fit
    assert float(TINY + (1.0 - 2**-53) + 2**-53) == 1.0


@pytest.mark.parametrize("bad", [-1.0, -TINY, math.nan, math.inf, -math.inf, "1", None, [1, -1.0]])
def test_spends_that_are_none(ledger, bad):
    ledger.account("a", budget=Budget(level=1.0))
    for unit in ("information", "mu2", "rho", "epsilon"):
        with pytest.raises(InvalidInput):
            Cost(**{unit: bad})
    with pytest.raises(InvalidInput):
        ledger.account("a").spend(bad)
    assert ledger.account("a").spent.level == 0


def test_ranges_that_do_not_meet_cost_the_larger(ledger):
    ledger.account("t", budget=Budget(level=1.0, trace=100.0))
    ledger.account("t").spend(Cost(0.5), start=0, stop=10)
    ledger.account("t").spend(Cost(1.0), start=10, stop=20)
    assert ledger.account("t").spent.level == 1
    assert ledger.account("t").spent.trace == 15
    ledger.account("t").spend(Cost(0.5), start=5, stop=10)
    assert at(ledger.account("t"), 4).spent.level == Fraction(1, 2)
    assert at(ledger.account("t"), 5).spent.level == 1
    refused(ledger, "t", Cost(0.25), start=4, stop=6)
    ledger.account("t").spend(Cost(0.25), start=0, stop=5)
    assert at(ledger.account("t"), 0).remaining.level == Fraction(1, 4)
    ledger.verify()


def test_a_vector_of_levels(ledger):
    ledger.account("t", budget=Budget(level=1.0))
    ledger.account("t").spend(Cost([0.5, 0.5, 1.0]), start=3, stop=6)
    ledger.account("t").spend(Cost([0.5, 0.25]), start=3, stop=5)
    refused(ledger, "t", Cost(TINY), start=5)
    assert [at(ledger.account("t"), k).spent.level for k in range(2, 7)] == [
        0,
        1,
        Fraction(3, 4),
        1,
        0,
    ]
    assert ledger.account("t").spent.trace == Fraction(11, 4)
    with pytest.raises(InvalidInput, match="3 numbers for 2"):
        ledger.account("t").spend(Cost([0.5, 0.5, 1.0]), start=0, stop=2)


def test_many_different_levels_count_as_the_largest(ledger):
    ledger.account("t", budget=Budget(level=1.0))
    levels = np.linspace(0.1, 0.9, 10_000)
    ledger.account("t").spend(Cost(levels), start=0, stop=10_000)
    assert at(ledger.account("t"), 0).spent.level == Fraction(0.9)
    exact = sum(map(Fraction, levels.tolist()))
    assert exact <= ledger.account("t").spent.trace <= exact * (1 + Fraction(1, 2**50))


def test_trace_is_of_all(ledger):
    ledger.account("t", budget=Budget(trace=2.0))
    ledger.account("t").spend(Cost(0.125), start=0, stop=8)
    ledger.account("t").spend(Cost([0.5, 0.25]), start=8, stop=10)
    refused(ledger, "t", Cost(0.25), start=20, stop=22)
    ledger.account("t").spend(Cost(0.125), start=20, stop=22)
    assert ledger.account("t").remaining.trace == 0


def test_gaussian_budget_adds_squares(ledger):
    ledger.account("a", budget=Budget(mu=1.0, sensitivity=0.5))
    ledger.account("a").spend(Cost(mu2=0.36, sensitivity=0.5))
    ledger.account("a").spend(Cost(mu2=0.64, sensitivity=0.5))
    assert ledger.account("a").spent.mu2 == Fraction(0.36) + Fraction(0.64)
    refused(ledger, "a", Cost(mu2=0.01, sensitivity=0.5))


@pytest.mark.parametrize(
    "cost",
    [Cost(0.1), Cost(mu2=0.1, sensitivity=0.4), Cost(mu2=0.1), Cost(rho=0.1, sensitivity=0.5)],
    ids=["no unit", "another move", "no move", "ρ only"],
)
def test_a_unit_that_is_not_stated_is_refused(ledger, cost):
    ledger.account("a", budget=Budget(mu=1.0, sensitivity=0.5))
    refused(ledger, "a", cost)
    with pytest.raises(BudgetExceeded, match="not known in that unit"):
        ledger.account("a").spend(cost)


def test_what_was_not_stated_stays_unknown(ledger):
    ledger.account("a", budget=Budget(level=9.0))
    ledger.account("a").spend(Cost(1.0), start=0, stop=5)
    ledger.account("a").change_budget(Budget(level=9.0, rho=1.0, sensitivity=1.0))
    refused(ledger, "a", Cost(1.0, rho=0.1, sensitivity=1.0), start=4, stop=6)
    ledger.account("a").spend(Cost(1.0, rho=0.1, sensitivity=1.0), start=5, stop=6)
    assert ledger.account("a").spent.rho is None
    assert at(ledger.account("a"), 5).spent.rho == Fraction(0.1)


def test_zcdp_takes_all_kinds(ledger):
    ledger.account("a", budget=Budget(rho=1.0, sensitivity=1.0))
    ledger.account("a").spend(Cost(mu2=0.5, sensitivity=1.0))  # ρ = μ²/2
    ledger.account("a").spend(Cost(epsilon=0.5, sensitivity=1.0))  # ρ = ε²/2
    ledger.account("a").spend(Cost(rho=0.5, sensitivity=1.0))
    assert ledger.account("a").spent.rho == Fraction(7, 8)
    refused(ledger, "a", Cost(rho=0.25, sensitivity=1.0))


def test_epsilon_of_gaussian_releases(ledger):
    mu = gdp.mu_of(1.0, 1e-6)
    ledger.account("a", budget=Budget(epsilon=1.0, delta=1e-6, sensitivity=1.0))
    half = Fraction(mu) ** 2 / 2
    ledger.account("a").spend(Cost(mu2=half, sensitivity=1.0))
    ledger.account("a").spend(Cost(mu2=half, sensitivity=1.0))
    assert ledger.account("a").spent.epsilon == pytest.approx(1.0, rel=1e-9)
    refused(ledger, "a", Cost(mu2=1e-9, sensitivity=1.0))


def test_pure_epsilon_adds(ledger):
    ledger.account("a", budget=Budget(epsilon=1.0, delta=0.0, sensitivity=1.0))
    refused(ledger, "a", Cost(mu2=1e-9, sensitivity=1.0))
    ledger.account("a").spend(Cost(epsilon=0.75, sensitivity=1.0))
    ledger.account("a").spend(Cost(epsilon=0.25, sensitivity=1.0))
    refused(ledger, "a", Cost(epsilon=TINY, sensitivity=1.0))


def test_mixed_releases(ledger):
    """(ε₁, δ) of the Gaussian part plus the pure ε, or ρ: the one that says more."""
    ledger.account("few", budget=Budget(epsilon=1.0, delta=1e-6, sensitivity=1.0))
    ledger.account("few").spend(Cost(epsilon=0.5, sensitivity=1.0))
    most = Fraction(gdp.mu_of(0.5, 1e-6)) ** 2
    refused(ledger, "few", Cost(mu2=most * Fraction(9, 8), sensitivity=1.0))
    ledger.account("few").spend(Cost(mu2=most, sensitivity=1.0))
    assert ledger.account("few").spent.epsilon == pytest.approx(1.0, rel=1e-9)
    ledger.account("many", budget=Budget(epsilon=3.0, delta=1e-6, sensitivity=1.0))
    for _ in range(100):  # Σε = 5, but ρ = 100·0.05²/2 = 0.125
        ledger.account("many").spend(Cost(epsilon=0.05, sensitivity=1.0))
    ledger.account("many").spend(Cost(rho=0.05, sensitivity=1.0))
    assert ledger.account("many").spent.epsilon < 3.0
    refused(ledger, "many", Cost(rho=0.5, sensitivity=1.0))
    ledger.verify()


def test_budgets_that_are_none():
    for bad in ({}, {"epsilon": 1.0}, {"delta": 1e-6}, {"mu": 1.0}, {"level": -1.0},
                {"epsilon": 1.0, "delta": 1.0, "sensitivity": 1.0},
                {"level": math.nan}):  # fmt: skip
        with pytest.raises(InvalidInput):
            Budget(**bad)
    with pytest.raises(InvalidInput, match="not both"):
        Cost(mu2=1.0, epsilon=1.0, sensitivity=1.0)


def test_accounts(ledger):
    with pytest.raises(InvalidInput, match="no account"):
        ledger.account("a").spend(Cost(1.0))
    ledger.account("a", budget=Budget(level=1.0))
    ledger.account("a", budget=Budget(level=1.0))  # the same again
    with pytest.raises(InvalidInput, match="change the budget"):
        ledger.account("a", budget=Budget(level=2.0))
    ledger.account("a").spend(Cost(1.0))
    refused(ledger, "a", Cost(1.0))
    entry = ledger.account("a").change_budget(Budget(level=2.0))
    assert (entry.kind, ledger.history("a")[-1].kind) == ("raised", "raised")
    ledger.account("a").spend(Cost(1.0))
    refused(ledger, "a", Cost(TINY))
    assert ledger.subjects() == ["a"]
    for bad in ("", "x" * 201, 7, None, "\ud800"):
        with pytest.raises(InvalidInput):
            ledger.account(bad, budget=Budget(level=1.0))


def test_an_account_keeps_its_move(ledger):
    """μ of a move by 0.5, taken for one of a move by 5, would be ten times too small."""
    ledger.account("a", budget=Budget(mu=1.0, sensitivity=0.5))
    ledger.account("a").spend(Cost(mu2=1.0, sensitivity=0.5))
    for other in (Budget(mu=2.0, sensitivity=5.0), Budget(level=1.0)):
        with pytest.raises(InvalidInput, match="Keep the sensitivity"):
            ledger.account("a").change_budget(other)
    ledger.account("a").change_budget(Budget(mu=2.0, level=1.0, sensitivity=0.5))
    refused(ledger, "a", Cost(0.5, mu2=1.0, sensitivity=0.5))  # the level of the first is not known
    ledger.account("a").spend(Cost(0.5, mu2=1.0, sensitivity=0.5), start=1)
    ledger.verify()


@pytest.mark.parametrize("bad", [True, -1, 2.5, "4", math.nan, np.array([4])])
def test_indices_are_whole_numbers(ledger, bad):
    ledger.account("a", budget=Budget(level=1.0))
    for wrong in ({"start": bad}, {"start": 0, "stop": bad}, {"start": 3, "stop": 3}):
        with pytest.raises(InvalidInput):
            ledger.account("a").spend(Cost(1.0), **wrong)
    with pytest.raises(InvalidInput):
        at(ledger.account("a"), bad)
    with pytest.raises(InvalidInput):
        ledger.account("a").spend(Cost(1.0), start=2**62)
    ledger.account("a").spend(Cost(0.5), start=np.int64(3), stop=np.uint8(5))


def test_one_name_for_all(tmp_path):
    assert pv.Ledger is Ledger
    with pytest.raises(pv.errors.LedgerError, match="no ledger"):
        Ledger(tmp_path / "none.db", create=False)


doubles = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(doubles, st.integers(0, 6), st.integers(1, 4)), max_size=12))
def test_totals_are_exact(spends):
    """Whatever doubles, subnormal or huge: totals equal sums of fractions at every index."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, Ledger(f"{folder}/l.db") as ledger:
        ledger.account("a", budget=Budget(level=Fraction(2**1100), trace=Fraction(2**1100)))
        every, total = [Fraction(0)] * 10, Fraction(0)
        for level, start, count in spends:
            ledger.account("a").spend(Cost(level), start=start, stop=start + count)
            total += count * Fraction(level)
            for k in range(start, start + count):
                every[k] += Fraction(level)
        assert [at(ledger.account("a"), k).spent.level for k in range(10)] == every
        assert ledger.account("a").spent.level == max(every)
        assert ledger.account("a").spent.trace == total
        ledger.verify()
