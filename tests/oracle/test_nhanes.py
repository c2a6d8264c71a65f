"""NHANES through the product's own calls, beside the same fit without privacy.

The estimate without privacy appears here only. By survey weights θ̂ = Bz, B = (XᵀWX)⁻¹XᵀW, so that

    θ̂(z) − θ̂(y) = B(z − y) ~ N(0, BBᵀ/s) ,

whatever the readings are: the difference of the two answers is chance of a known law.
"""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import privest as pv
from shared_data import FOLDER, needs_nhanes

ROOT = Path(__file__).parents[2]
RARE = 1e-4  # how often a right program fails one of the checks by chance, had it no fixed seeds
SEEDS = range(12)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("nhanes", ROOT / "examples" / "nhanes.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def table(example):
    return example.people(FOLDER)


@pytest.fixture(scope="module")
def secret(example, table):
    """The rows without gaps, their design matrix and the fit without privacy."""
    whole = table.dropna()
    X = np.column_stack(
        [
            np.ones(len(whole)),
            whole["age, 10 years"],
            whole["BMI, 5 kg/m²"],
            whole["sex"] == "male",
            whole["income ratio"],
        ]
    ).astype(float)
    # What a release does to a reading before the noise.
    y = np.log(whole["triglycerides"].clip(*example.RANGE))
    return whole, X, sm.WLS(y.to_numpy(), X, weights=whole["weight"].to_numpy())


@needs_nhanes
def test_the_people_are_those_of_the_known_table_who_have_a_weight(table):
    """The merged table of ../shared/data was made otherwise: 2704 people, 164 of weight 0."""
    blood = pd.read_csv(FOLDER / "nhanes_raw" / "TRIGLY_G.csv.xz")[["SEQN", "WTSAF2YR"]]
    known = pd.read_csv(FOLDER / "nhanes_triglycerides.csv").merge(blood, on="SEQN")
    known = known[known["WTSAF2YR"] > 0]
    ours = table.dropna()
    for name, theirs, unit in (
        ("triglycerides", "LBXTR", 1), ("age, 10 years", "RIDAGEYR", 10),
        ("BMI, 5 kg/m²", "BMXBMI", 5), ("income ratio", "INDFMPIR", 1), ("weight", "WTSAF2YR", 1),
    ):  # fmt: skip
        np.testing.assert_array_equal(ours[name], known[theirs] / unit)
    np.testing.assert_array_equal(ours["sex"] == "female", known["RIAGENDR"] == 2)


@needs_nhanes
@pytest.mark.parametrize("factor", [4.0, 2.0, 1.25])
def test_with_and_without_privacy_differ_by_the_stated_noise_only(example, table, secret, factor):
    _, X, model = secret
    plan = example.plan_for(table, factor)
    assert stats.norm.cdf(np.sqrt(plan.level) * np.log(factor) / 2) == pytest.approx(0.75, abs=1e-3)
    weighted = X * model.weights[:, None]
    B = np.linalg.solve(weighted.T @ X, weighted.T)
    law = B @ B.T / plan.level
    without = model.fit()
    found = [pv.estimate(plan.simulate(rng=seed)).value for seed in SEEDS]
    apart = np.array(found) - without.params
    # Each coefficient, in units of its standard error; then all of them and all seeds at once.
    most = stats.norm.isf(RARE / (2 * apart.size))
    assert np.abs(apart / np.sqrt(np.diag(law))).max() < most
    square = np.einsum("ij,ji->", apart, np.linalg.solve(law, apart.T))
    low, high = stats.chi2.interval(1 - RARE, apart.size)
    assert low < square < high


@needs_nhanes
def test_errors_are_those_of_statsmodels(example, table, secret):
    """HC3 of the release itself, digit by digit; and of the readings, where there is no noise.

    At s = 10¹² noise is 10⁻⁶ of a reading's logarithm. Standard errors are made of residuals of
    about 0.5, each moved by 10⁻⁶: they move by 10⁻⁵ of themselves at most.
    """
    _, X, model = secret
    trial = example.plan_for(table, 2.0).simulate(rng=1)
    z = trial.to_frame()["z"].to_numpy()
    known = sm.WLS(z, X, weights=model.weights).fit(cov_type="HC3", use_t=True)
    found = pv.estimate(trial)
    assert found.method == "HC3, survey weights"
    np.testing.assert_allclose(found.value, known.params, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.standard_error, known.bse, rtol=1e-8)
    # Fewer degrees of freedom than K − n, and more for skewness: wider, with 2540 rows by little.
    wider = np.ptp(found.interval(), axis=1) / np.ptp(known.conf_int(), axis=1)
    assert (wider >= 1 - 1e-9).all()
    assert (wider < 1.1).all()
    np.testing.assert_allclose(found.interval().mean(axis=1), known.params, rtol=1e-8, atol=1e-9)

    bare = pv.plan(table, **asked(example), form="rows", level=1e12)
    clear, oracle = pv.estimate(bare.simulate(rng=1)), model.fit(cov_type="HC3", use_t=True)
    np.testing.assert_allclose(clear.standard_error, oracle.bse, rtol=1e-5)
    np.testing.assert_allclose(clear.value, oracle.params, atol=6 * bare.privacy_error.max())


def asked(example):
    return {
        "target": "triglycerides", "features": example.FEATURES, "transform": "log",
        "categories": {"sex": ["female", "male"]}, "missing": "drop", "weights": "weight",
        "range": example.RANGE,
    }  # fmt: skip


@needs_nhanes
def test_the_example_prints_what_the_page_says(example, tmp_path, capsys):
    found = example.main(FOLDER, tmp_path / "deep")
    printed = capsys.readouterr().out
    page = (ROOT / "docs" / "tutorials" / "survey.md").read_text(encoding="utf-8")
    _, _, after = page.partition("print(pv.estimate(rows.simulate(rng=2012)).summary())\n```\n")
    shown = after.split("```")[1].removeprefix("text\n").splitlines()
    assert len(shown) > 10
    assert [line for line in shown if line not in printed] == []
    assert (tmp_path / "deep" / "nhanes.png").stat().st_size > 10_000
    widths = [np.ptp(one.interval(), axis=1) for one in found.values()]
    assert (widths[0] > widths[1]).all()
    assert (widths[1] > widths[2]).all()


def test_without_the_data_it_says_what_to_do(example, tmp_path):
    said = re.escape(f"{tmp_path / 'nhanes_raw'} has no DEMO_G.csv.xz, BMX_G.csv.xz, TRIGLY_G")
    with pytest.raises(SystemExit, match=said):
        example.main(tmp_path)
