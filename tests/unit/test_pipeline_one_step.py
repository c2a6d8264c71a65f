"""One step: an estimate without jumps where scores fall again; few measurements."""

import numpy as np
import pytest

import privest as pv
from privest.mechanism import OutputPerturbation

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
