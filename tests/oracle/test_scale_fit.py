"""`scale.fit` against the estimate in memory, dense formulas, and itself on a cluster."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import privest as pv
from dask_cluster import cluster
from privest.scale import fit
from privest.workflow import Model, Privacy, Public, Spec, estimate, make_plan, simulate_release

dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")

# Dask 2026.8 uses what pandas 3.1 deprecates; nothing of ours.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")
ROWS = 200_000
FEATURES = ("a", "b", "c")
EPS = np.finfo(float).eps


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A release of 2·10⁵ rows, written by the workflow, and the frame it was made of."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((ROWS, 3)) + 2.0, columns=FEATURES)
    frame["y"] = frame.to_numpy() @ [1.0, -2.0, 0.5] + 3.0 + 0.7 * rng.standard_normal(ROWS)
    spec = Spec("diabetes", Model("y", FEATURES), Privacy(level=0.8), Public(0.49))
    folder = tmp_path_factory.mktemp("release")
    path = folder / "z.parquet"
    simulate_release(make_plan(spec, frame), path, rng, frame)
    (folder / "parts").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(ROWS), 13)):
        pd.read_parquet(path).iloc[rows].to_parquet(folder / "parts" / f"{k:02}.parquet")
    return path, folder / "parts"


def close(found, expected, condition=100.0):
    """Rounding of least squares: eps·√K·cond, in standard errors where it is an estimate."""
    allowed = EPS * np.sqrt(ROWS) * condition
    size = np.abs(expected.estimate).max()
    np.testing.assert_allclose(found.estimate, expected.estimate, rtol=0, atol=allowed * size)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=allowed, atol=0)
    assert found.misfit == pytest.approx(expected.misfit, rel=allowed)


def test_the_numbers_of_the_workflow(release):
    path, parts = release
    expected = estimate(path, "stated")
    for where in (path, parts):
        found = fit(dd.read_parquet(where), FEATURES, level=0.8, noise=0.49)
        close(found, expected)
        np.testing.assert_allclose(found.classical_error, expected.classical_error, rtol=1e-12)
        assert found.rows == ROWS
        assert found.misfit_p > 1e-3


def test_same_bits_on_a_cluster(release):
    frame = dd.read_parquet(release[1])
    assert frame.npartitions == 13
    here = fit(frame, FEATURES, level=0.8, noise=0.49)
    with cluster() as client:
        there = fit(frame, FEATURES, level=0.8, noise=0.49, client=client)
    for one in dataclasses.fields(here):
        assert np.array_equal(getattr(here, one.name), getattr(there, one.name)), one.name


def test_levels_and_variances_of_each_row():
    """PI and the estimate by the library's dense bound for S = diag(s_k), Σ = diag(σ_k²)."""
    rng = np.random.default_rng(5)
    rows = 300
    frame = pd.DataFrame(rng.standard_normal((rows, 2)), columns=["a", "b"])
    frame["s"], frame["v"] = rng.uniform(0.1, 9, rows), rng.uniform(0.2, 3, rows)
    frame["z"] = rng.standard_normal(rows)
    found = fit(
        dd.from_pandas(frame, npartitions=7), ["a", "b"], level="s", noise="v"
    )  # fmt: skip
    H = np.column_stack([np.ones(rows), frame[["a", "b"]]])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=frame["v"].to_numpy()))
    bound = pv.bound(model, pv.PrivacyLevel(frame["s"].to_numpy()))
    np.testing.assert_allclose(found.covariance, bound.covariance, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(
        found.classical_error, np.sqrt(np.diagonal(bound.classical)), rtol=1e-12
    )  # fmt: skip
    weight = 1 / (frame["v"] + 1 / frame["s"]).to_numpy()
    expected = np.linalg.solve(H.T @ (weight[:, None] * H), H.T @ (weight * frame["z"].to_numpy()))
    np.testing.assert_allclose(found.estimate, expected, rtol=1e-12, atol=1e-14)


def test_badly_conditioned_columns_keep_their_digits():
    """Condition number 1e7 of H: normal equations would leave 2 digits, QR leaves 9.

    |Δθ| ≤ c·eps·cond·‖θ‖ with exact data (residual 0); c = √K allows for the sums.
    """
    rng = np.random.default_rng(6)
    rows = 5000
    a = rng.standard_normal(rows)
    b = a + 1e-7 * rng.standard_normal(rows)
    frame = pd.DataFrame({"a": a, "b": b})
    truth = np.array([1.0, 2.0, -1.0])
    frame["z"] = truth[0] + truth[1] * a + truth[2] * b
    found = fit(dd.from_pandas(frame, npartitions=6), ["a", "b"], level=1.0, noise=1.0)
    H = np.column_stack([np.ones(rows), a, b])
    bound = EPS * np.sqrt(rows) * np.linalg.cond(H) * np.linalg.norm(truth)
    assert np.linalg.norm(found.estimate - truth) < bound
    assert bound < 1e-5
