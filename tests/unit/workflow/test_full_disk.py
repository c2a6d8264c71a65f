"""A file that the system does not take whole: one sentence, nothing charged, nothing left."""

import contextlib

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput

resource = pytest.importorskip("resource")
ROWS = 5000
RNG = np.random.default_rng(3)
TABLE = {"x": RNG.uniform(-1, 1, ROWS), "y": RNG.normal(0, 1, ROWS)}
SMALL = 1 << 14  # bytes; the table has more than 10 a row


@contextlib.contextmanager
def full():
    """No file can grow beyond SMALL, as on a disk without room."""
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))


@pytest.fixture(scope="module")
def plan():
    return pv.plan(TABLE, "y ~ x", form="rows", level=1.0, delta=1e-6, range=(-3, 3))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_release_that_finds_no_room(plan, tmp_path, ending):
    path = tmp_path / "out" / f"z.{ending}"
    with pv.Ledger(tmp_path / "l.db", marks=tmp_path / "marks") as ledger:
        account = ledger.account("a", budget=8.0)
        with full(), pytest.raises(InvalidInput, match=rf"z\.{ending} cannot be written: File too"):
            plan.release(path, account=account)
        assert list(path.parent.iterdir()) == []
        assert account.spent.level == 0
        plan.release(path, account=account)
    assert pv.workflow.read_release(path).rows == ROWS


def test_a_simulation_and_a_saved_release(plan, tmp_path):
    with full(), pytest.raises(InvalidInput, match=r"z\.csv cannot be written: File too large"):
        plan.simulate(tmp_path / "z.csv", rng=1)
    made = plan.simulate(rng=1)
    with full(), pytest.raises(InvalidInput, match=r"release\.csv cannot be written"):
        made.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint(tmp_path):
    level = pv.StreamLevel.constant(4.0, lags=[0.5])
    mechanism = pv.StreamMechanism(level)
    estimator = pv.PrivateRLS(level, parameters=80, noise=0.25)
    with pv.Checkpoint(tmp_path / "c", mechanism=mechanism, estimator=estimator) as kept:
        kept.resume()
        with full(), pytest.raises(InvalidInput, match="c cannot be written: File too large"):
            kept.save()
        kept.save()
