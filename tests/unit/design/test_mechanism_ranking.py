"""`design.rank_mechanisms`: the catalogue at one level."""

import numpy as np
import pytest
import scipy

import privest as pv
from privest.design import rank_mechanisms
from privest.design._smoothed import efficiency, information_of_sum
from privest.mechanism import CATALOGUE, Additive
from strategies import design, psd_matrix

ONE = pv.LinearModel(np.ones((10, 1)), noise=1.0)
OTHERS = {
    "t10": pv.noise.StudentT(10.0), "t5": pv.noise.StudentT(5.0), "logistic": pv.noise.Logistic(),
    "bump 3": pv.noise.Bump(3.0), "bump 5": pv.noise.Bump(5.0),
}  # fmt: skip


def plain_information(law, v):
    """∫ f'²/f by the plainest sums: f = ∫ p(x) N(r − x; v) dx on one grid of step h.

    The sum over x has an error of order h² at kinks of p, 8e-6 here; the tails beyond 60 hold
    60⁻³ of the heaviest law.
    """
    h = 0.008
    x = np.arange(-60.0, 60.0 + h / 2, h)
    p = np.exp(law.logpdf(x))
    r = np.arange(-60.0, 60.0, 0.04)
    reach = min(int(np.ceil(9 * np.sqrt(v) / h)), len(x))
    f, slope = np.zeros(len(r)), np.zeros(len(r))
    nearest = np.rint((r + 60.0) / h).astype(int)
    for step in range(-reach, reach + 1):
        at = nearest + step
        inside = (at >= 0) & (at < len(x))
        away = r - (-60.0 + h * at)
        part = np.where(inside, p[np.clip(at, 0, len(x) - 1)], 0.0) * np.exp(-(away**2) / (2 * v))
        f += part
        slope -= part * away / v
    unit = h / np.sqrt(2 * np.pi * v)
    shown = f > 1e-250
    return float(np.sum(slope[shown] ** 2 / f[shown]) * unit * 0.04)


@pytest.mark.parametrize("v", [0.25, 4.0])
@pytest.mark.parametrize("name", ["laplace", "cos2", "student-t", "bump"])
def test_the_information_of_a_sum_by_plain_sums(name, v):
    law = CATALOGUE[name].channel(1.0).law
    assert information_of_sum(law, v) == pytest.approx(plain_information(law, v), rel=2e-5)


@pytest.mark.parametrize("v", [1e-4, 0.05, 1.0, 16.0, 1e4])
def test_the_information_of_a_voigt_profile(v):
    """scipy's own density of the sum of a Cauchy and a Gaussian variable, its slope by differences.

    Differences of step 1e-4 widths are right to 1e-7, the sum to the tails beyond 1e4 widths.
    """
    law = CATALOGUE["cauchy"].channel(1.0).law
    unit = max(np.sqrt(v), 1.0)
    t = np.linspace(-10.0, 10.0, 40001)
    r, rate = unit * np.sinh(t), unit * np.cosh(t)
    step = 1e-4 * min(np.sqrt(v), 1.0)

    def density(r):
        return scipy.special.voigt_profile(r, np.sqrt(v), law.scale)

    near = np.abs(r) < 100 * unit
    slope = (density(r[near] + step) - density(r[near] - step)) / (2 * step)
    found = np.sum(slope**2 / density(r[near]) * rate[near]) * (t[1] - t[0])
    assert information_of_sum(law, v) == pytest.approx(found, rel=1e-4)


def test_limits_and_scale():
    """Nothing is lost without noise of the readings, nothing is left of it in large noise; and the
    figure depends on v·s alone.
    """
    for name in ("laplace", "cos2", "cauchy"):
        law = CATALOGUE[name].channel(1.0).law
        assert efficiency(law, 1e-12) == pytest.approx(1.0, rel=2e-3)
        assert information_of_sum(law, 1e8) == pytest.approx(1e-8, rel=1e-3)
        wide = Additive.calibrated(0.01, law=law).law
        stretched = 100 * information_of_sum(wide, 25.0)
        assert stretched == pytest.approx(information_of_sum(law, 0.25), rel=1e-9)


@pytest.mark.parametrize("name", ["laplace", "cos2", "triangular-quantiser", "bump"])
def test_least_squares_has_the_promised_error(name):
    """Simulated releases; 5 deviations of a sample variance, by its own fourth moment."""
    rng = np.random.default_rng(3)
    H, s, v = np.array([[1.0], [2.0], [0.5]]), 0.7, 0.4
    model = pv.LinearModel(H, noise=v)
    found = rank_mechanisms(model, s)
    trials = 20000
    y = model.simulate([1.3], rng, trials)
    z = CATALOGUE[name].calibrated(s, 3).simulate(y, rng)
    estimate = z @ H[:, 0] / (H.T @ H)
    square = (estimate.ravel() - 1.3) ** 2
    sure = 5 * square.std() / np.sqrt(trials)
    expected = found.standard_error[found.names.index(name), 0] ** 2
    assert square.mean() == pytest.approx(expected, abs=sure)
    assert expected == pytest.approx(found.bound[0] ** 2 / found.efficiency[
        found.names.index(name)], rel=1e-12)  # fmt: skip


def test_the_order_and_the_reasons():
    squares = rank_mechanisms(ONE, 1.0, laws=OTHERS)
    assert squares.best == "gaussian"
    assert squares.efficiency[0] == pytest.approx(1.0, rel=1e-12)
    assert (np.diff(squares.efficiency) <= 1e-12).all()
    kappa = dict(zip(squares.names, squares.kappa))
    # Closed forms: t(ν): ν/(ν − 2)·(ν + 1)/(ν + 3); logistic π²/9; cos² (1/3 − 2/π²)π²; dither 3/2.
    assert kappa["t5"] == pytest.approx(5 / 3 * 6 / 8)
    assert kappa["t10"] == pytest.approx(10 / 8 * 11 / 13)
    assert kappa["logistic"] == pytest.approx(np.pi**2 / 9)
    assert kappa["cos2"] == pytest.approx(np.pi**2 / 3 - 2)
    assert kappa["laplace"] == pytest.approx(2.0)
    assert kappa["triangular-quantiser"] == pytest.approx(1.5)
    assert squares.efficiency == pytest.approx(2 / (1 + squares.kappa))
    likelihood = rank_mechanisms(ONE, 1.0, "maximum likelihood", laws=OTHERS)
    assert likelihood.efficiency.max() == pytest.approx(1.0, rel=1e-9)
    part = dict(zip(likelihood.names, likelihood.efficiency))
    for name, least in zip(squares.names, squares.efficiency):
        if name in part:  # it never loses to a linear estimate
            assert part[name] >= least - 1e-9
    for found in (squares, likelihood):
        # Everything is there once; what no parameters keep within a level has no rank.
        assert sorted([*found.names, *found.left_out]) == sorted([*CATALOGUE, *OTHERS])
        for name in ("uniform", "staircase", "rotation", "inverse-gaussian", "gain-uniform"):
            assert "cannot be calibrated" in found.left_out[name]
        assert "no rank: uniform: additive noise" in found.explain()
        assert len(found.frame()) == len(found.names)
        assert found.to_dict()["best"] == "gaussian"
    assert "least squares does not settle" in squares.left_out["cauchy"]
    assert "where the readings lie" in likelihood.left_out["binary-laplace"]


def test_any_level_and_any_noise_for_least_squares():
    """Dense formula: (Hᵀ(Σ + κS⁻¹)⁻¹H)⁻¹, S and Σ matrices."""
    rng = np.random.default_rng(5)
    H, S, Sigma = design(rng, 6, 2), psd_matrix(rng, 6), psd_matrix(rng, 6)
    found = rank_mechanisms(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=Sigma)), S)
    for kappa, errors, part in zip(found.kappa, found.standard_error, found.efficiency):
        PI = H.T @ np.linalg.solve(Sigma + kappa * np.linalg.inv(S), H)
        assert errors == pytest.approx(np.sqrt(np.diagonal(np.linalg.inv(PI))), rel=1e-9)
        best = H.T @ np.linalg.solve(Sigma + np.linalg.inv(S), H)
        ratio = np.linalg.det(PI) / np.linalg.det(best)
        assert part == pytest.approx(np.sqrt(ratio), rel=1e-9)
    with pytest.raises(pv.errors.InvalidInput, match="independent Gaussian"):
        rank_mechanisms(pv.LinearModel(H, noise=1.0), S, "maximum likelihood")


def test_levels_of_many_sizes():
    """A polynomial stands for more than 16 products v·s: to 1e-5 of each, and so of the whole."""
    rng = np.random.default_rng(6)
    levels = np.exp(rng.uniform(-3, 3, 18))
    model = pv.LinearModel(design(rng, 18, 2), noise=0.5)
    found = rank_mechanisms(model, levels, "maximum likelihood")
    law = CATALOGUE["cos2"].channel(1.0).law
    each = np.array([information_of_sum(law, 0.5 * s) * s for s in levels])
    PI = (model.matrix.T * each) @ model.matrix
    errors = found.standard_error[found.names.index("cos2")]
    assert errors == pytest.approx(np.sqrt(np.diagonal(np.linalg.inv(PI))), rel=1e-5)


def test_what_is_no_estimator():
    with pytest.raises(pv.errors.InvalidInput, match="least squares"):
        rank_mechanisms(ONE, 1.0, "median")
    with pytest.raises(pv.errors.InvalidInput, match="another name"):
        rank_mechanisms(ONE, 1.0, laws={"laplace": pv.noise.Laplace()})
    with pytest.raises(pv.errors.NotIdentifiable):
        rank_mechanisms(ONE, 0.0)
