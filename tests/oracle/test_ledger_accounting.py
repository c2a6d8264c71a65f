"""The accounts of a ledger against dp_accounting (Google)."""

import math
import warnings

import pytest

from ledger_at import at
from privest.ledger import Budget, Cost, Ledger

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

DELTA = 1e-6


@pytest.fixture
def account(tmp_path):
    with Ledger(tmp_path / "l.db") as opened:
        yield opened.account("g", budget=Budget(epsilon=10.0, delta=DELTA, sensitivity=1.0))


def gaussian(mu2):
    return dp.GaussianDpEvent(1 / math.sqrt(mu2))


def epsilon(accountant, *events):
    return accountant.compose(dp.ComposedDpEvent([*events])).get_epsilon(DELTA)


def test_gaussian_releases(account):
    """Parallel ranges are not composed; the same ε, up to the grid of their discretisation."""
    for mu2, start, stop in ((0.25, 0, 10), (0.5, 5, 20), (0.125, 5, 6), (0.5, 30, 40)):
        account.spend(Cost(mu2=mu2, sensitivity=1.0), start=start, stop=stop)
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    peer = epsilon(accountant, gaussian(0.25), gaussian(0.5), gaussian(0.125))  # at index 5
    ours = account.spent.epsilon
    # Theirs is an upper bound, by at most one interval for each of the three events.
    assert ours * (1 - 1e-9) <= peer <= ours + 3e-4 + 1e-6
    assert at(account, 35).spent.epsilon < ours


def test_mixed_releases(account):
    """Ours is a valid bound: not below what their accountant of exact losses allows."""
    account.spend(Cost(mu2=0.25, sensitivity=1.0))
    account.spend(Cost(epsilon=0.5, sensitivity=1.0))
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    peer = epsilon(accountant, gaussian(0.25), dp.LaplaceDpEvent(2.0))
    assert peer - 3e-4 <= account.spent.epsilon


def test_zcdp(account):
    """Their conversion from Rényi orders is the one used here (CKS), on other orders."""
    account.spend(Cost(rho=0.25, sensitivity=1.0))
    account.spend(Cost(rho=0.125, sensitivity=1.0))
    orders = [1 + 1.01**k / 100 for k in range(1, 900)]
    peer = epsilon(RdpAccountant(orders), dp.ZCDpEvent(0.25), dp.ZCDpEvent(0.125))
    assert account.spent.epsilon == pytest.approx(peer, rel=2e-3)
