"""Scores that fall again: second roots, ties that are refused, and an estimate without jumps."""

import numpy as np
import pytest
import scipy.optimize

import privest as pv
from privest.mechanism import OutputPerturbation
from privest.pipeline._roots import nearest_tie

pytestmark = pytest.mark.filterwarnings("ignore::privest.errors.SmallSampleWarning")  # tested below

CAUCHY = pv.noise.Cauchy(1.0)
T3 = pv.noise.StudentT(3.0)
SKEWED = pv.noise.GaussianMixture([0.8, 0.2], means=[-0.5, 2.0], sds=[0.5, 1.2])


def two_clusters(v):
    """The readings of the review: θ̂ jumps as v passes one place near −1/3."""
    return np.array([0.0, 0.3, -0.4, 1.2, v, 6.0, 6.3, 5.6, 7.1, 5.2])


def made(score, law=CAUCHY, H=None, budget=10.0, **options):
    H = np.ones((10, 1)) if H is None else H
    return OutputPerturbation(pv.LinearModel(H, noise=law), budget, score=score, **options)


def bare(release, y):
    return release.solve(y[None]).theta[0]


def jumps_at(release):
    """The v at which the lowest root changes, by bisection."""
    low, high = -0.5, 0.0
    assert bare(release, two_clusters(low))[0] > 5 > 1 > bare(release, two_clusters(high))[0]
    for _ in range(60):
        middle = (low + high) / 2
        if bare(release, two_clusters(middle))[0] > 3:
            low = middle
        else:
            high = middle
    return low, high


@pytest.mark.parametrize("score", ["likelihood", "optimal"])
def test_a_tie_is_found_told_and_refused(score):
    release = made(score)
    before, after = jumps_at(release)
    for v in (before, after, before - 0.1, after + 0.1):
        y = two_clusters(v)
        report = release.for_data_owner(y)
        assert report.too_near
        assert abs(report.second[0] - report.estimate[0]) > 4
        # What the readings must move to a tie: v alone by |v − before|, so all together by less.
        assert report.to_tie <= abs(v - before) / np.ptp(CAUCHY.quantile([0.25, 0.75])) * 1.36
        spread = np.sqrt(release.information_scale[0, 0])
        assert report.jump == pytest.approx(
            abs(report.second[0] - report.estimate[0]) / spread, rel=0.02
        )
        for call in (release.estimate, lambda y: release.simulate(y, np.random.default_rng(0))):
            with pytest.raises(pv.errors.BudgetExceeded, match="one_step") as caught:
                call(y)
            assert not any(character.isdigit() for character in str(caught.value))
        assert repr(report) == "OwnerReport(private: read its fields, do not release them)"


def test_readings_of_one_cluster_are_not_refused():
    release = made("likelihood")
    y = np.array([0.0, 0.3, -0.4, 1.2, -0.33, 0.5, 0.9, -0.6, 0.1, 0.2])
    report = release.for_data_owner(y)
    assert (report.second, report.to_tie, report.jump) == (None, np.inf, 0.0)
    assert not report.too_near
    assert release.estimate(y).shape == (1,)
    # A reading far off has a root of its own, and far too little weight for a tie.
    y[0] = 300.0
    assert not release.for_data_owner(y).too_near


def test_the_tie_that_is_reached_is_one():
    """At the end of the move the two roots are equally low, by a search of their own."""
    release = made("likelihood")
    y = two_clusters(0.5)
    theta = bare(release, y)
    begin = np.linspace(-1, 8, 19)[:, None]
    tie = nearest_tie(release.score, release.design, y, theta, begin)

    def height(y, x):
        return float(np.log1p((y - x) ** 2).sum())

    def gap(y):
        ends = [
            scipy.optimize.minimize_scalar(lambda x: height(y, x), bounds=b, method="bounded")
            for b in ((-1, 3), (3.5, 8))
        ]
        return ends[1].fun - ends[0].fun

    # The way is straight to first order: along the difference of the two scores.
    slope = release.score(y - tie.second) - release.score(y - theta)
    sign = np.sign(gap(y))
    direction = slope / np.linalg.norm(slope)
    assert sign * gap(y - 0.9 * tie.move * direction) > 0
    assert sign * gap(y - 1.1 * tie.move * direction) < 0


def test_refusals_are_rare_where_the_law_is_right():
    """Cauchy, 20 readings: a fifth has a second root, far off; fewer than 1 % are refused."""
    release = made("optimal", H=np.ones((20, 1)), budget=20.0)
    rng = np.random.default_rng(3)
    reports = [release.for_data_owner(CAUCHY.sample(20, rng)) for _ in range(100)]
    assert sum(report.second is not None for report in reports) > 5
    assert sum(report.too_near for report in reports) <= 4  # at a rate of 1 %: P(more) = 4e-3


@pytest.mark.parametrize("law", [pv.noise.Laplace(1.0), pv.noise.Logistic(1.0)])
def test_scores_that_never_fall_have_no_ties(law):
    release = made("optimal", law)
    report = release.for_data_owner(law.sample(10, np.random.default_rng(0)))
    assert report.second is None
    assert not report.too_near


# --- the estimate without jumps -------------------------------------------------------------------


def test_one_step_passes_the_tie_smoothly():
    """Across the place where the root jumps by 5: the slope is that of the Jacobian, everywhere."""
    release = made("one_step")
    v = np.linspace(-0.5, 0.0, 501)
    rows = np.array([two_clusters(x) for x in v])
    theta = release.estimate(rows)[:, 0]
    slopes = release.jacobian(rows, theta[:, None])[:, 0, 4]
    step = v[1] - v[0]
    middle = (slopes[:-1] + slopes[1:]) / 2
    np.testing.assert_allclose(np.diff(theta) / step, middle, atol=1e-4 * np.abs(slopes).max())
    assert np.abs(np.diff(theta)).max() < 0.01
    report = release.for_data_owner(two_clusters(-0.33))
    assert not report.too_near
    assert release.simulate(two_clusters(-0.33), np.random.default_rng(0)).value.shape == (1,)


def problem(law, count, n, seed):
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(count), rng.standard_normal((count, n - 1))])
    return H, law.sample(count, rng)


@pytest.mark.parametrize("options", [{}, {"shape": "paper"}])
@pytest.mark.parametrize(("law", "count", "n"), [(CAUCHY, 10, 1), (T3, 24, 3), (SKEWED, 20, 2)])
def test_sensitivity_of_one_step_by_differences(law, count, n, options):
    """∂θ̂/∂Y against central differences of the estimate; and the report made of it."""
    H, y = problem(law, count, n, 5)
    release = made("one_step", law, H, float(count), **options)
    report = release.for_data_owner(y)
    step = 1e-5
    moves = step * np.eye(count)
    ends = release.solve(np.concatenate([y + moves, y - moves])).theta
    differences = (ends[:count] - ends[count:]).T / (2 * step)
    J = release.jacobian(y[None], report.estimate[None])[0]
    np.testing.assert_allclose(J, differences, atol=1e-5 * np.abs(J).max())
    D = release.information_scale
    shown = np.einsum("ik,ij,jk->k", J, np.linalg.inv(D), J)
    assert report.realised == pytest.approx(shown.sum(), rel=1e-9)
    assert report.worst == pytest.approx(shown.max(), rel=1e-9)


def test_simulated_ratios_of_one_step_agree_with_the_reports():
    H, _ = problem(CAUCHY, 30, 2, 1)
    release = made("one_step", CAUCHY, H, 30.0)
    ratios = release.ratios(np.random.default_rng(5), data_sets=4)
    y = CAUCHY.sample((4, 30), np.random.default_rng(5))
    own = [release.for_data_owner(H @ [3.0, -7.0] + row).ratio for row in y]
    np.testing.assert_allclose(ratios, own, rtol=1e-6)


# --- few readings ---------------------------------------------------------------------------------


def leverage_problem():
    rng = np.random.default_rng(0)
    H = np.column_stack([np.ones(60), rng.standard_normal(60)])
    H[0, 1] = 22.0
    return H


@pytest.mark.parametrize(
    ("score", "law", "H"),
    [
        ("optimal", CAUCHY, np.ones((10, 1))),
        ("likelihood", CAUCHY, np.ones((10, 1))),
        ("one_step", CAUCHY, np.ones((10, 1))),
        ("optimal", pv.noise.Laplace(1.0), leverage_problem()),
    ],
)
def test_the_loss_of_few_readings_is_the_measured_one(score, law, H):
    """Against plain averages over other data sets: four standard errors of both."""
    release = made(score, law, H, float(len(H)))
    with pytest.warns(pv.errors.SmallSampleWarning, match="times that of many measurements"):
        loss = release.loss
    assert release.finite.factor > 1.1
    assert release.finite.loss == loss
    theta = release.solve(law.sample((8000, len(H)), np.random.default_rng(9))).theta
    squares = np.einsum("ti,ij,tj->t", theta, release.shape.loss, theta)
    plain = squares.mean() + np.sum(release.shape.loss * release.privacy)
    error = np.hypot(squares.std() / np.sqrt(8000), release.finite.standard_error)
    assert abs(plain - loss) < 4 * error
    assert plain > 1.1 * release.limit_loss
    # The released errors are these, and the text says so.
    y = law.sample(len(H), np.random.default_rng(1))
    found = release.simulate(y, np.random.default_rng(0))
    np.testing.assert_array_equal(found.covariance, release.finite.sampling + release.privacy)
    again = made(score, law, H, float(len(H)))
    with pytest.warns(pv.errors.SmallSampleWarning):
        assert again.loss == loss


def test_many_readings_and_straight_scores_need_no_simulation():
    many = made("optimal", T3, np.ones((100, 1)))
    assert many.finite is None
    assert many.loss == many.limit_loss
    gaussian = made("optimal", pv.noise.Gaussian(1.0))
    assert gaussian.finite is None
