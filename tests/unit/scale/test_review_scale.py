"""What an independent review of `scale.fit` tried."""

import numpy as np
import pandas as pd
import pytest

from privest.errors import InvalidInput
from privest.scale import fit

dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")


@pytest.fixture(autouse=True)
def _in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def table(rows=200):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.random((rows, 4)) + 0.1, columns=["a", "b", "s", "v"])
    frame["z"] = 1 + 2 * frame["a"] - frame["b"] + rng.standard_normal(rows)
    return frame


def dense(frame):
    """Weighted least squares by the normal equations of all rows."""
    H = np.column_stack([np.ones(len(frame)), frame[["a", "b"]].astype(float)])
    weight = 1 / (frame["v"] + 1 / frame["s"]).to_numpy(float)
    information = (H.T * weight) @ H
    estimate = np.linalg.solve(information, (H.T * weight) @ frame["z"].to_numpy(float))
    bare = np.linalg.inv((H.T / frame["v"].to_numpy(float)) @ H)
    return estimate, np.linalg.inv(information), np.sqrt(np.diagonal(bare))


def pieces(*parts):
    """Partitions as they are, whatever their types."""
    meta = parts[0].iloc[:0]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=meta, verify_meta=False)


def require_same(frame, whole):
    found = fit(frame, ["a", "b"], level="s", noise="v")
    estimate, covariance, bare = dense(whole)
    # 200 rows, condition number of the information below 1e3: rounding stays below 1e-12.
    np.testing.assert_allclose(found.estimate, estimate, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found.classical_error, bare, rtol=1e-11)


@pytest.mark.parametrize("partitions", [1, 3, 200])
def test_partitions_of_one_row_against_normal_equations(partitions):
    frame = table()
    require_same(dd.from_pandas(frame, npartitions=partitions, sort=False), frame)


@pytest.mark.parametrize("kind", ["Float64", "double[pyarrow]", object, "float32"])
def test_partitions_of_different_types(kind):
    frame = table().astype({"a": "float32"}).astype({"a": "float64"})  # exact in single precision
    first, second = frame.iloc[:50], frame.iloc[50:].copy()
    second["a"] = second["a"].astype(kind)
    empty = frame.iloc[:0].astype({"a": object, "z": object})
    require_same(pieces(first, empty, second), frame)


@pytest.mark.parametrize("kind", ["Float64", "double[pyarrow]"])
def test_gaps_of_types_that_have_their_own(kind):
    frame = table()
    first, second = frame.iloc[:50], frame.iloc[50:].astype({"z": kind})
    second.iloc[3, second.columns.get_loc("z")] = pd.NA
    with pytest.raises(InvalidInput, match="partition 1, column 'z', row 4: a value is missing"):
        fit(pieces(first, second), ["a", "b"], level="s", noise="v")
    found = fit(pieces(first, second), ["a", "b"], level="s", noise="v", missing="drop")
    estimate = dense(frame.drop(index=53))[0]
    np.testing.assert_allclose(found.estimate, estimate, rtol=0, atol=1e-11)
    assert (found.rows, found.dropped) == (199, 1)


def test_a_text_is_no_list_of_features():
    """ "ab" was read as the columns a and b."""
    frame = dd.from_pandas(table(), npartitions=2)
    with pytest.raises(InvalidInput, match=r"list of column names: write \['ab'\]"):
        fit(frame, "ab", level=1.0, noise=1.0)
