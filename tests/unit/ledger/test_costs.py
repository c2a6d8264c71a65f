"""Costs of levels: never below what the release shows, and not above by more than the grid."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import privest as pv
from privest.errors import BudgetExceeded, InvalidInput
from privest.lattice import GAUSSIAN, GRID
from privest.ledger import Budget, Cost, Ledger, cost_of
from privest.mechanism import GaussianMechanism
from privest.privacy import Adjacency, gdp

S = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 3.0]])
LAGS = pv.StreamLevel.constant(2.0, lags=[0.5, -0.25])
STREAM = pv.StreamLevel([1.0, 4.0, 2.0], U=[[], [2.0], [0.5, 1.0]])


def test_the_share_that_the_grid_shows():
    """sup I = (e^{1/σ²} − 1)/g² of a level, below it by g⁴/12: room for the rounding of roots."""
    with mpmath.workdps(60):
        variance = mpmath.mpf(GAUSSIAN.variance.numerator) / GAUSSIAN.variance.denominator
        most = mpmath.expm1(1 / variance) / mpmath.mpf(GRID) ** 2
        charged = cost_of(pv.StreamLevel.constant(1.0)).information
        assert most <= mpmath.mpf(charged.numerator) / charged.denominator < 1


@pytest.mark.parametrize("s", [0.1, 1 / 3, 2.0, 3.0, 7.7, 1e-9, 1e9])
def test_a_level_fits_its_own_budget(tmp_path, s):
    """Whatever rounding its root has, as a level, a vector, a matrix or a stream."""
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.account("a", budget=Budget(level=s))
        for k, level in enumerate(
            (
                pv.PrivacyLevel(s),
                pv.PrivacyLevel([s] * 3),
                pv.StreamLevel.constant(s),
                pv.StreamLevel([s]),
            )
        ):
            ledger.account("a").spend(
                cost_of(level), start=10 * k, stop=10 * k + (3 if k == 1 else 1)
            )
        with pytest.raises(BudgetExceeded):
            ledger.account("a").spend(Cost(s / 1000))


def test_what_later_steps_show_of_a_reading_is_counted():
    """S_k alone under-reports (theory.md 6): the diagonal of the final S̄, for every step."""
    for level in (STREAM, LAGS.first(9), pv.StreamLevel.from_cumulative(S)):
        found = [x for x, n in cost_of(level).information.runs for _ in range(n)]
        exact = np.diagonal(level.cumulative())
        np.testing.assert_allclose([float(x) for x in found], exact, rtol=2e-13)
        assert all(x >= Fraction(y) * (1 - Fraction(1, 2**43)) for x, y in zip(found, exact))
    assert float(cost_of(LAGS).information) == pytest.approx(2.0 * (1 + 0.25 + 0.0625), rel=1e-12)
    part = cost_of(STREAM, start=1, stop=3).information
    whole = cost_of(STREAM).information
    assert part.runs == whole.runs[1:]


def test_traces_of_steps_add_up_to_no_less_than_the_cumulative_level():
    level = LAGS.first(9)
    levels = [x for x, n in cost_of(level).information.runs for _ in range(n)]
    for k in range(1, 10):
        assert float(sum(levels[:k])) >= np.trace(level.cumulative(k)) * (1 - 2e-13)


@pytest.mark.parametrize(
    ("level", "move"),
    [
        (4.0, 0.3), ([1.0, 4.0, 2.0], 0.3), (S, 0.3), (S, Adjacency.block(0.3)), (LAGS, 0.3),
        (LAGS, Adjacency.block(0.3)), (STREAM, 0.3), (STREAM, Adjacency.block(0.3)),
    ],
)  # fmt: skip
def test_mu_is_that_of_the_level_rounded_up_to_the_grid(level, move):
    cost = cost_of(level, sensitivity=move)
    stated = level if hasattr(level, "to_mu") else pv.PrivacyLevel(level)
    mu = stated.to_mu(sensitivity=move)
    coordinates = 12  # more than any of these moves reaches
    assert mu <= float(cost.mu2) ** 0.5 * (1 + 1e-14)
    assert float(cost.mu2) ** 0.5 <= mu + GRID * coordinates**0.5
    assert cost.rho <= cost.mu2 / 2
    assert float(cost.rho) == pytest.approx(float(cost.mu2) / 2, rel=1e-6)


def test_a_statement_needs_its_move():
    mechanism = GaussianMechanism(S, 3, range=(-1.0, 2.0))
    mixed = cost_of(S, sensitivity=3.0, statement=mechanism.statement())
    assert float(mixed.mu2) ** 0.5 == pytest.approx(mechanism.statement().mu, rel=1e-12)
    with pytest.raises(InvalidInput, match="needs the sensitivity"):
        cost_of(S, statement=mechanism.statement())


def test_laplace_is_pure():
    cost = cost_of(4.0, sensitivity=0.5, law="laplace")
    assert cost.mu2 is None
    assert float(cost.epsilon) == pytest.approx(1.0, rel=1e-3)
    assert float(cost.rho) == pytest.approx(0.5, rel=2e-3)
    for level, move in ((S, 0.5), (LAGS, 0.5), (S, Adjacency.block(0.5))):
        with pytest.raises(InvalidInput, match="pure epsilon"):
            cost_of(level, sensitivity=move, law="laplace")


def test_epsilon_of_two_releases(tmp_path):
    """μ² adds: ε at δ of both is that of √2 μ."""
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.account("a", budget=Budget(epsilon=9.0, delta=1e-6, sensitivity=0.5))
        for _ in range(2):
            ledger.account("a").spend(cost_of(4.0, sensitivity=0.5))
        assert ledger.account("a").spent.epsilon == pytest.approx(
            gdp.epsilon_of(2**0.5, 1e-6), rel=1e-9
        )
