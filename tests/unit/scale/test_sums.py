"""`scale.fit_sums`: the bits of one table, values that stay where they are, what is charged."""

import numpy as np
import pandas as pd
import pytest

import privest as pv
from dask_cluster import cluster
from privest.errors import BudgetExceeded, InvalidInput, NotIdentifiable
from privest.scale import fit_sums

dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")
BLOCK, NAMES, ENDS = 8192, ["a", "b"], (-4.0, 6.0)
EPS = np.finfo(float).eps


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    found = pd.DataFrame(rng.standard_normal((3 * BLOCK + 77, 2)) * [1.0, 3.0], columns=NAMES)
    found["y"] = 1 + found.to_numpy() @ [0.5, -0.2] + 0.5 * rng.standard_normal(len(found))
    return found


def sums(frame, **other):
    asked = {"range": ENDS, "epsilon": 1.0} | other
    return fit_sums(frame, NAMES, "y", **asked | ({} if "account" in other else {"simulate": 3}))


def in_memory(frame, **other):
    asked = {"form": "aggregate", "range": ENDS, "epsilon": 1.0, "simulate": True}
    model = pv.PrivateLinearRegression(**asked | {"random_state": 3} | other)
    return model.fit(frame[NAMES], frame["y"]).result_


def test_the_bits_of_one_table(frame):
    expected = in_memory(frame)
    found = sums(dd.from_pandas(frame, chunksize=BLOCK))
    assert np.array_equal(found.estimate, expected.estimate)
    assert np.array_equal(found.covariance, expected.covariance)
    assert np.array_equal(found.degrees_of_freedom, expected.degrees_of_freedom)
    assert found.names == ("intercept", *NAMES)
    assert found.simulated


@pytest.mark.processes
def test_the_same_bits_on_a_cluster(frame):
    parts = dd.from_pandas(frame, chunksize=BLOCK)
    with cluster() as client:
        found = sums(parts, client=client)
    assert np.array_equal(found.estimate, in_memory(frame).estimate)


def test_other_cuts_change_public_weights_by_rounding_only(frame):
    """With little privacy there are no squares, and variances follow from public sums alone: they
    differ by the rounding of K-term sums, in some ten passes of condition below 10."""
    expected = in_memory(frame, epsilon=0.02)
    for parts in (1, 5, 7):
        found = sums(dd.from_pandas(frame, npartitions=parts), epsilon=0.02)
        assert found.degrees_of_freedom is None
        allowed = 100 * EPS * np.sqrt(len(frame))
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=allowed)
        away = (found.estimate - expected.estimate) / found.standard_error
        assert np.abs(away).max() < 8  # their noise is another: two of them, 5.7 deviations each


def numbers(thing):
    if isinstance(thing, np.ndarray | float):
        yield from np.ravel(thing).tolist()
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from numbers(part)


def test_values_stay_with_their_partitions(frame):
    """What tasks send here are sums: no value is among them."""
    sent, get = [], dask.threaded.get

    def watched(graph, keys, **more):
        found = get(graph, keys, **more)
        sent.extend(numbers(list(found)))
        return found

    with dask.config.set(scheduler=watched):
        sums(dd.from_pandas(frame, chunksize=BLOCK))
    assert len(sent) > 100
    assert not set(sent) & set(frame["y"].tolist())


def test_the_account_is_charged_first(frame, tmp_path):
    parts = dd.from_pandas(frame, npartitions=3)
    plan = pv.plan(frame, target="y", features=NAMES, form="aggregate", epsilon=1.0, range=ENDS)
    with pv.Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        account = ledger.account("y")
        assert sums(parts, account=account).simulated is False
        (entry,) = [one for one in ledger.history("y") if one.cost is not None]
        assert (entry.start, entry.stop) == (0, len(frame))
        assert entry.cost == plan.cost
        with pytest.raises(BudgetExceeded):
            sums(parts, account=account)


def test_gaps_empty_partitions_and_infinite_values(frame, tmp_path):
    some = frame.iloc[:2000].copy()
    some.loc[7, "y"], some.loc[9, "a"], some.loc[11, "y"] = np.nan, np.nan, np.inf
    parts = dd.concat(
        [dd.from_pandas(some, npartitions=2), dd.from_pandas(some[:0], npartitions=1)]
    )
    with pv.Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        account = ledger.account("y")
        with pytest.raises(InvalidInput, match=r"partition 0.*missing"):
            sums(parts, account=account)
        assert not list(ledger.history("y"))
        sums(parts, account=account, missing="drop")
        assert next(one.stop for one in ledger.history("y") if one.cost is not None) == 1998


def test_what_is_refused(frame):
    parts = dd.from_pandas(frame.iloc[:500], npartitions=2)
    for given, message in (
        ({"range": None}, "range"),
        ({"epsilon": None}, "epsilon or level"),
        ({"level": 1.0}, "epsilon or level"),
        ({"missing": "guess"}, "missing"),
    ):
        with pytest.raises(InvalidInput, match=message):
            sums(parts, **given)
    with pytest.raises(InvalidInput, match="one of them"):
        fit_sums(parts, NAMES, "y", range=ENDS, epsilon=1.0)
    with pytest.raises(InvalidInput, match="Dask DataFrame"):
        sums(frame)
    with pytest.raises(InvalidInput, match="features are public"):
        fit_sums(parts, ["a", "y"], "y", range=ENDS, epsilon=1.0, simulate=1)
    with pytest.raises(NotIdentifiable, match="twice"):
        fit_sums(
            parts.assign(twice=2 * parts["a"]),
            ["a", "twice"],
            "y",
            range=ENDS,
            epsilon=1.0,
            simulate=1,
        )


@pytest.mark.parametrize("column", ["a", "y"])
def test_a_frame_that_changes_between_passes_is_refused(frame, column):
    calls = iter(range(10**6))

    def changing(part):
        return part.assign(**{column: part[column] + 1e-3 * next(calls)})

    meta = frame.head(0)
    parts = dd.from_pandas(frame, npartitions=1).map_partitions(changing, meta=meta)
    with pytest.raises(InvalidInput, match="other rows in a later pass"):
        sums(parts)
