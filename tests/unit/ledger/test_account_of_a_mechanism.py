"""`release(y, account=)`: paid before it leaves, sent again as it was, several at once refused."""

import numpy as np
import pytest

import privest as pv
from privest.ledger import cost_of


@pytest.fixture
def account(tmp_path):
    return pv.Ledger(tmp_path / "ledger.db").account("meter", budget=4.0)


LEVELS = {
    "number": (1.5, 1.5), "diagonal": ([1.0, 2.0], 2.0), "full": ([[2.0, 1.0], [1.0, 2.0]], 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", LEVELS)
def test_a_vector_is_paid_once_and_sent_again(name, account):
    level, cost = LEVELS[name]
    mechanism = pv.GaussianMechanism(level, 2)
    first = mechanism.release([0.1, 0.2], account=account)
    assert float(account.spent.level) == pytest.approx(cost)
    assert np.array_equal(mechanism.release([5.0, 5.0], account=account), first)
    assert float(account.spent.level) == pytest.approx(cost)


def test_another_level_counts_beside_it(account):
    pv.GaussianMechanism(1.0, 2).release([0.1, 0.2], account=account)
    pv.GaussianMechanism(2.0, 2).release([0.1, 0.2], account=account)
    assert float(account.spent.level) == pytest.approx(3.0)
    with pytest.raises(pv.errors.BudgetExceeded):
        pv.GaussianMechanism(1.5, 2).release([0.1, 0.2], account=account)


@pytest.mark.parametrize(
    ("level", "cost"),
    [
        (pv.StreamLevel.constant(2.0), 2.0),
        (pv.StreamLevel.constant(2.0, lags=[0.5]), 2.5),  # what is ever revealed of a step
        (pv.StreamLevel([1.0, 4.0, 2.0], U=[[], [2.0], [0.0, 0.0]]), 4.0),
    ],
)
def test_a_stream_is_paid_step_by_step(level, cost, account):
    mechanism = pv.StreamMechanism(level)
    sent = [mechanism.release(y, account=account).values for y in (0.3, 0.1, 0.2)]
    assert float(account.spent.level) == pytest.approx(cost)
    again = pv.StreamMechanism(level)
    assert all(np.array_equal(again.release(9.0, account=account).values, z) for z in sent)


@pytest.mark.parametrize("name", LEVELS)
def test_several_releases_are_not_paid_as_one(name, account):
    """Fifty releases of the same measurements reveal fifty times the level."""
    level = pv.PrivacyLevel(LEVELS[name][0])
    mechanism = pv.GaussianMechanism(level, 2)
    source = account.source(cost_of(level), start=0, level=level.fingerprint)
    for given in ({"account": account}, {"source": source}):
        with pytest.raises(pv.errors.InvalidInput, match="one release at a time"):
            mechanism.release([0.1, 0.2], trials=50, **given)
    assert float(account.spent.level) == 0


def test_a_source_beside_an_account_is_refused(account):
    source = account.source(cost_of(1.0), start=0)
    with pytest.raises(pv.errors.InvalidInput, match="a source or an account"):
        pv.GaussianMechanism(1.0, 2).release([0.1, 0.2], source, account=account)
