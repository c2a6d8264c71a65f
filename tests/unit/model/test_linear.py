"""The linear model and its noise: Gaussian, non-Gaussian, heteroscedastic, correlated."""

import json

import numpy as np
import pytest

import privest as pv
from privest.errors import InfiniteInformation, InvalidInput
from privest.noise import Cauchy, Gaussian, Laplace, Uniform
from strategies import psd_matrix

H = np.random.default_rng(0).standard_normal((4, 2))


@pytest.mark.parametrize(
    ("noise", "inverse_information", "covariance"),
    [
        (Gaussian(cov=0.04), 0.04 * np.eye(4), 0.04 * np.eye(4)),
        (Gaussian(cov=[1.0, 2.0, 3.0, 4.0]), np.diag([1.0, 2, 3, 4]), np.diag([1.0, 2, 3, 4])),
        (Laplace(0.5), 0.25 * np.eye(4), 0.5 * np.eye(4)),
        (
            [scale * Laplace(1.0) for scale in (1.0, 2.0, 3.0, 4.0)],
            np.diag([1.0, 4, 9, 16]),
            2 * np.diag([1.0, 4, 9, 16]),
        ),
        (
            [Laplace(1.0), Gaussian(cov=3.0), Laplace(2.0), Gaussian(cov=1.0)],
            np.diag([1.0, 3, 4, 1]),
            np.diag([2.0, 3, 8, 1]),
        ),
    ],
)
def test_information_and_covariance(noise, inverse_information, covariance):
    model = pv.LinearModel(H, noise=noise)
    assert np.allclose(model.inverse_information.dense(), inverse_information)
    assert np.allclose(model.covariance.dense(), covariance)
    y = model.sample([1.0, -1.0], np.random.default_rng(1), trials=200_000)
    assert y.shape == (200_000, 4)
    # fourth moments of these laws are at most 6 variances²: standard error of a covariance entry
    spread = np.sqrt(6 * np.outer(np.diag(covariance), np.diag(covariance)) / 200_000)
    assert (np.abs(np.cov(y.T) - covariance) < 6 * spread).all()
    error = np.sqrt(np.diag(covariance) / 200_000)
    assert (np.abs(y.mean(0) - H @ [1.0, -1.0]) < 6 * error).all()


def test_correlated_gaussian_samples_have_the_covariance_also_when_singular():
    rng = np.random.default_rng(2)
    for rank in (4, 2):
        cov = psd_matrix(rng, 4, rank)
        noise = Gaussian(cov=cov, mean=[1.0, 2.0, 3.0, 4.0])
        w = noise.sample(4, rng, trials=100_000) - [1, 2, 3, 4]
        found = w.T @ w / len(w)
        spread = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / len(w))
        assert (np.abs(found - cov) < 6 * spread).all()
    assert noise.sample(4, rng).shape == (4,)


def test_sampling_uses_only_the_given_generator():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    model = pv.LinearModel(H, noise=Gaussian(cov=1.0))
    first = model.sample([1.0, 2.0], np.random.default_rng(3))
    second = model.sample([1.0, 2.0], np.random.default_rng(3))
    assert np.array_equal(first, second)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_noise_whose_density_jumps_has_no_bound():
    model = pv.LinearModel(H, noise=Uniform(1.0))
    with pytest.raises(InfiniteInformation, match="jumps"):
        pv.bound(model, pv.PrivacyLevel(1.0))
    mixed = pv.LinearModel(H, noise=[Laplace(1.0), Laplace(1.0), Uniform(1.0), Laplace(1.0)])
    with pytest.raises(InfiniteInformation, match="Uniform"):
        pv.bound(mixed, pv.PrivacyLevel(1.0))


def test_heavy_tails_have_a_bound_but_no_covariance():
    model = pv.LinearModel(H, noise=Cauchy(1.0))
    assert np.allclose(model.inverse_information.dense(), 2 * np.eye(4))
    assert pv.bound(model, pv.PrivacyLevel(1.0)).identifiable
    with pytest.raises(InvalidInput, match="no finite variance"):
        _ = model.covariance


def test_singular_noise_is_the_limit():
    """Readings without noise: the classical bound is the limit of Σ + εI, the private one needs
    no limit."""
    rng = np.random.default_rng(4)
    design = rng.standard_normal((6, 3))
    for cov in (np.array([0.0, 1, 1, 2, 0, 3]), np.zeros(6), psd_matrix(rng, 6, 4)):
        dense = np.diag(cov) if cov.ndim == 1 else cov
        exact = pv.bound(pv.LinearModel(design, noise=Gaussian(cov=cov)), pv.PrivacyLevel(2.0))
        near = pv.bound(
            pv.LinearModel(design, noise=Gaussian(cov=dense + 1e-9 * np.eye(6))),
            pv.PrivacyLevel(2.0),
        )
        assert np.abs(exact.classical - near.classical).max() < 1e-7
        assert np.abs(exact.covariance - near.covariance).max() < 1e-7


def test_reprs_show_shapes_not_numbers():
    text = repr(pv.LinearModel([[12345.678, 1.0], [1.0, 1.0]], noise=Laplace(1.0)))
    assert text == "LinearModel(2 measurements, 2 parameters, noise=Laplace(scale=1.0))"
    assert "3 distributions" in repr(pv.LinearModel(np.eye(3), noise=[Laplace(1.0)] * 3))
    assert repr(Gaussian([1.0, 0.0])) == "Gaussian(size=2, rank=1)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pv.LinearModel([1.0, 2.0], noise=Gaussian()), "one row a measurement"),
        (
            lambda: pv.LinearModel([[1.0, np.nan]], noise=Gaussian()),
            r"H must be finite; it has NaN",
        ),
        (lambda: pv.LinearModel(np.zeros((0, 3)), noise=Gaussian()), "H is empty"),
        (lambda: pv.LinearModel(np.zeros((3, 0)), noise=Gaussian()), "H is empty"),
        (lambda: pv.LinearModel([["a"]], noise=Gaussian()), "H must hold real numbers"),
        (lambda: pv.LinearModel(H, noise=-0.04), "variance must be ≥ 0; received -0.04"),
        (lambda: pv.LinearModel(H, noise=None), "received NoneType"),
        (lambda: pv.LinearModel(H, noise=1.0, names=["a"]), "names must be 2, .*received 1"),
        (lambda: pv.LinearModel(H, noise=1.0, names="ab"), "received one text"),
        (lambda: pv.LinearModel(H, noise=1.0, names=["a", "a"]), "must differ"),
        (lambda: pv.LinearModel(H, noise="white"), "must be a distribution.*received str"),
        (
            lambda: pv.LinearModel(H, noise=Laplace),
            "the class Laplace .call it",
        ),
        (lambda: pv.LinearModel(H, noise=[]), "one distribution for each"),
        (lambda: pv.LinearModel(H, noise=[Laplace(1.0)] * 3), "3 components but H has 4 rows"),
        (lambda: pv.LinearModel(H, noise=Gaussian(cov=np.eye(3))), "3 components but H has 4"),
        (lambda: Gaussian(cov=-1.0), "variance must be ≥ 0; received -1"),
        (lambda: Gaussian(cov=[1.0, -1.0]), "eigenvalue -1 at index 1"),
        (lambda: Gaussian(cov=[[1.0, 2.0], [2.0, 1.0]]), "eigenvalue -1"),
        (lambda: Gaussian(cov=[1.0, 2.0], mean=[1.0]), "must have length 2"),
        (lambda: Gaussian(cov="big"), "must hold real numbers"),
        (lambda: Gaussian(cov=[[1.0], [1.0, 2.0]]), "different lengths"),
        (
            lambda: pv.LinearModel(H, noise=Gaussian()).sample([1.0], np.random.default_rng()),
            "length 2; received 1",
        ),
    ],
)
def test_bad_input_has_one_clear_error(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "2 measurements cannot determine 3 parameters"),
        ([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]], r"zero columns: no measurement depends on θ\[1\]"),
        ([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], "rank 1 of 2"),
    ],
)
@pytest.mark.parametrize("cov", [1.0, "vector", "matrix", "singular"])
def test_designs_that_never_determine_theta(matrix, message, cov):
    m = len(matrix)
    noise = {
        "vector": np.arange(1.0, m + 1),
        "matrix": psd_matrix(np.random.default_rng(0), m),
        "singular": np.r_[0.0, np.ones(m - 1)],
    }.get(cov, cov)
    model = pv.LinearModel(matrix, noise=Gaussian(cov=noise))
    with pytest.raises(pv.errors.NotIdentifiable, match=message) as caught:
        _ = pv.bound(model, pv.PrivacyLevel(1.0)).covariance
    hidden = caught.value.hidden_directions
    assert np.abs(np.asarray(matrix) @ hidden).max() < 1e-12
    assert not pv.identifiability(model, pv.PrivacyLevel(1.0))
    with pytest.raises(pv.errors.InvalidInput, match="LinearModel or a NonlinearModel"):
        pv.bound(matrix, pv.PrivacyLevel(1.0))


LEVELS = [2.0, np.arange(1.0, 5.0), psd_matrix(np.random.default_rng(7), 4)]


@pytest.mark.parametrize("given", LEVELS, ids=["number", "vector", "matrix"])
def test_a_level_may_be_what_makes_one(given):
    model, level = pv.LinearModel(H, noise=Gaussian(cov=1.0)), pv.PrivacyLevel(given)
    assert np.array_equal(pv.bound(model, given).covariance, pv.bound(model, level).covariance)
    assert pv.identifiability(model, given).rank == 2
    wide = 2.0 * np.eye(4) + np.asarray(given) * np.eye(4)
    with_prior = [pv.bound(model, s, prior=np.eye(2)).covariance for s in (wide, 3 * wide)]
    assert np.trace(with_prior[0]) > np.trace(with_prior[1])
    agents = 4 if np.ndim(given) == 0 else None
    assert pv.bounds.consensus_bound(given, agents) == pv.bounds.consensus_bound(level, agents)


def test_the_level_of_a_stream_may_have_no_end():
    model = pv.LinearModel(H, noise=Gaussian(cov=1.0))
    found, expected = (
        pv.bound(model, s) for s in (pv.StreamLevel.constant(2.0), pv.StreamLevel(np.full(4, 2.0)))
    )
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-13)  # two routes


def test_no_level_is_never_guessed():
    model = pv.LinearModel(H, noise=Gaussian(cov=1.0))
    for call in (pv.bound, pv.identifiability):
        with pytest.raises(pv.errors.InvalidInput, match="level is None"):
            call(model, None)
    with pytest.raises(pv.errors.InvalidInput, match="level is None"):
        pv.bounds.release_level(model, None, prior=np.eye(2))
    with pytest.raises(pv.errors.InvalidInput, match="level is None"):
        pv.bounds.consensus_bound(None)


def test_noise_may_be_its_variance():
    for variance in (0.04, 4, np.float64(0.04)):
        model = pv.LinearModel(H, noise=variance)
        assert model.noise.gaussian
        assert np.allclose(model.covariance.dense(), variance * np.eye(4))
    assert "noise=Gaussian(cov=0.04))" in repr(pv.LinearModel(H, noise=0.04))
    assert pv.NonlinearModel(lambda t: t, noise=0.5).at([1.0]).covariance.norm() == 0.5


def test_names_of_parameters_travel():
    """Given, or of the columns of a frame; results speak them."""
    import pandas as pd
    import polars as pl

    table = {"age": H[:, 0], "dose": H[:, 1]}
    for frame in (pd.DataFrame(table), pl.DataFrame(table)):
        assert pv.LinearModel(frame, noise=1.0).names == ("age", "dose")
        assert pv.LinearModel(frame, noise=1.0, names=["a", "b"]).names == ("a", "b")
    assert pv.LinearModel(H, noise=1.0).names == ("θ[0]", "θ[1]")
    model = pv.LinearModel(pd.DataFrame(table), noise=1.0)
    b = pv.bound(model, 1.0)
    assert b.names == ("age", "dose")
    assert b.to_dict()["names"] == ["age", "dose"]
    assert np.array_equal(b.covariance, pv.bound(pv.LinearModel(H, noise=1.0), 1.0).covariance)
    assert np.array_equal(b.classical_error, np.sqrt(np.diag(b.classical)))
    silent = pv.LinearModel(pd.DataFrame({"age": [1.0, 0.0], "dose": [0.0, 1.0]}), noise=1.0)
    assert "hidden by the level: dose" in repr(pv.bound(silent, [1.0, 0.0]))
    zero = pv.LinearModel(pd.DataFrame({"age": [1.0, 1.0], "dose": [0.0, 0.0]}), noise=1.0)
    with pytest.raises(pv.errors.NotIdentifiable, match="no measurement depends on dose"):
        _ = pv.bound(zero, 1.0).covariance
    curve = pv.NonlinearModel(lambda t: [t[0], t[1]], noise=1.0, names=["x", "y"])
    assert pv.bound(curve, 1.0, theta=[1.0, 1.0]).names == ("x", "y")


def test_results_go_to_json():
    model = pv.LinearModel(H, noise=1.0)
    results = [
        pv.bound(model, 1.0),
        pv.bound(model, 0.0),
        pv.identifiability(model, 0.0),
        pv.bound(model, 3.0, prior=np.eye(2)),
        pv.bound(model, pv.StreamLevel.constant(1.0)),
        pv.bound(model, pv.StreamLevel.constant(0.0)),
        pv.bound(model, 1.0).contrast([1.0, -1.0]),
        pv.bounds.sweep(model, [0.0, 1.0]),
        pv.bounds.trace_bound(model, budget=1.0),
    ]
    for result in results:
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False))


def test_theta_belongs_to_nonlinear_models_only():
    with pytest.raises(InvalidInput, match="leave theta out"):
        pv.bound(pv.LinearModel(H, noise=Gaussian()), pv.PrivacyLevel(1.0), theta=[1.0, 1.0])
    nonlinear = pv.NonlinearModel(lambda t: H @ t, noise=Gaussian())
    for call in (
        lambda: pv.bounds.trace_bound(nonlinear, budget=1.0),
        lambda: pv.bounds.trace_bound(nonlinear, epsilon=1.0),
        lambda: pv.bounds.prior_information(nonlinear, prior=1.0),
        lambda: pv.bound(nonlinear, 9.0, prior=1.0),
    ):
        with pytest.raises(InvalidInput, match=r"model.at\(theta\)"):
            call()


def test_identifiability_of_a_nonlinear_model_is_local():
    model = pv.NonlinearModel(lambda t: [t[0] ** 2, t[1]], noise=Gaussian(cov=1.0))
    assert pv.identifiability(model, pv.PrivacyLevel(1.0), theta=[1.0, 1.0])
    assert pv.identifiability(model, pv.PrivacyLevel(1.0), theta=[0.0, 1.0]).rank == 1


def test_an_inexact_design_is_not_trusted_beyond_its_accuracy():
    rng = np.random.default_rng(9)
    a = rng.standard_normal(8)
    nearly = np.stack([a, a + 1e-7 * rng.standard_normal(8)], axis=1)
    exact = pv.LinearModel(nearly, noise=Gaussian())
    assert pv.identifiability(exact, pv.PrivacyLevel(1.0)).rank == 2
    inexact = pv.LinearModel(nearly, noise=Gaussian(), accuracy=1e-6)
    assert pv.identifiability(inexact, pv.PrivacyLevel(1.0)).rank == 1
    with pytest.raises(pv.errors.NotIdentifiable, match="rank 1 of 2"):
        _ = pv.bound(inexact, pv.PrivacyLevel(1.0)).covariance
