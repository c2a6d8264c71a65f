"""`PrivateLinearRegression.fit` is a release: charged to an account before it is drawn."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import privest as pv
from privest.errors import BudgetExceeded, InvalidInput
from privest.ledger import Cost
from privest.mechanism.source import Protected

X = np.linspace(0.0, 9.0, 30)[:, None]
Y = 1.0 + 2.0 * X[:, 0]
TWO = pytest.approx(2.0)


@pytest.fixture
def account(tmp_path):
    return pv.Ledger(tmp_path / "ledger.db").account("y")


@pytest.fixture
def drawn(monkeypatch):
    """How often protected noise was drawn."""
    count, real = [], Protected.add_noise

    def counted(self, shown, **how):
        count.append(how.get("shape"))
        return real(self, shown, **how)

    monkeypatch.setattr(Protected, "add_noise", counted)
    return count


def spent(account):
    with pv.Ledger(account.ledger.path, create=False) as ledger:
        ledger.verify()
        return float(ledger.account("y").spent.level) if "y" in ledger.subjects() else 0.0


def test_no_release_without_an_account(drawn):
    for model in (
        pv.PrivateLinearRegression(2.0, 1.0),
        make_pipeline(StandardScaler(), pv.PrivateLinearRegression(2.0, 1.0)),
        pv.PrivateLinearRegression(2.0, 1.0, account="ledger.db"),
    ):
        with pytest.raises(InvalidInput, match="account="):
            model.fit(X, Y)
    with pytest.raises(InvalidInput, match="account="):
        pv.PrivateLinearRegression(2.0, 1.0).fit(X, Y, source=Protected())
    with pytest.raises(ValueError, match="account="):
        cross_val_score(pv.PrivateLinearRegression(2.0, 1.0), X, Y, error_score="raise")
    with pytest.raises(InvalidInput, match="simulate must be True or False"):
        pv.PrivateLinearRegression(2.0, 1.0, simulate="no").fit(X, Y)
    assert drawn == []


def test_a_second_fit_is_refused_by_the_budget(account, drawn):
    model = pv.PrivateLinearRegression(2.0, 1.0, account=account).fit(X, Y)
    assert (model.noise_source_, spent(account), len(drawn)) == ("release", TWO, 1)
    for again in (model, clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(BudgetExceeded):
            again.fit(X, Y)
    with pytest.raises(BudgetExceeded):
        pv.PrivateLinearRegression(0.5, 1.0, account=account).fit(X[:5], Y[:5])
    assert (spent(account), len(drawn)) == (TWO, 1)


def test_cross_validation_is_one_release_a_fold(account, drawn):
    model = pv.PrivateLinearRegression(2.0, 1.0, account=account)
    with pytest.raises(BudgetExceeded):
        cross_val_score(model, X, Y, error_score="raise")
    assert (spent(account), len(drawn)) == (TWO, 1)


def test_a_larger_budget_allows_more(tmp_path):
    account = pv.Ledger(tmp_path / "ledger.db").account("y", budget=5.0)
    model = pv.PrivateLinearRegression(2.0, 1.0, account=account)
    one, two = model.fit(X, Y).coef_, model.fit(X, Y).coef_
    assert one != two
    with pytest.raises(BudgetExceeded):
        model.fit(X, Y)
    assert spent(account) == pytest.approx(4.0)


def test_a_level_that_looks_back_is_paid_ahead(account):
    level = pv.StreamLevel.constant(2.0, lags=[0.5])
    pv.PrivateLinearRegression(level, 1.0, account=account).fit(X, Y)
    assert 2.4 < spent(account) <= 2.5 * (1 + 1e-9)  # S + W²S


def test_nothing_is_drawn_where_it_cannot_be_charged(tmp_path, drawn):
    account = pv.Ledger(tmp_path / "ledger.db").account("y")
    account.ledger.close()
    (tmp_path / "ledger.db").write_bytes(b"no ledger")
    with pytest.raises(pv.errors.LedgerError):
        pv.PrivateLinearRegression(2.0, 1.0, account=account).fit(X, Y)
    assert drawn == []


def test_a_trial_is_charged_to_nobody(account):
    with pytest.raises(InvalidInput, match="this is a trial"):
        pv.PrivateLinearRegression(2.0, 1.0, simulate=True, account=account).fit(X, Y)
    assert not account.is_open


def test_an_account_is_a_path_and_a_name(tmp_path, account):
    """A copy opens the ledger when it is used, and both spend from one budget."""
    account.open(3.0)
    other, sent = copy.deepcopy(account), pickle.dumps(account)
    other.spend(Cost(1.0))
    assert account.spent.level == 1 == pickle.loads(sent).spent.level
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    far = pickle.loads(sent)  # on a machine that has no such ledger it can be read, not used
    assert far.subject == "y"
    with pytest.raises(pv.errors.LedgerError, match="no ledger"):
        far.spend(Cost(1.0))
