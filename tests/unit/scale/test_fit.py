"""`scale.fit` on small frames: what it accepts, refuses and counts."""

import pickle

import numpy as np
import pandas as pd
import pytest

from privest.data import Features
from privest.errors import InvalidInput, NotIdentifiable
from privest.scale import fit
from privest.scale._pieces import Job, reduce_partition

dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")


@pytest.fixture(autouse=True)
def _in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "a": rng.standard_normal(rows),
        "b": rng.integers(0, 9, rows),
        "sex": rng.choice(["f", "m"], rows),
        "z": rng.standard_normal(rows),
        "unused": [object()] * rows,
    })  # fmt: skip


def framed(frame, partitions=4):
    return dd.from_pandas(frame.drop(columns="unused"), npartitions=partitions, sort=False)


def fitted(frame, features=("a", "b"), **more):
    return fit(frame, features, **{"level": 2.0, "noise": 0.5} | more)


def test_by_hand():
    frame = dd.from_pandas(pd.DataFrame({"z": [1.0, 2.0, 6.0]}), npartitions=2)
    found = fit(frame, Features(()), level=2.0, noise=0.5)
    assert found.names == ("intercept",)
    assert found.estimate == pytest.approx([3.0], rel=1e-15)
    assert found.covariance == pytest.approx(np.array([[1 / 3]]), rel=1e-15)  # (0.5 + 1/2)/3
    assert found.misfit == pytest.approx((4 + 1 + 9) / 2, rel=1e-14)
    assert found.classical_error == pytest.approx([np.sqrt(0.5 / 3)], rel=1e-15)
    assert found.interval(0.5)[0] == pytest.approx(3 + 0.6744897501960817 / 3**0.5 * np.r_[-1, 1])
    assert (found.rows, found.dropped, found.simulated) == (3, 0, None)
    assert found.to_dict()["estimate"] == found.estimate.tolist()


def test_categories_and_numbers_as_in_memory():
    frame = table()
    design = Features(("a", "sex"), {"sex": ("f", "m")})
    found = fitted(framed(frame), design)
    H = np.column_stack([np.ones(60), frame["a"], frame["sex"] == "m"])
    expected, *_ = np.linalg.lstsq(H, frame["z"].to_numpy(), rcond=None)
    assert found.names == ("intercept", "a", "sex=m")
    np.testing.assert_allclose(found.estimate, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("partitions", [1, 3, 20, 60])
def test_partitions_do_not_matter(partitions):
    once, split = (fitted(framed(table(), count)) for count in (1, partitions))
    np.testing.assert_allclose(split.estimate, once.estimate, rtol=0, atol=1e-14)
    np.testing.assert_allclose(split.covariance, once.covariance, rtol=1e-13)
    assert split.misfit == pytest.approx(once.misfit, rel=1e-13)


def test_an_empty_partition_is_no_error():
    frame = framed(table())
    frame = dd.concat([frame[frame["a"] > 100], frame])
    assert fitted(frame).rows == 60


@pytest.mark.parametrize("where", ["a", "z", "sex"])
def test_gaps(where):
    frame, design = table(), Features(("a", "sex"), {"sex": ("f", "m")})
    frame["sex"] = frame["sex"].astype(object)
    frame.loc[[17, 41], where] = None
    # Rows 17 and 41 of the frame, counted from 0; which of them is met first is Dask's affair.
    place = rf"partition 1, column '{where}', row 3|partition 2, column '{where}', row 12"
    with pytest.raises(InvalidInput, match=f"({place}): a value is missing"):
        fitted(framed(frame), design)
    found = fitted(framed(frame), design, missing="drop")
    assert (found.rows, found.dropped) == (58, 2)
    whole = fitted(framed(frame.drop([17, 41]).reset_index(drop=True)), design)
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=0, atol=1e-14)


def test_a_partition_of_gaps_only():
    frame = table()
    frame.loc[:14, "a"] = np.nan  # all of partition 0
    with pytest.raises(InvalidInput, match="partition 0, column 'a', row 1: a value is missing"):
        fitted(framed(frame))
    assert fitted(framed(frame), missing="drop").dropped == 15


@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_a_column_of_gaps_only(missing):
    frame = table()
    frame["a"] = np.nan
    with pytest.raises(InvalidInput, match="column 'a': every value is missing"):
        fitted(framed(frame), missing=missing)


def test_no_complete_row():
    frame = table(2)
    frame.loc[0, "a"] = frame.loc[1, "z"] = np.nan
    with pytest.raises(InvalidInput, match="every row has a missing value"):
        fitted(framed(frame, 2), missing="drop")


def test_no_rows():
    frame = framed(table())
    with pytest.raises(InvalidInput, match="no rows"):
        fitted(frame[frame["a"] > 100])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.inf}, "partition 1, column 'a', row 1: not a finite number"),
        ({"z": -np.inf}, "partition 1, column 'z', row 1: not a finite number"),
    ],
)
def test_infinities(change, message):
    frame = table()
    for name, value in change.items():
        frame.loc[15, name] = value
    with pytest.raises(InvalidInput, match=message):
        fitted(framed(frame))


def test_bad_cells_are_not_shown():
    frame = table()
    frame.loc[20, "sex"] = "SECRET"
    with pytest.raises(InvalidInput, match="column 'sex', row 6") as caught:
        fitted(framed(frame), Features(("sex",), {"sex": ("f", "m")}))
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ("a", "nope")}, "the frame has no column 'nope'"),
        ({"target": "a"}, "'a' is among the features"),
        ({"features": ("a", "sex")}, "column 'sex'"),
        ({"target": "nope"}, "no column 'nope'"),
        ({"level": -1.0}, "level must be > 0"),
        ({"noise": np.nan}, "noise must be finite"),
        ({"level": "nope"}, "no column 'nope'"),
        ({"level": "z"}, "'z' is private"),
        ({"level": "a"}, "column 'a', row 1: levels and noise variances"),
        ({"missing": "ignore"}, "missing must be"),
        ({"simulate": -1}, "a seed"),
        ({"simulate": True}, "a seed"),
    ],
)
def test_refused(arguments, message):
    frame = table()
    frame.loc[0, "a"] = -1.0
    features = arguments.pop("features", ("a", "b"))
    with pytest.raises(InvalidInput, match=message):
        fitted(framed(frame), features, **arguments)


def test_names_must_be_texts():
    frame = dd.from_pandas(pd.DataFrame({0: [1.0, 2.0], "z": [1.0, 2.0]}), npartitions=1)
    with pytest.raises(InvalidInput, match="column names must be texts"):
        fitted(frame, ["0"])


def test_rows_stay_on_the_worker():
    """A partition answers with (n + 1)² numbers and a few facts, however many rows it has."""
    job = Job(Features(("a", "b")), "z", 1.0, 1.0)
    sizes = {len(pickle.dumps(reduce_partition(table(rows), 0, job))) for rows in (300, 60_000)}
    assert max(sizes) - min(sizes) < 10  # the row count itself
    assert max(sizes) < 2500


def test_only_dask_frames():
    with pytest.raises(InvalidInput, match="needs a Dask DataFrame"):
        fitted(table())


def test_tied_columns_are_named():
    frame = table()
    frame["b"] = 2 * frame["a"] + 1
    with pytest.raises(NotIdentifiable, match=r"'intercept', 'a', 'b' are collinear"):
        fitted(framed(frame))
    with pytest.raises(NotIdentifiable, match="2 rows cannot determine 3"):
        fitted(framed(table(2), 2))


def test_simulated_noise():
    frame = framed(table())
    one, again = (fitted(frame, simulate=7) for _ in range(2))
    assert one.simulated
    np.testing.assert_array_equal(one.estimate, again.estimate)
    for other in (fitted(frame, simulate=8), fitted(frame, simulate=7, level=2.5), fitted(frame)):
        assert (np.abs(other.estimate - one.estimate) > 1e-6).all()


def test_every_partition_has_its_own_noise():
    """The same rows in two partitions have different noise: else it would not average out."""
    job = Job(Features(("a",)), "z", 1.0, 1.0, seed=7)
    draws = [job.source(partition).add_noise(np.zeros(1))[0] for partition in (0, 1, 2, 0)]
    assert len(set(draws)) == 3
    assert draws[0] == draws[3]


def test_the_noise_does_not_depend_on_what_is_not_released():
    """With another noise variance, or the level as a column, the rows keep their noise."""
    rows = table()
    one, other = (
        reduce_partition(rows, 0, Job(Features(("a", "b")), "z", 2.0, variance, seed=7)).rls
        for variance in (0.5, 1.0)
    )
    np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-9)
    varied = rows.assign(s=2.0)
    column = Job(Features(("a", "b")), "z", "s", 0.5, seed=7)
    np.testing.assert_allclose(
        reduce_partition(varied, 0, column).rls.estimate, one.estimate, rtol=1e-9
    )


def test_simulated_noise_has_variance_one_over_level():
    """y = 0: the misfit of z is χ²(K − n)/s/(σ² + 1/s)/(K − n); 5 sd of it."""
    rows, level = 20_000, 0.25
    frame = dd.from_pandas(pd.DataFrame({"y": np.zeros(rows)}), npartitions=7)
    found = fit(frame, Features(()), target="y", level=level, noise=1e-9, simulate=1)
    assert abs(found.misfit - 1) < 5 * np.sqrt(2 / (rows - 1))
    assert found.misfit_p > 1e-6
    wrong = fit(frame, Features(()), target="y", level=level, noise=1.0, simulate=1)
    assert wrong.misfit < 1
    assert wrong.misfit_p < 1e-6
