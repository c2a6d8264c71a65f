"""The Monte Carlo engine: one result, whatever the workers and their order."""

import math

import numpy as np
import pytest

from montecarlo_tasks import normal, pair, wrong
from privest.errors import InvalidInput
from privest.paper import _engine as engine
from privest.paper._engine import Task, monte_carlo


def tasks():
    return [Task(f"scale {s}", normal, {"scale": s}) for s in (1.0, 2.0, 5.0)]


def test_workers_and_order_do_not_matter():
    alone = monte_carlo(tasks(), trials=500, seed=1, chunk=100)
    assert monte_carlo(tasks(), trials=500, seed=1, chunk=100, workers=2) == alone
    backwards = monte_carlo(tasks()[::-1], trials=500, seed=1, chunk=100)
    assert backwards == alone
    assert list(alone) == [task.key for task in tasks()]
    assert monte_carlo(tasks(), trials=500, seed=2, chunk=100) != alone
    # units are independent streams, not one stream cut up
    first = engine.generator("a", 0, 1).standard_normal(4)
    for other in (("a", 100, 1), ("b", 0, 1), ("a", 0, 2)):
        assert not np.isin(first, engine.generator(*other).standard_normal(1000)).any()


def test_summaries_are_what_they_say():
    found = monte_carlo(tasks()[:1], trials=300, seed=3, chunk=128)["scale 1.0"]
    values = np.concatenate(
        [
            normal(engine.generator("scale 1.0", at, 3), n)
            for at, n in ((0, 128), (128, 128), (256, 44))
        ]
    )
    assert found.trials == 300
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert found.standard_error == pytest.approx(values.std(ddof=1) / math.sqrt(300), rel=1e-12)
    assert found.median == pytest.approx(np.median(values))


def test_a_row_of_numbers_a_trial():
    """A summary of one number refuses them."""
    task = Task("pair", pair)
    whole = engine.trials_of([task], trials=50, seed=1, chunk=20)["pair"]
    assert whole.shape == (50, 2)
    assert np.array_equal(whole[:, 1], 2 * whole[:, 0])
    with pytest.raises(InvalidInput, match="it gave 2"):
        monte_carlo([task], trials=50, seed=1)


def test_bad_tasks_are_named():
    with pytest.raises(InvalidInput, match="'w' must give one number for each of 10 trials"):
        monte_carlo([Task("w", wrong)], trials=10, seed=0)
    with pytest.raises(InvalidInput, match="same key"):
        monte_carlo([Task("a", normal), Task("a", normal)], trials=10, seed=0)
    with pytest.raises(InvalidInput, match="at least 2 trials"):
        monte_carlo(tasks(), trials=1, seed=0)
