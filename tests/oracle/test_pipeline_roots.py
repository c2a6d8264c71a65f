"""Roots of the estimating equation: against scipy from many starts, and against themselves."""

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.pipeline import _roots as roots
from scores import likelihood_score, optimal_score

SKEWED = pv.noise.GaussianMixture([0.7, 0.3], means=[-1.0, 3.0], sds=[0.4, 1.5])
SCORES = {
    "laplace": optimal_score(pv.noise.Laplace(1.0), 0.01),
    "logistic": optimal_score(pv.noise.Logistic(1.0), 0.1),
    "uniform": optimal_score(pv.noise.Uniform(1.0), 0.01),
    "cauchy": optimal_score(pv.noise.Cauchy(1.0), 0.05),
    "cauchy likelihood": likelihood_score(pv.noise.Cauchy(1.0)),
    "skewed": optimal_score(SKEWED, 0.02),
    "skewed likelihood": likelihood_score(SKEWED),
}
CONVEX = ("laplace", "logistic", "uniform")


def height(score, H, y, theta):
    return float(score.terms(y - H @ theta).integral.sum())


def gradient(score, H, y, theta):
    return -H.T @ score(y - H @ theta)


def standard_error(score, design):
    return np.sqrt(score.sampling) * np.linalg.norm(
        np.linalg.inv(design.triangle), axis=1
    )  # of each entry of θ


def problem(name, seed, count, n, theta=None):
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((count, n))
    H[:, 0] = 1.0
    theta = rng.standard_normal(n) if theta is None else theta
    score = SCORES[name]
    return score, roots.Design(H), H @ theta + score.law.sample(count, rng), rng


# --- against scipy --------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.sampled_from(CONVEX), st.integers(0, 10**6), st.integers(1, 3))
def test_no_start_of_scipy_finds_a_lower_minimum(name, seed, n):
    """K = 40: convex scores have one minimum."""
    score, design, y, rng = problem(name, seed, 40, n)
    H = design.matrix
    found = roots.solve(score, design, y[None])
    assert found.converged.all()
    ours = height(score, H, y, found.theta[0])
    assert np.abs(gradient(score, H, y, found.theta[0])).max() < 1e-6 * np.sqrt(
        score.moments.square * 40
    )
    starts = np.linalg.lstsq(H, y, rcond=None)[0] + rng.standard_normal((4, n))
    for start in [*starts, found.theta[0]]:
        other = scipy.optimize.minimize(
            lambda t: height(score, H, y, t), start, jac=lambda t: gradient(score, H, y, t),
            method="BFGS", options={"gtol": 1e-8},
        )  # fmt: skip
        assert ours <= other.fun + 1e-9 * abs(other.fun)


# --- against itself, moved ------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(SCORES)),
    st.integers(0, 10**6),
    st.sampled_from([1.0, 1e3, 1e6, -1e6]),
)
def test_moving_the_parameter_moves_the_estimate(name, seed, size):
    """y + Hδ → θ̂ + δ. Rounding of y at 1e6: 1e-10 each, far below 1e-6 standard errors."""
    score, design, y, rng = problem(name, seed, 100, 2)
    delta = size * rng.standard_normal(2)
    here = roots.solve(score, design, y[None])
    there = roots.solve(score, design, (y + design.matrix @ delta)[None])
    assert here.converged.all()
    assert there.converged.all()
    error = standard_error(score, design)
    assert (np.abs(there.theta - here.theta - delta) < 1e-5 * error).all()


@pytest.mark.parametrize("name", sorted(SCORES))
def test_large_parameters_converge_in_every_trial(name):
    """Hθ of 1e8 next to noise of 1: the last falls of F must not drown in rounding."""
    rng = np.random.default_rng(3)
    score = SCORES[name]
    H = rng.standard_normal((200, 2))
    y = H @ np.array([1e8, -1e8]) + score.law.sample((200, 200), rng)
    found = roots.solve(score, roots.Design(H), y)
    assert found.converged.all()


@pytest.mark.parametrize("scales", [(1e-8, 1.0, 1e8), (1e8, 1.0, 1e-8), (1e8, 1e8, 1e-8)])
@pytest.mark.parametrize("name", ["laplace", "cauchy", "skewed"])
def test_scales_of_columns_do_not_matter(name, scales):
    score, design, y, _ = problem(name, 7, 150, 3)
    c = np.array(scales)
    plain = roots.solve(score, design, y[None]).theta[0]
    scaled = roots.solve(score, roots.Design(design.matrix * c), y[None]).theta[0] * c
    assert (np.abs(plain - scaled) < 1e-6 * standard_error(score, design)).all()


@pytest.mark.parametrize("law", [pv.noise.Laplace(1.0), pv.noise.Cauchy(1.0), SKEWED])
def test_scaling_noise_and_readings_scales_the_estimate(law):
    rng = np.random.default_rng(11)
    design = roots.Design(rng.standard_normal((80, 2)))
    y = law.sample(80, rng)
    one = roots.solve(optimal_score(law, 0.3), design, y[None]).theta
    c = 1e4
    other = roots.solve(optimal_score(law.scaled(c), 0.3 * c**2), design, c * y[None]).theta
    np.testing.assert_allclose(other, c * one, rtol=1e-6, atol=1e-6 * c)


def test_trials_are_solved_as_one_by_one():
    rng = np.random.default_rng(0)
    for name, score in SCORES.items():
        H = rng.standard_normal((50, 2))
        design = roots.Design(H)
        y = score.law.sample((7, 50), rng)
        together = roots.solve(score, design, y)
        alone = np.concatenate([roots.solve(score, design, row[None]).theta for row in y])
        np.testing.assert_allclose(together.theta, alone, atol=1e-7, err_msg=name)


# --- many rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["laplace", "cauchy", "skewed"])
def test_every_start_ends_at_the_same_root(name):
    """K = 2·10⁵; both stop when the next step is below 1e-6 standard errors."""
    score, design, y, _ = problem(name, 1, 200_000, 2)
    found = roots.solve(score, design, y[None])
    direct = roots.descend(score, design, y[None], found.theta + 0.01)
    assert found.converged.all()
    assert direct.converged.all()
    error = standard_error(score, design)
    assert (np.abs(found.theta - direct.theta) < 2e-6 * error).all()


@pytest.mark.parametrize("count", [300, 100_000])
@pytest.mark.parametrize("name", ["laplace", "cauchy"])
def test_a_direction_seen_by_three_rows_only(name, count):
    score, design, y, rng = problem(name, 2, count, 2)
    H = design.matrix.copy()
    H[:, 1] = 0.0
    H[[5, count // 2, count - 1], 1] = 1.0
    y = H @ np.array([2.0, -3.0]) + score.law.sample(count, rng)
    design = roots.Design(H)
    found = roots.solve(score, design, y[None])
    if not found.converged.all():  # refused, never a number
        assert np.isnan(found.theta).all()
        return
    theta = found.theta[0]
    slope = score.slope(y - H @ theta)
    newton = np.linalg.solve((H.T * slope) @ H, -gradient(score, H, y, theta))
    assert (np.abs(newton) < 2e-6 * standard_error(score, design)).all()


# --- no root --------------------------------------------------------------------------------------


def test_two_far_clusters_have_no_certain_root():
    """Half the readings at ±1e4 with Cauchy noise of scale 1: a minimum in one of the clusters."""
    score = SCORES["cauchy"]
    rng = np.random.default_rng(0)
    y = np.repeat([-1e4, 1e4], 100) + rng.standard_cauchy(200)
    found = roots.solve(score, roots.Design(np.ones((200, 1))), y[None])
    if found.converged.all():
        assert abs(abs(found.theta[0, 0]) - 1e4) < 10
    else:
        assert np.isnan(found.theta).all()


def test_where_the_curvature_vanishes_there_is_no_estimate():
    """Laplace score of a tiny λ, readings far apart: ψ' underflows at every residual."""
    score = optimal_score(pv.noise.Laplace(1.0), 1e-6)
    y = np.array([-500.0, -300.0, 300.0, 500.0] * 3)
    found = roots.solve(score, roots.Design(np.ones((12, 1))), y[None])
    assert not found.converged.any()
    assert np.isnan(found.theta).all()
    with pytest.raises(pv.errors.NumericalFailure, match="no proper root"):
        roots.require_converged(found)


def test_a_rank_deficient_design_is_named():
    with pytest.raises(pv.errors.NotIdentifiable, match="rank 1 of 2"):
        roots.Design(np.ones((10, 2)))


# --- far outliers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("df", "count", "n"), [(1.0, 400, 2), (0.5, 100, 3)])
def test_heavy_tails_never_strand_the_start(df, count, n):
    """Least squares starts thousands of widths off; steps must be as long as that."""
    law = pv.noise.StudentT(df)
    rng = np.random.default_rng(11)
    H = rng.standard_normal((count, n))
    y = law.sample((600, count), rng)
    y[0] += 1e9 * np.eye(count)[3]
    found = roots.solve(optimal_score(law, 0.05), roots.Design(H), y)
    assert found.converged.all()
    assert np.abs(found.theta).max() < 3.0


@pytest.mark.parametrize("law", [pv.noise.Logistic(1.0), pv.noise.Laplace(1.0)])
def test_one_wild_reading_moves_the_estimate_no_further_than_a_far_one(law):
    rng = np.random.default_rng(1)
    y = law.sample((1, 200), rng)
    design, score = roots.Design(np.ones((200, 1))), optimal_score(law, 0.01)
    plain = roots.solve(score, design, y).theta[0, 0]
    moved = []
    for size in (30.0, 1e4, 1e7):
        wild = y.copy()
        wild[0, 0] = size
        moved.append(roots.solve(score, design, wild).theta[0, 0])
    # One reading of 200 with |ψ| ≤ 1/b: at most about 2 standard errors/√200.
    assert abs(moved[0] - plain) < 3 * np.sqrt(score.sampling) / 200 * np.sqrt(4)
    np.testing.assert_allclose(moved, moved[0], atol=1e-5)


# --- finite supports ------------------------------------------------------------------------------


def test_likelihoods_of_finite_support_stay_inside_it():
    law = pv.noise.Bump(2.0)
    score, rng = likelihood_score(law), np.random.default_rng(11)
    design = roots.Design(rng.standard_normal((100, 2)))
    y = law.sample((200, 100), rng)
    found = roots.solve(score, design, y)
    assert found.converged.all()
    assert np.abs(y - found.theta @ design.matrix.T).max() < 1
    # Readings that no θ brings inside: no root, and no NaN in a matrix routine.
    assert not roots.solve(score, design, 30 * y).converged.any()


# --- flat minima ----------------------------------------------------------------------------------


def test_flat_minima_are_reached():
    """A staircase density: ψ* is nearly 0 between its steps, minima may be very flat."""
    law = pv.noise.Staircase(1.0)
    rng = np.random.default_rng(5)
    H = rng.standard_normal((500, 2))
    found = roots.solve(optimal_score(law, 2 / 500), roots.Design(H), law.sample((1500, 500), rng))
    # Without steps that trust a weak curvature 3 of these fail; one refusal in 1500 may remain.
    assert (~found.converged).sum() <= 1


@pytest.mark.parametrize("law", [pv.noise.Uniform(1.0), pv.noise.Staircase(1.0)])
def test_scores_that_underflow_are_refused_in_words(law):
    """λ = 1e-7 and 10 readings: ψ is 0 at all of them; no matrix routine may fail instead."""
    rng = np.random.default_rng(5)
    H = rng.standard_normal((10, 2))
    found = roots.solve(optimal_score(law, 1e-7), roots.Design(H), law.sample((50, 10), rng))
    assert (~found.converged).sum() > 25
    assert np.isnan(found.theta[~found.converged]).all()
    assert np.isfinite(found.theta[found.converged]).all()


# --- every iteration ends -------------------------------------------------------------------------


@pytest.mark.parametrize("part", [1.0, 0.999999, 2.0, -1.0, 0.0])
def test_a_wrong_step_length_fails_and_does_not_hang(monkeypatch, part):
    """Steps that are never shortened, grow, turn round or vanish: bounded looks at F."""
    looks = []
    evaluate = roots.evaluate

    def counted(*arguments):
        looks.append(1)
        return evaluate(*arguments)

    monkeypatch.setattr(roots, "evaluate", counted)
    monkeypatch.setattr(roots, "_shorter", lambda whole, fall: np.full(whole.shape, part))
    score, rng = SCORES["cauchy"], np.random.default_rng(0)
    design = roots.Design(rng.standard_normal((30, 2)))
    y = score.law.sample((50, 30), rng)
    found = roots.descend(score, design, y, np.full((50, 2), 30.0))
    assert len(looks) <= 1 + roots.LOOKS + roots.SHORTENINGS
    assert np.isnan(found.theta[~found.converged]).all()
    if part in (1.0, -1.0, 0.0):
        assert not found.converged.all()
        with pytest.raises(pv.errors.NumericalFailure, match="no proper root"):
            roots.require_converged(found)


def test_a_failed_step_is_shortened_to_the_minimum_of_its_parabola():
    """F along the step: −whole·t + curve·t²; at t = 1 it fell by `fall` = whole − curve."""
    whole = np.array([1.0, 1.0, 1.0, 1.0])
    curve = np.array([1.25, 4.0, 100.0, np.inf])
    expected = [0.4, 0.125, 0.1, 0.1]  # whole/2·curve, within a tenth and a half
    np.testing.assert_allclose(roots._shorter(whole, whole - curve), expected, rtol=1e-15)
    assert roots._shorter(np.ones(1), np.array([0.05]))[0] == 0.5
