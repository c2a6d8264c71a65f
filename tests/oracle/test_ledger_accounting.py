"""The accounts of a ledger against dp_accounting (Google)."""

import json
import warnings

import pytest

from privest.ledger import Budget, Cost, Ledger, dp_event

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

DELTA = 1e-6


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "l.db") as opened:
        opened.open_account("g", Budget(epsilon=10.0, delta=DELTA, move=1.0))
        yield opened


def composed(ledger, accountant):
    (record,) = json.loads(ledger.export(format="dp-accounting"))["subjects"].values()
    return accountant.compose(dp_event(record)).get_epsilon(DELTA)


def test_gaussian_releases(ledger):
    """Parallel ranges are not composed; the same ε, up to the grid of their discretisation."""
    for mu2, start, stop in ((0.25, 0, 10), (0.5, 5, 20), (0.125, 5, 6), (0.5, 30, 40)):
        ledger.spend("g", Cost(mu2=mu2, move=1.0), start=start, stop=stop)
    assert ledger.dp_events("g")["index"] == 5
    peer = composed(ledger, PLDAccountant(value_discretization_interval=1e-4))
    ours = ledger.spent("g").epsilon
    # Theirs is an upper bound, by at most one interval for each of the three events.
    assert ours * (1 - 1e-9) <= peer <= ours + 3e-4 + 1e-6


def test_mixed_releases(ledger):
    """Ours is a valid bound: not below what their accountant of exact losses allows."""
    ledger.spend("g", Cost(mu2=0.25, move=1.0))
    ledger.spend("g", Cost(epsilon=0.5, move=1.0))
    peer = composed(ledger, PLDAccountant(value_discretization_interval=1e-4))
    assert peer - 3e-4 <= ledger.spent("g").epsilon


def test_zcdp(ledger):
    """Their conversion from Rényi orders is the one used here (CKS), on other orders."""
    ledger.spend("g", Cost(rho=0.25, move=1.0))
    ledger.spend("g", Cost(rho=0.125, move=1.0))
    orders = [1 + 1.01**k / 100 for k in range(1, 900)]
    peer = composed(ledger, RdpAccountant(orders))
    assert ledger.spent("g").epsilon == pytest.approx(peer, rel=2e-3)


def test_what_was_not_stated_has_no_event(ledger, tmp_path):
    with Ledger(tmp_path / "other.db") as other:
        other.open_account("a", Budget(level=1.0))
        other.spend("a", Cost(1.0))
        with pytest.raises(ValueError, match="states no cost"):
            other.dp_events("a")
    assert dp_event(ledger.dp_events("g")) == dp_accounting.ComposedDpEvent([])
