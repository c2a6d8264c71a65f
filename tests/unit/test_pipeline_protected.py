"""Pipelines release for real: an estimate for every conceivable reading, exact noise on it."""

import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest import lattice
from privest.errors import InvalidInput, NotReleasable, SmallSampleWarning
from privest.mechanism import OutputPerturbation
from privest.mechanism.source import Protected, seeded
from privest.pipeline._noise import widening
from privest.pipeline._roots import Roots
from scores import likelihood_score, optimal_score

LAPLACE, LOGISTIC, CAUCHY = pv.noise.Laplace(1.0), pv.noise.Logistic(1.0), pv.noise.Cauchy(1.0)
GAUSS = pv.noise.Gaussian(1.0)
ALL = ("least_squares", "likelihood", "optimal", "one_step")
G = 2.0**-10


def matrix(count=60, n=2, seed=0):
    return np.random.default_rng(seed).standard_normal((count, n))


def made(score="optimal", law=LOGISTIC, count=60, n=2, **options):
    model, budget = pv.LinearModel(matrix(count, n), noise=law), options.pop("budget", 30.0)
    return OutputPerturbation(model, budget, score=score, **options)


@cache
def ready(score, law=LOGISTIC):
    """A release whose error is simulated already, with what is said of that."""
    release = made(score, law)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        assert release.loss > 0
    return release


def measurements(release, seed=1, trials=None):
    shape = release.model.measurements if trials is None else (trials, release.model.measurements)
    return release.law.sample(shape, np.random.default_rng(seed))


@pytest.mark.parametrize("score", ALL)
def test_what_is_said_of_a_release(score):
    release = ready(score)
    y = measurements(release)
    found, again = release.release(y), release.release(y)
    trial = release.simulate(y, np.random.default_rng(0))
    assert (found.simulated, trial.simulated) == (False, True)
    assert "SIMULATED" not in found.summary()
    assert (found.value != again.value).all()
    np.testing.assert_allclose(found.privacy, (1 + 0.75 * G**2) * trial.privacy, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, found.sampling + found.privacy, rtol=1e-15)
    assert np.trace(found.covariance) > np.trace(trial.covariance) == pytest.approx(release.loss)


def test_the_values_are_on_the_grid_in_units_of_the_noise():
    """F⁻¹z/g is a whole number up to the rounding of F(gn): 1e-16 of |n| ~ 1e4, and F⁻¹ undone."""
    release = made("least_squares")
    z = release.release(measurements(release)).value
    whole = np.linalg.solve(np.linalg.cholesky(release.information_scale), z) / G
    assert np.abs(whole - np.round(whole)).max() < 1e-7


@pytest.mark.parametrize("law", [pv.noise.Gaussian(4.0), pv.noise.Laplace(3.0)])
def test_the_noise_on_the_grid_is_wider_by_this(law):
    """Σk²p(k) by exact sums (Laplace) and to 1e-15 (Gaussian), and g²/4 for the rounding."""
    if isinstance(law, pv.noise.Laplace):
        q = lattice.LAPLACE.ratio
        exact = 2 * q / (1 - q) ** 2  # Σ k² (1−q)/(1+q) q^|k|
        few = sum(k * k * float(q) ** k for k in range(1, 60_000)) * 2 * float((1 - q) / (1 + q))
        assert few == pytest.approx(float(exact), rel=1e-9)
        limit = 2.0
    else:
        k = np.arange(-45_000.0, 45_001.0)
        p = np.exp(-(k**2) / (2 * float(lattice.GAUSSIAN.variance)))
        exact, limit = Fraction(float((k**2 * p).sum() / p.sum())), 1.0
    expected = float(exact + Fraction(1, 4)) * G**2 / limit
    assert widening(law, G) == pytest.approx(expected, rel=1e-12)
    assert 1 < widening(law, G) < 1 + G**2


@pytest.mark.parametrize("noise", [None, pv.noise.Laplace(1.0)])
def test_error_and_bound_by_monte_carlo(noise):
    """Least squares on Gaussian readings: the covariance as stated, at false alarm 1e-6; and for
    Gaussian noise that is the bound. The test sees 20 % too much."""
    trials, theta = 4000, np.array([0.4, -1.0])
    release = made("least_squares", GAUSS, noise=noise)
    y = release.model.matrix @ theta + measurements(release, trials=trials)
    found = release.release(y)
    assert found.value.shape == (trials, 2)
    white = np.linalg.solve(np.linalg.cholesky(found.covariance), (found.value - theta).T)
    assert trials * (white.mean(axis=1) ** 2).sum() < scipy.stats.chi2.isf(1e-6, 2)
    share = (white**2).mean()
    # The variance of a white error squared: 2, and for Laplace noise at most 6 − 1.
    allowed = 5 * np.sqrt((2 if noise is None else 5) / (2 * trials))
    assert abs(share - 1) < allowed < 0.2
    if noise is None:
        assert np.trace(found.covariance) == pytest.approx(release.private_bound, rel=1e-6)


def test_other_scores_have_the_error_of_the_simulation():
    """5 standard errors of the mean square of 1500 data sets, heavy tails included."""
    for score, law in (("optimal", LAPLACE), ("one_step", CAUCHY)):
        release = made(score, law, count=400, budget=400.0)
        found = release.release(measurements(release, trials=1500))
        error = (found.value**2).sum(axis=1)
        assert abs(error.mean() - np.trace(found.covariance)) < 5 * error.std() / np.sqrt(
            len(error)
        )


# --- no reading is refused ------------------------------------------------------------------------

WILD = {
    "one infinite": lambda y: np.where(np.arange(len(y)) == 3, np.inf, y),
    "all infinite": lambda y: np.where(np.arange(len(y)) % 2, np.inf, -np.inf),
    "huge": lambda y: 1e308 * np.sign(y),
    "large": lambda y: 1e9 * y,
    "all alike": np.zeros_like,
    "two heaps": lambda y: np.where(np.arange(len(y)) % 2, 1e6, -1e6) + y,
    "tiny": lambda y: 5e-324 * np.sign(y),
    "another law": lambda y: np.tan(7e3 * y),
}


@pytest.mark.parametrize("kind", WILD)
@pytest.mark.parametrize("score", ALL)
def test_no_reading_is_refused(score, kind):
    release = ready(score)
    y = WILD[kind](measurements(release))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = release.release(y)
    assert np.isfinite(found.value).all()
    usual = release.release(measurements(release))
    for name in ("covariance", "sampling", "method"):  # what is said beside the numbers
        assert np.array_equal(getattr(found, name), getattr(usual, name))


@pytest.mark.parametrize("law", [CAUCHY, pv.noise.StudentT(3.0), pv.noise.CosSquared(1.0), LAPLACE])
@pytest.mark.parametrize("kind", WILD)
def test_no_reading_is_refused_whatever_the_law(law, kind):
    release = ready("one_step", law)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(release.release(WILD[kind](measurements(release))).value).all()


@pytest.mark.parametrize("value", [np.inf, -1e308, 1e12])
@pytest.mark.parametrize(
    ("score", "law"),
    [("optimal", LAPLACE), ("optimal", pv.noise.Logistic(1.0)), ("one_step", CAUCHY)],
)
def test_one_reading_beyond_all_bounds_does_no_harm_to_a_bounded_score(score, law, value):
    """It is clipped to where the solver still finds back. Seven standard errors, and θ far from 0;
    that of one reading in 60 is below one of them."""
    release, theta = ready(score, law), np.array([500.0, -800.0])
    y = release.model.matrix @ theta + measurements(release)
    y[3] = value
    found = release.release(y)
    assert (np.abs(found.value - theta) < 7 * found.standard_error).all()


def test_where_the_solver_ends_is_released(monkeypatch):
    """Not least squares, and not nothing. Seven deviations of the noise."""
    release = ready("optimal")
    there, deviation = np.array([3.0, -2.0]), np.sqrt(np.diagonal(release.privacy))
    lost = Roots(np.full((1, 2), np.nan), np.zeros(1, bool), 100, there[None])
    monkeypatch.setattr(OutputPerturbation, "solve", lambda self, y: lost)
    assert (np.abs(release.release(measurements(release)).value - there) < 7 * deviation).all()


def test_readings_between_two_roots_are_released_by_fixed_steps():
    """Two groups of measurements: the likelihood's root would jump between them."""
    model = pv.LinearModel(np.ones((10, 1)), noise=CAUCHY)
    y = np.array([0.0, 0.3, -0.4, 1.2, -0.33, 6.0, 6.3, 5.6, 7.1, 5.2])
    with pytest.raises(pv.errors.NotReleasable):
        OutputPerturbation(model, 10.0, score="likelihood").release(y)
    with pytest.warns(SmallSampleWarning):
        found = OutputPerturbation(model, 10.0, score="one_step").release(y)
    assert np.isfinite(found.value).all()


def test_a_solver_that_fails_is_no_reason_to_stop(monkeypatch):
    release = made("least_squares")
    y = measurements(release)

    def fails(self, rows):
        raise np.linalg.LinAlgError

    exact = release.estimate(y)
    monkeypatch.setattr(OutputPerturbation, "solve", fails)
    found = release.release(y)
    deviation = np.sqrt(np.diagonal(release.privacy))
    assert (np.abs(found.value - exact) < 7 * deviation).all()


def test_missing_readings_leave_the_smaller_model():
    for score in ALL:
        release = ready(score)
        y = measurements(release)
        y[[4, 9, 33]] = np.nan
        rows = np.delete(release.model.matrix, [4, 9, 33], axis=0)
        smaller = OutputPerturbation(pv.LinearModel(rows, noise=LOGISTIC), 30.0, score=score)
        found = release.release(y)
        np.testing.assert_array_equal(found.covariance, smaller.release(y[~np.isnan(y)]).covariance)
        np.testing.assert_array_equal(found.classical, smaller.classical)
    masked = made("least_squares").release(np.ma.masked_array(np.zeros(60), np.arange(60) == 2))
    assert masked.covariance.shape == (2, 2)
    options = {"noise": LAPLACE, "weight": np.diag([1.0, 4.0])}
    release = made("least_squares", **options)
    y = measurements(release)
    y[5] = np.nan
    rows = np.delete(release.model.matrix, 5, axis=0)
    smaller = OutputPerturbation(
        pv.LinearModel(rows, noise=LOGISTIC), 30.0, score="least_squares", **options
    )
    there = smaller.release(y[~np.isnan(y)])
    np.testing.assert_array_equal(release.release(y).covariance, there.covariance)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(60, np.nan), "empty"),
        (np.where(np.arange(60) < 7, 1.0, np.nan), "too few"),
        (np.full((3, 60), np.nan), "one data set at a time"),
        (np.zeros(59), r"60 measurements; received shape \(59,\)"),
        (np.zeros((2, 2, 60)), "60 measurements"),
        (["12.345"] * 60, "real numbers"),
    ],
)
def test_public_facts_are_refused(y, message):
    with pytest.raises(InvalidInput, match=message):
        made("least_squares").release(y)


# --- what cannot be released at all, whatever the readings ----------------------------------------

BIMODAL = pv.noise.GaussianMixture([0.5, 0.5], [-3.0, 3.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("score", "law"),
    [
        ("likelihood", CAUCHY),
        ("optimal", CAUCHY),
        ("likelihood", pv.noise.StudentT(3.0)),
        ("likelihood", BIMODAL),
        ("likelihood", pv.noise.Bump(2.0)),
    ],
)
def test_estimates_that_jump_are_not_released(score, law):
    release = made(score, law)
    with pytest.raises(NotReleasable, match="one_step"):
        release.release(np.full(60, np.nan))
    release.estimate(measurements(release))


@pytest.mark.parametrize(
    ("score", "one"),
    [
        (likelihood_score(GAUSS), True),
        (likelihood_score(LOGISTIC), True),
        (optimal_score(LOGISTIC, 1.0), True),
        (optimal_score(LAPLACE, 0.1), True),
        (likelihood_score(LAPLACE, 0.3), True),
        (likelihood_score(CAUCHY), False),
        (likelihood_score(pv.noise.StudentT(30.0)), False),
        (likelihood_score(BIMODAL), False),
    ],
    ids=list("abcdefgh"),
)
def test_which_scores_have_one_root(score, one):
    """Log-concave laws have; any polynomial tail has not."""
    assert score.one_root is one


def test_laws_of_noise_without_an_exact_sampler():
    release = made("least_squares", noise=LOGISTIC)
    with pytest.raises(NotReleasable, match="Gaussian and Laplace"):
        release.release(np.zeros(60))
    release.simulate(measurements(release), np.random.default_rng(0))


# --- the door -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, np.random.default_rng(0), seeded(1)])
def test_no_seed(seed):
    with pytest.raises(InvalidInput, match="simulat"):
        made("least_squares").release(np.zeros(60), seed)
    with pytest.raises(InvalidInput, match="real releases"):
        made("least_squares").simulate(np.zeros(60), Protected())


def test_the_noise_is_drawn_before_the_readings_are_used(monkeypatch):
    release, order = made("least_squares"), []
    draw, solve = lattice.gaussian_integers, OutputPerturbation.solve
    monkeypatch.setattr(
        lattice, "gaussian_integers", lambda count: order.append("noise") or draw(count)
    )
    monkeypatch.setattr(
        OutputPerturbation, "solve", lambda self, y: order.append("readings") or solve(self, y)
    )
    release.release(measurements(release))
    assert order == ["noise", "readings"]


def test_laplace_noise_comes_from_its_table(monkeypatch):
    asked = []
    draw = lattice.laplace_integers
    monkeypatch.setattr(
        lattice, "laplace_integers", lambda count: asked.append(count) or draw(count)
    )
    made("least_squares", noise=LAPLACE).release(np.zeros(60))
    assert asked == [2]
