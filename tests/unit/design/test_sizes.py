"""`design.sample_size`: measurements against level for one accuracy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.design import sample_size
from strategies import RTOL, design, problems

seeds = st.integers(0, 2**32 - 1)


def alike(seed, v):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    model = pv.LinearModel(design(rng, int(rng.integers(n, 12)), n), noise=v)
    wanted = dict(zip(model.names, np.exp(rng.uniform(-5, -1, n)).tolist()))
    return model, wanted


@given(seeds, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_closed_form_of_rows_alike(seed, v, s):
    model, wanted = alike(seed, v)
    found = sample_size(model, wanted, level=s)
    A0 = np.linalg.inv(model.matrix.T @ model.matrix / model.measurements)
    errors = np.array(list(wanted.values()))
    assert found.needed[0] == pytest.approx(np.diagonal(A0) * (v + 1 / s) / errors**2, rel=RTOL)
    assert found.classical == pytest.approx(np.diagonal(A0) * v / errors**2, rel=RTOL)
    assert found.total == pytest.approx(found.measurements[0] * s, rel=1e-12)


@given(seeds, st.floats(1e-3, 1e3))
def test_a_level_of_one_over_the_variance_doubles_the_readings(seed, v):
    model, wanted = alike(seed, v)
    found = sample_size(model, wanted, level=1 / v)
    assert found.price == pytest.approx(2.0, rel=1e-12)
    assert found.needed[0] == pytest.approx(2 * found.classical, rel=1e-12)
    path = sample_size(model, wanted, sizes=[int(np.ceil(found.needed[0].max()))])
    assert path.level[0] <= 1 / v * (1 + 1e-12)
    assert path.classical.max() == pytest.approx(found.needed[0].max() / 2, rel=RTOL)


@given(problems(noise_kinds=("number", "vector", "matrix")), st.integers(1, 5))
def test_whole_copies_have_the_error_that_is_promised(problem, copies):
    """`pv.bound` of the stacked model; any level, any noise."""
    noise = pv.noise.Gaussian(cov=problem.cov)
    model = pv.LinearModel(problem.H, noise=noise)
    one = pv.bound(model, problem.level)
    if not one.identifiable:
        return
    stacked = pv.bound(
        pv.LinearModel(
            np.tile(problem.H, (copies, 1)),
            noise=pv.noise.Gaussian(cov=np.kron(np.eye(copies), problem.Sigma)),
        ),
        np.kron(np.eye(copies), problem.S),
    )
    found = sample_size(model, dict(zip(model.names, stacked.standard_error)), level=problem.level)
    assert found.needed[0] == pytest.approx(np.full(problem.n, copies * problem.m), rel=1e-9)


@settings(max_examples=20)
@given(problems(level_kinds=("number",), noise_kinds=("number", "vector", "matrix")), seeds)
def test_the_frontier_meets_the_target_and_no_lower_level_does(problem, seed):
    """Each level given back to `sample_size`: just so many readings."""
    model = pv.LinearModel(problem.H, noise=pv.noise.Gaussian(cov=problem.cov))
    rng = np.random.default_rng(seed)
    wanted = dict(zip(model.names, np.exp(rng.uniform(-3, 0, problem.n)).tolist()))
    least = sample_size(model, wanted, sizes=[1]).classical.max()
    sizes = np.unique(np.ceil(least * np.array([0.5, 1.01, 1.5, 10.0, 1e4])) + 1)
    found = sample_size(model, wanted, sizes=sizes)
    assert (np.isfinite(found.level) == (sizes > least)).all()
    for K, s, who in zip(sizes, found.level, found.decides):
        if not np.isfinite(s):
            assert who is None
            continue
        back = sample_size(model, wanted, level=s)
        assert back.needed[0].max() == pytest.approx(K, rel=1e-9)
        assert back.names[back.needed[0].argmax()] == who or problem.n > 1
    # The total falls to its floor, and never below.
    total = found.total[np.isfinite(found.level)]
    assert (np.diff(total) < 0).all()
    assert total[-1] >= found.total_floor
    assert total[-1] == pytest.approx(found.total_floor, rel=1.0)


def test_in_words_and_in_frames():
    model = pv.LinearModel(np.ones((10, 1)), noise=4.0, names=["mean"])
    found = sample_size(model, 0.1, level=0.25)
    assert found.measurements[0] == 800
    assert "400 measurements without privacy" in found.summary()
    assert "800 measurements, 2 times those without" in found.summary()
    assert found.to_frame().measurements.tolist() == pytest.approx([800.0])
    path = sample_size(model, {"mean": 0.1}, sizes=[300, 500, 800, 80000])
    assert path.level[0] == np.inf
    assert path.level[1:3] == pytest.approx([1.0, 0.25])
    assert path.to_frame().shape == (4, 4)
    assert "300 measurements: too few" in path.summary()
    assert path.to_dict()["level"][0] == "Infinity"


def test_only_what_is_asked_for_need_be_seen():
    model = pv.LinearModel([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], noise=1.0, names=["a", "b"])
    assert sample_size(model, {"a": 0.1}, level=[1.0, 1.0, 0.0]).measurements == 300
    with pytest.raises(pv.errors.NotIdentifiable, match="No number of measurements like these"):
        sample_size(model, {"a": 0.1, "b": 0.1}, level=[1.0, 1.0, 0.0])
    twins = pv.LinearModel(np.ones((3, 2)), noise=1.0, names=["a", "b"])
    with pytest.raises(pv.errors.NotIdentifiable, match="even without privacy"):
        sample_size(twins, {"a": 0.1}, sizes=[10])


def test_targets_and_sizes_that_are_none():
    model = pv.LinearModel(np.eye(2), noise=1.0, names=["a", "b"])
    for bad in (0.1, {}, {"c": 0.1}, {"a": 0.0}, {"a": -1.0}, {"a": np.nan}, "a"):
        with pytest.raises(pv.errors.InvalidInput):
            sample_size(model, bad, level=1.0)
    for sizes in ([], [0], [1.5], [[1, 2]], ["a"], [np.inf]):
        with pytest.raises(pv.errors.InvalidInput):
            sample_size(model, {"a": 0.1}, sizes=sizes)


def test_rounding_adds_no_reading():
    """K = 0.1·10/0.1² is 100 in decimals, not in doubles."""
    model = pv.LinearModel(np.ones((1, 1)), noise=0.3)
    assert sample_size(model, 0.1, level=1 / 0.7).measurements == 100


def test_readings_without_noise():
    """v = 0: without privacy any number does; 1/s is all the variance there is."""
    model = pv.LinearModel(np.ones((3, 1)), noise=pv.noise.Gaussian(cov=np.zeros(3)))
    found = sample_size(model, 0.1, level=0.5)
    assert found.measurements[0] == 200
    assert found.price == np.inf
    assert "inf" not in found.summary() + repr(found)
    path = sample_size(model, 0.1, sizes=[1, 10, 100])
    assert path.classical.max() == 0
    assert path.level == pytest.approx([100.0, 10.0, 1.0])


def test_a_wanted_error_beyond_all_numbers_is_refused():
    model = pv.LinearModel(np.ones((3, 1)), noise=1.0)
    with pytest.raises(pv.errors.InvalidInput, match="other units"):
        sample_size(model, {0: 1e-160}, level=1.0)
