"""Releases: what is reported, what is refused, and that nothing private is said."""

import json
import math
import warnings

import numpy as np
import pytest

import privest as pv
from privest.mechanism import OutputPerturbation

LAPLACE, LOGISTIC = pv.noise.Laplace(1.0), pv.noise.Logistic(1.0)
ALL = ("least_squares", "likelihood", "optimal")
# A reading nobody would write by chance: its digits must not turn up in any text.
SECRET = 123.456789


def matrix(count=60, n=2, seed=0):
    return np.random.default_rng(seed).standard_normal((count, n))


def made(score="optimal", law=LOGISTIC, count=60, n=2, **options):
    model, budget = pv.LinearModel(matrix(count, n), noise=law), options.pop("budget", 30.0)
    return OutputPerturbation(model, budget, score=score, **options)


def measurements(release, seed=1, trials=None):
    shape = release.model.measurements if trials is None else (trials, release.model.measurements)
    return release.law.sample(shape, np.random.default_rng(seed))


# --- what is reported -----------------------------------------------------------------------------


@pytest.mark.parametrize("score", ALL)
def test_the_result_adds_up(score):
    release = made(score)
    found = release.simulate(measurements(release), np.random.default_rng(0))
    assert found.value.shape == (2,)
    np.testing.assert_allclose(found.covariance, found.sampling + found.privacy, rtol=1e-15)
    np.testing.assert_array_equal(found.covariance, release.sampling + release.privacy)
    assert release.loss == pytest.approx(np.trace(found.covariance), rel=1e-12)
    assert release.private_bound <= release.loss * (1 + 1e-12)
    np.testing.assert_allclose(found.standard_error**2, np.diagonal(found.covariance))
    A = np.linalg.inv(release.model.matrix.T @ release.model.matrix)
    np.testing.assert_allclose(found.classical, 3 * A, rtol=1e-9)
    # For every W the sampling part is not below the classical bound.
    assert np.linalg.eigvalsh(found.sampling - found.classical).min() > -1e-12
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["method"] == release.method
    assert plain["value"] == found.value.tolist()
    assert release.method in found.summary()


def test_many_trials_are_many_rows():
    release = made()
    y = measurements(release, trials=7)
    assert release.estimate(y).shape == (7, 2)
    found = release.simulate(y, np.random.default_rng(0))
    assert found.value.shape == (7, 2)
    assert found.interval().shape == (7, 2, 2)
    np.testing.assert_allclose(release.estimate(y[3]), release.estimate(y)[3], atol=1e-9)


def test_simulations_repeat_with_their_generator_and_only_then():
    release = made()
    y = measurements(release)
    one, same, other = (
        release.simulate(y, np.random.default_rng(seed)).value for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


def test_averaging_with_gaussian_and_with_laplace_noise():
    """H = 1, s = K: D = 1/s for Gaussian noise, twice that for Laplace, and the mean of y."""
    model = pv.LinearModel(np.ones((50, 1)), noise=LAPLACE)
    y = LAPLACE.sample(50, np.random.default_rng(0))
    gaussian = OutputPerturbation(model, 50.0, score="least_squares")
    laplace = OutputPerturbation(model, 50.0, noise=pv.noise.Laplace(9.0), score="least_squares")
    assert gaussian.privacy[0, 0] == pytest.approx(1 / 50 / 50, rel=1e-12)
    assert laplace.privacy[0, 0] == pytest.approx(2 / 50 / 50, rel=1e-12)
    assert gaussian.estimate(y)[0] == pytest.approx(y.mean(), rel=1e-12)
    shifted = pv.LinearModel(np.ones((50, 1)), noise=LAPLACE.shifted(4.0))
    assert OutputPerturbation(shifted, 50.0, score="least_squares").estimate(y + 4.0)[
        0
    ] == pytest.approx(y.mean())
    # Another law of the same kind but another scale is the same release.
    other = OutputPerturbation(model, 50.0, noise=LAPLACE, score="least_squares")
    np.testing.assert_allclose(other.privacy, laplace.privacy, rtol=1e-12)


@pytest.mark.parametrize("score", ALL)
def test_gaussian_readings_make_all_releases_alike(score):
    law = pv.noise.Gaussian(cov=2.0, mean=1.5)
    release = made(score, law)
    y = measurements(release)
    H = release.model.matrix
    np.testing.assert_allclose(
        release.estimate(y), np.linalg.lstsq(H, y - 1.5, rcond=None)[0], atol=1e-12
    )
    assert release.loss == pytest.approx(release.private_bound, rel=1e-12)
    assert release.for_data_owner(y).ratio == pytest.approx(1.0, rel=1e-9)


def test_gaussian_joint_noise_of_one_variance_is_accepted():
    model = pv.LinearModel(matrix(), noise=pv.noise.Gaussian(cov=2.0))
    assert OutputPerturbation(model, 3.0).loss > 0


def test_columns_of_very_different_size():
    """Scales 1e±8: the noise is drawn, the budget kept, and nothing is NaN."""
    for scales in ([1e-8, 1e8], [1e8, 1e-8]):
        for shape in ("trace", "paper"):
            H = matrix() * scales
            model = pv.LinearModel(H, noise=LOGISTIC)
            release = OutputPerturbation(model, 30.0, shape=shape, score="least_squares")
            y = H @ [1.0, 1.0] + LOGISTIC.sample(60, np.random.default_rng(0))
            found = release.simulate(y, np.random.default_rng(0))
            assert np.isfinite(found.value).all()
            assert release.for_data_owner(y).ratio == pytest.approx(1.0, rel=1e-6)
            white = np.linalg.inv(np.linalg.cholesky(release.privacy))
            many = release.simulate(np.tile(y, (4000, 1)), np.random.default_rng(1)).value
            spread = np.cov((many - release.estimate(y)) @ white.T, rowvar=False)
            np.testing.assert_allclose(spread, np.eye(2), atol=4.5 * np.sqrt(2 / 4000))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.2, 5.0])
@pytest.mark.parametrize("law", [LAPLACE, LOGISTIC, pv.noise.Cauchy(1.0), pv.noise.Uniform(1.0)])
@pytest.mark.parametrize("score", ALL)
def test_a_law_of_the_wrong_scale_is_refused(score, law, scale):
    if score == "likelihood" and law in (LAPLACE, pv.noise.Uniform(1.0)):
        return
    if score == "least_squares" and isinstance(law, pv.noise.Cauchy):
        return
    release = made(score, law, count=1000)
    y = scale * measurements(release)
    with pytest.raises((pv.errors.InvalidInput, pv.errors.NumericalFailure)):
        release.estimate(y)
    with pytest.raises((pv.errors.InvalidInput, pv.errors.NumericalFailure)):
        release.simulate(np.stack([measurements(release), y]), np.random.default_rng(0))


@pytest.mark.parametrize("scale", [1e-4, 1e3])
@pytest.mark.parametrize("count", [10, 20, 60])
@pytest.mark.parametrize("law", [LAPLACE, LOGISTIC])
def test_a_law_wrong_by_orders_of_magnitude_is_refused_with_few_readings(law, count, scale):
    release = made(law=law, count=count)
    with pytest.raises((pv.errors.InvalidInput, pv.errors.NumericalFailure)):
        release.estimate(scale * measurements(release))


@pytest.mark.parametrize("score", ALL)
@pytest.mark.parametrize("count", [10, 50])
def test_the_right_law_is_not_refused(score, count):
    """The fit test is six standard deviations wide: none of 500 data sets trips it."""
    release = made(score, count=count)
    assert release.estimate(measurements(release, trials=500)).shape == (500, 2)


@pytest.mark.parametrize("budget", [1.0, 1e6])
def test_exact_fits_of_few_readings_are_no_misfit(budget):
    """λ → 0: the Laplace estimate passes through n = 2 of 12 readings, like a median."""
    release = made(law=LAPLACE, count=12, budget=budget)
    assert release.estimate(measurements(release, trials=300)).shape == (300, 2)


@pytest.mark.parametrize("score", ALL)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_readings_are_numbers(score, bad):
    release = made(score)
    y = measurements(release)
    y[3], y[4] = bad, SECRET
    with pytest.raises(pv.errors.InvalidInput) as caught:
        release.estimate(y)
    assert "123" not in str(caught.value)


@pytest.mark.parametrize("shape", [(59,), (61,), (2, 59), (2, 2, 60), ()])
def test_readings_have_the_size_of_the_model(shape):
    release = made()
    with pytest.raises(pv.errors.InvalidInput):
        release.estimate(np.full(shape, SECRET))


def test_one_vector_for_the_data_holder():
    release = made()
    rows = measurements(release, trials=2)
    with pytest.raises(pv.errors.InvalidInput, match="one data set"):
        release.for_data_owner(rows)


def test_too_little_data():
    with pytest.raises(pv.errors.InvalidInput, match="9 measurements are too few for 2"):
        made(count=9)
    made(count=10)


def test_hidden_directions():
    model = pv.LinearModel(np.ones((40, 2)), noise=LOGISTIC)
    with pytest.raises(pv.errors.NotIdentifiable) as caught:
        OutputPerturbation(model, 3.0)
    np.testing.assert_allclose(np.abs(caught.value.hidden_directions), np.full((2, 1), 0.5**0.5))


@pytest.mark.parametrize(
    "noise",
    [
        pv.noise.Gaussian(cov=np.diag(np.arange(1.0, 61.0))),
        pv.noise.Gaussian(cov=np.eye(60) + 0.5),
        [LOGISTIC] * 30 + [LAPLACE] * 30,
        [c * LOGISTIC for c in np.arange(1.0, 61.0)],
    ],
)
def test_dependent_or_unequal_noise_is_refused(noise):
    with pytest.raises(pv.errors.InvalidInput, match="independent noise of one distribution"):
        OutputPerturbation(pv.LinearModel(matrix(), noise=noise), 3.0)


def test_a_linear_model_is_needed():
    with pytest.raises(pv.errors.InvalidInput, match="ndarray"):
        OutputPerturbation(matrix(), 3.0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"budget": 0.0}, "budget"),
        ({"budget": -1.0}, "budget"),
        ({"budget": math.nan}, "budget"),
        ({"shape": "round"}, "one of trace, paper"),
        ({"shape": "paper", "weight": np.eye(2)}, "no weight"),
        ({"weight": np.zeros((2, 2))}, "zero"),
        ({"weight": -np.eye(2)}, "weight"),
        ({"weight": np.eye(3)}, "weight"),
    ],
)
def test_options(options, match):
    with pytest.raises(pv.errors.PrivestError, match=match):
        made(**options)


def test_options_of_one_release():
    for options in ({"bandwidth": 0.5}, {"noise": LAPLACE}):
        with pytest.raises(pv.errors.InvalidInput, match="bandwidth goes with"):
            made("optimal", **options)
    with pytest.raises(pv.errors.InvalidInput, match="one of optimal, likelihood"):
        made("median")
    with pytest.raises(pv.errors.InvalidInput, match="'best'"):
        made("likelihood", bandwidth="worst")
    with pytest.raises(pv.errors.InvalidInput, match="bandwidth"):
        made("likelihood", bandwidth=-1.0)
    with pytest.raises(pv.errors.InvalidInput, match="bandwidth"):
        made("likelihood", LAPLACE)  # no finite sensitivity: says what to do
    assert made("likelihood").bandwidth is None
    assert made("likelihood", LAPLACE, bandwidth=0.5).bandwidth == 0.5
    for noise, match in (
        (pv.noise.Uniform(1.0), "infinite information"),
        (LAPLACE.shifted(2.0), "mean 0"),
        (pv.noise.Cauchy(1.0), "finite variance"),
    ):
        with pytest.raises(pv.errors.InvalidInput, match=match):
            made("least_squares", noise=noise)
    for law in (pv.noise.Cauchy(1.0), pv.noise.StudentT(2.0), pv.noise.StudentT(1.5)):
        with pytest.raises(pv.errors.InvalidInput, match=r"no finite variance.*'optimal'"):
            made("least_squares", law)


def test_a_generator_is_needed():
    release = made()
    with pytest.raises(pv.errors.InvalidInput, match="Generator"):
        release.simulate(measurements(release), 3)


# --- nothing private is said ----------------------------------------------------------------------


def test_reports_and_errors_say_nothing_about_the_readings():
    release = made(law=LAPLACE)
    y = measurements(release)
    y[0] = SECRET
    report = release.for_data_owner(y)
    for text in (repr(report), str(report), f"{report}", repr(release)):
        for number in (report.realised, report.ratio, *report.estimate, SECRET):
            assert f"{number:.3g}" not in text
        assert "array" not in text
    # Clusters at ±SECRET for a Laplace of scale 1: no proper root, or not this law.
    far = SECRET * np.sign(y)
    with pytest.raises((pv.errors.NumericalFailure, pv.errors.InvalidInput)) as caught:
        release.estimate(far)
    assert not any(c in str(caught.value) for c in ("123", "0.", "1.", "-1"))
    assert caught.value.__cause__ is None


def test_importing_and_releasing_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for law in (LAPLACE, pv.noise.Bump(2.0), pv.noise.CosSquared(1.0), pv.noise.Staircase(1.0)):
            release = made(law=law, count=400)
            release.simulate(measurements(release), np.random.default_rng(0))


# --- shapes ---------------------------------------------------------------------------------------


def test_a_singular_weight_releases_only_what_is_asked_for():
    """W = aaᵀ: one number aᵀθ, with the noise of a scalar release."""
    a = np.array([0.6, -0.8])
    release = made(weight=np.outer(a, a))
    A = np.linalg.inv(release.model.matrix.T @ release.model.matrix)
    assert release.shape.targets.shape == (1, 2)
    assert release.privacy[0, 0] == pytest.approx(
        release.score.sensitivity * (a @ A @ a) / 30, rel=1e-9
    )
    y = measurements(release)
    found = release.simulate(y, np.random.default_rng(0))
    assert found.value.shape == (1,)
    assert abs(found.value[0]) < 6 * found.standard_error[0]
    assert release.loss == pytest.approx(found.covariance[0, 0], rel=1e-12)
    sign = np.sign(release.shape.targets[0] @ a)
    np.testing.assert_allclose(release.shape.targets[0], sign * a, atol=1e-12)


def test_a_weight_scales_the_loss_and_not_the_noise():
    one, ten = made(weight=np.eye(2)), made(weight=10 * np.eye(2))
    np.testing.assert_allclose(ten.privacy, one.privacy, rtol=1e-9)
    assert ten.loss == pytest.approx(10 * one.loss, rel=1e-9)
    np.testing.assert_allclose(made().privacy, one.privacy, rtol=1e-9)


def test_the_weighted_shape_is_the_best_one():
    """No other D with tr D⁻¹A = s has a smaller tr WD: random D scaled to the budget."""
    rng = np.random.default_rng(0)
    H, W = matrix(60, 3), np.diag([1.0, 5.0, 0.1])
    model = pv.LinearModel(H, noise=LOGISTIC)
    shape = OutputPerturbation(model, 4.0, weight=W).shape
    A = np.linalg.inv(H.T @ H)
    assert np.trace(np.linalg.solve(shape.unit, A)) == pytest.approx(4.0, rel=1e-9)
    least = np.trace(W @ shape.unit)
    for size in (0.01, 0.1, 1.0):
        for _ in range(50):
            F = np.linalg.cholesky(shape.unit) @ (np.eye(3) + size * rng.standard_normal((3, 3)))
            D = F @ F.T
            D *= np.trace(np.linalg.solve(D, A)) / 4.0
            assert np.trace(W @ D) > least * (1 - 1e-12)


def test_a_row_that_stands_alone_is_refused():
    """One row sees the second parameter: for it there are not many readings."""
    H = np.column_stack([np.ones(50), np.zeros(50)])
    H[17, 1] = 1.0
    model = pv.LinearModel(H, noise=pv.noise.Laplace(1.0))
    with pytest.raises(pv.errors.InvalidInput, match=r"row 17 of H .*leverage 1\.00"):
        OutputPerturbation(model, budget=10.0)


def test_simulated_ratios_agree_with_the_reports():
    """The ratio of each simulated data set is what `for_data_owner` says of it."""
    H = np.column_stack([np.ones(60), np.linspace(-1, 1, 60)])
    release = OutputPerturbation(pv.LinearModel(H, noise=pv.noise.Laplace(1.0)), budget=60.0)
    ratios = release.ratios(np.random.default_rng(5), data_sets=4)
    y = release.law.sample((4, 60), np.random.default_rng(5))
    own = [release.for_data_owner(H @ [3.0, -7.0] + row).ratio for row in y]
    np.testing.assert_allclose(ratios, own, rtol=1e-6)
    with pytest.raises(pv.errors.InvalidInput, match="≥ 1"):
        release.ratios(np.random.default_rng(5), data_sets=0)


def test_the_reading_that_is_shown_most():
    """The largest diagonal entry of JᵀD⁻¹J, and far above the average."""
    rng = np.random.default_rng(6)
    release = OutputPerturbation(
        pv.LinearModel(np.ones((80, 1)), noise=pv.noise.Cauchy(1.0)), budget=80.0
    )
    y = release.model.sample([0.0], rng)
    report = release.for_data_owner(y)
    J = release.jacobian(y[None], report.estimate[None])[0]
    information = np.einsum("ik,ij,jk->k", J, np.linalg.inv(release.information_scale), J)
    assert report.worst == pytest.approx(information.max(), rel=1e-12)
    assert report.worst > 1.5 * report.realised / 80


@pytest.mark.parametrize("noise", [None, pv.noise.Laplace(1.0)])
def test_noise_lost_in_rounding_is_refused_whatever_its_law(noise):
    model = pv.LinearModel(np.ones((50, 1)), noise=LAPLACE)
    y = 1e12 + LAPLACE.sample(50, np.random.default_rng(0))
    release = OutputPerturbation(model, 1e12, noise=noise, score="least_squares")
    with pytest.raises(pv.errors.InvalidInput, match="lost in rounding"):
        release.simulate(y, np.random.default_rng(1))
