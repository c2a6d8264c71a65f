"""`diagnose`: innovations of right and wrong systems, gaps, vectors; against statsmodels."""

import types

import numpy as np
import pytest
from scipy import stats

import privest as pv
from privest import dynamics
from privest.errors import InvalidInput
from privest.report.figures import save_diagnosis

sm = pytest.importorskip("statsmodels.api")
CHAIN = dynamics.StateSpace(A=0.9, C=1.0, Q=0.19, R=0.2, cov0=1.0)


def shown(values, simulated=True):
    """What a filter would give with these innovations."""
    found = np.asarray(values)
    return dynamics.StateEstimate(None, None, found, 0.0, CHAIN, 0, simulated, None, None)


def the(found, name, component=None):
    (test,) = [t for t in found.tests if (t.name, t.component) == (name, component)]
    return test


def test_a_scalar_series_is_tested_as_statsmodels_tests_it():
    z = np.random.default_rng(0).standard_t(7, 300)
    z -= z.mean()  # which statsmodels takes off, and a right system does not have
    found = shown(z[:, None]).diagnose(lags=12, parameters=3)
    peer = sm.stats.acorr_ljungbox(z, lags=[12], model_df=3)
    assert the(found, "whiteness").statistic == pytest.approx(peer.lb_stat.iloc[0], rel=1e-12)
    assert the(found, "whiteness").p_value == pytest.approx(peer.lb_pvalue.iloc[0], rel=1e-10)
    statistic, p_value, *_ = sm.stats.stattools.jarque_bera(z)
    assert the(found, "normality").statistic == pytest.approx(statistic, rel=1e-12)
    assert the(found, "normality").p_value == pytest.approx(p_value, rel=1e-10)
    acf = sm.tsa.acf(z, nlags=12, adjusted=True, fft=False)[1:]
    assert found.autocorrelations[:, 0, 0] == pytest.approx(acf, rel=1e-12)


def test_gaps_are_treated_as_statsmodels_treats_them():
    z = np.random.default_rng(1).standard_normal(200)
    z[[3, 17, 18, 90]] = np.nan
    z -= np.nanmean(z)
    found = shown(z[:, None]).diagnose(lags=8)
    # its "conservative" sums of products over pairs, divided by the pairs that are there
    acovf = sm.tsa.acovf(z, missing="conservative", fft=False, adjusted=True)[:9]
    assert found.autocorrelations[:, 0, 0] == pytest.approx(acovf[1:] / acovf[0], rel=1e-12)
    there = ~np.isnan(z)
    assert found.pairs[:, 0, 0].tolist() == [
        int((there[h:] & there[:-h]).sum()) for h in range(1, 9)
    ]


def test_vectors_are_tested_as_statsmodels_tests_them():
    """Hosking's statistic, times the exact ratio of means; normality by components."""
    rng = np.random.default_rng(2)
    z, n, r, lags = rng.standard_normal((150, 3)), 150, 3, 6
    z -= z.mean(axis=0)
    white = np.linalg.solve(np.linalg.cholesky(z.T @ z / n), z.T).T
    found = shown(white).diagnose(lags=lags)
    fit = types.SimpleNamespace(resid=z, nobs=n, neqs=r, k_ar=0)
    from statsmodels.tsa.vector_ar import var_model

    peer = var_model.VARResults.test_whiteness(fit, nlags=lags, adjusted=True)
    ratio = (n + 2) / n / ((1 + (r - 1) * (n + 1) / (n - 1)) / r)
    assert ratio == pytest.approx(1, abs=2 / n)
    assert the(found, "whiteness").statistic == pytest.approx(
        ratio * peer.test_statistic, rel=1e-10
    )
    assert the(found, "whiteness").freedom == peer.df
    normal = var_model.test_normality(fit)
    assert the(found, "normality").statistic == pytest.approx(normal.test_statistic, rel=1e-10)
    for j in range(r):
        own = sm.stats.acorr_ljungbox(white[:, j], lags=[lags])
        assert the(found, "whiteness", j).statistic == pytest.approx(own.lb_stat.iloc[0], rel=1e-10)


@pytest.mark.parametrize("width", [1, 2])
def test_the_statistic_has_its_mean_exactly_whatever_the_gaps(width):
    """E = r²L for white noise, short series with many gaps: Monte Carlo within four errors."""
    rng = np.random.default_rng(3)
    gone = rng.random(30) < 0.3
    drawn = rng.standard_normal((1500, 30, width))
    drawn[:, gone] = np.nan
    seen = [the(shown(z).diagnose(lags=5), "whiteness").statistic for z in drawn]
    error = np.std(seen) / np.sqrt(len(seen))
    assert np.mean(seen) == pytest.approx(5 * width**2, abs=4 * error)
    assert error < 0.02 * 5 * width**2  # n + 2 for n is 10 %, pairs for n 20 to 60 %


def test_the_bands_hold_one_in_twenty():
    rng = np.random.default_rng(4)
    drawn = rng.standard_normal((300, 60, 2))
    drawn[:, 20:25, 1] = np.nan  # of a vector only one entry is there
    found = [shown(z).diagnose(lags=4) for z in drawn]
    outside = np.mean([np.abs(d.autocorrelations) > d.band for d in found])
    # 300 × 16 nearly independent ones: ± 4 √(.05 × .95/4800); bands are normal, not exact
    assert outside == pytest.approx(0.05, abs=0.0126 + 0.005)


@pytest.mark.parametrize(("level", "gap"), [(0.5, False), (0.5, True), (50.0, True)])
def test_right_systems_pass_and_wrong_ones_are_told(level, gap):
    rng = np.random.default_rng(5)
    _, y = CHAIN.sample(1500, rng)
    if gap:
        y[200:260] = y[700::7] = np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = dynamics.filter(CHAIN, release, level=level)
    right = found.diagnose(confidence=0.999)  # wrong by chance in one seed of a thousand
    assert right.alarms == ()
    assert "none speaks against the system (which does not prove it)" in right.verdict
    slower = dynamics.StateSpace(A=0.2, C=1.0, Q=0.96, R=0.2, cov0=1.0)  # the same variance
    wrong = dynamics.filter(slower, release, level=level).diagnose()
    assert "whiteness" in [test.name for test in wrong.alarms]
    assert "correlated in time" in wrong.verdict
    louder = dynamics.StateSpace(A=0.9, C=1.0, Q=0.6, R=0.6, cov0=1.0)
    wrong = dynamics.filter(louder, release, level=level).diagnose()
    assert "variance" in [test.name for test in wrong.alarms]


def test_a_mean_and_heavy_tails_are_told():
    rng = np.random.default_rng(6)
    z = rng.standard_normal((400, 1))
    assert [t.name for t in shown(z + 0.4).diagnose().alarms] == [
        "whiteness", "mean", "variance",
    ]  # fmt: skip
    heavy = rng.standard_t(3, (400, 1)) / np.sqrt(3)
    assert "normality" in [t.name for t in shown(heavy).diagnose().alarms]


def test_series_are_tested_within_themselves():
    """Two series in one: no pair goes from the end of one to the start of the other."""
    rng = np.random.default_rng(7)
    z = rng.standard_normal((2, 40, 1))
    found = shown(z).diagnose(lags=3)
    assert found.pairs[:, 0, 0].tolist() == [2 * (40 - h) for h in (1, 2, 3)]
    apart = np.concatenate([z[0], np.full((3, 1), np.nan), z[1]])  # the same with a gap between
    again = shown(apart).diagnose(lags=3)
    assert again.autocorrelations == pytest.approx(found.autocorrelations, rel=1e-12)
    assert [t.statistic for t in again.tests] == pytest.approx([t.statistic for t in found.tests])


def test_vectors_of_which_a_part_is_missing_count_by_entries():
    rng = np.random.default_rng(8)
    z = rng.standard_normal((100, 2))
    z[::2, 1] = np.nan  # never two whole steps in a row
    found = shown(z).diagnose(lags=4)
    assert found.count.tolist() == [100, 50]
    assert np.isnan(found.autocorrelations[[0, 2], 1, 1]).all()
    assert [t.freedom for t in found.tests if t.name == "whiteness"] == [2 * 4, 4, 2]
    whole = shown(z[1::2]).diagnose(lags=2)  # the same steps without the gaps
    vector = [the(d, "whiteness").statistic for d in (found, whole)]
    assert vector[0] == pytest.approx(vector[1], rel=1e-12)


def test_fitted_parameters_are_taken_off():
    z = np.random.default_rng(9).standard_normal((200, 1))
    free, fitted = (shown(z).diagnose(lags=10, parameters=p) for p in (0, 4))
    assert (the(free, "whiteness").freedom, the(fitted, "whiteness").freedom) == (10, 6)
    assert the(fitted, "whiteness").p_value < the(free, "whiteness").p_value
    assert "The model was fitted to the same releases" in fitted.verdict


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2])
def test_the_tests_have_their_size(width):
    """5 % of right systems with gaps are rejected by each test, at K = 400."""
    rng, trials = np.random.default_rng(10), 2000
    drawn = rng.standard_normal((trials, 400, width))
    drawn[:, rng.random(400) < 0.2] = np.nan
    found = [shown(z).diagnose(lags=10) for z in drawn]
    for name in ("whiteness", "normality", "mean", "variance"):
        rejected = np.mean([the(d, name).p_value < 0.05 for d in found])
        # four errors; the χ² law of Jarque-Bera is for many more steps: 4 % at 320
        assert rejected == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / trials) + 0.005)
    uniform = stats.kstest([the(d, "variance").p_value for d in found], "uniform").pvalue
    assert uniform > 1e-4
    assert np.mean([len(d.alarms) > 0 for d in found]) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)


def test_it_goes_to_json_and_draws(tmp_path):
    rng = np.random.default_rng(11)
    z = rng.standard_normal((200, 2))
    z[50:60] = np.nan
    found = shown(z).diagnose()
    record = found.to_dict()
    assert record["tests"][0]["name"] == "whiteness"
    assert record["verdict"] == found.verdict
    save_diagnosis(found, tmp_path / "d.png")
    assert (tmp_path / "d.png").stat().st_size > 30_000
    assert "Diagnosis(6 tests of 380 innovations" in repr(found)


def test_the_extended_filter_is_diagnosed():
    rng = np.random.default_rng(12)
    bent = dynamics.NonlinearStateSpace(lambda x: 0.9 * x, lambda x: x, 0.19, 0.2, [0.0], 1.0)
    _, y = CHAIN.sample(300, rng)
    release = pv.StreamMechanism(1.0).simulate(y, rng)
    linear = dynamics.filter(CHAIN, release, level=1.0).diagnose()
    found = dynamics.filter(bent, release, level=1.0, method="extended").diagnose()
    assert [t.statistic for t in found.tests] == pytest.approx(
        [t.statistic for t in linear.tests], rel=1e-8
    )


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (np.ones((5, 1)), {}, "at least 8 innovations"),
        (np.full((50, 1), np.nan), {}, "0 are there"),
        (np.zeros((50, 1)), {}, "all 0"),
        (np.ones((50, 1)), {}, "all the same"),
        (np.ones((50, 1)), {"lags": 0}, "lags"),
        (np.ones((50, 1)), {"lags": 50}, "no lag of 50"),
        (np.ones((50, 1)), {"lags": 3, "parameters": 3}, "leave nothing to test"),
        (np.ones((50, 1)), {"parameters": -1}, "parameters"),
        (np.ones((50, 1)), {"confidence": 1.0}, "confidence"),
        (np.where(np.arange(60)[:, None] % 5, np.nan, 1.0), {"lags": 4}, "leave nothing to test"),
    ],
)
def test_bad_input(values, options, message):
    with pytest.raises(InvalidInput, match=message):
        shown(values).diagnose(**options)
