"""Experiment A from counted numbers: the same trials here and on a device (a stand-in for one)."""

import json

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

import stand_in_device
from privest.cli.reproduce import app
from privest.errors import InvalidInput, MissingDependency
from privest.estimator.device import as_backend
from privest.estimator.likelihood import NUMPY
from privest.mechanism import Inverse
from privest.noise import Gaussian
from privest.paper import _on_device, fig1
from privest.paper._engine import Counter, Task, counter, trials_of
from privest.paper._fig1 import squared_errors
from privest.paper._methods import PAPER, Method, method_of, setting_of

SETTING = setting_of()
KEY = (0x0123456789ABCDEF, 2**64 - 5)
FAST = [name for name in PAPER if "inverse" not in name]


@pytest.fixture
def device(monkeypatch):
    stand_in_device.installed(monkeypatch)
    yield as_backend("cupy")
    stand_in_device.forgotten()


@pytest.mark.parametrize("start", [0, 3, 10**12])
def test_words_are_those_of_philox(start):
    """A trial of 4 places has one counter; NumPy counts before it enciphers."""
    made = np.random.Philox(
        key=np.array(KEY, dtype=np.uint64), counter=np.array([start, 0, 0, 0], dtype=np.uint64)
    )
    expected = ((made.random_raw(40) >> np.uint64(11)) + 0.5) * 2.0**-53
    assert np.array_equal(Counter(KEY, start).uniform(10, 4, NUMPY).ravel(), expected)


def test_numbers_do_not_depend_on_the_block(device):
    whole = Counter(KEY, 10).uniform(50, 7, NUMPY)
    assert np.array_equal(Counter(KEY, 10).uniform(20, 7, NUMPY, skip=30), whole[30:])
    assert np.array_equal(Counter(KEY, 40).uniform(20, 7, NUMPY), whole[30:])
    assert np.array_equal(Counter(KEY, 10).uniform(50, 7, device).get(), whole)
    assert len(np.unique(whole)) == whole.size
    assert 0 < whole.min() < whole.max() < 1


def test_the_key_is_of_seed_and_task():
    keys = [counter(key, 0, seed).key for key in ("a", "b") for seed in (1, 2)]
    assert len(set(keys)) == 4
    assert counter("a", 7, 1) == Counter(keys[0], 7)


def test_too_few():
    with pytest.raises(InvalidInput, match="0 trials"):
        Counter(KEY).uniform(0, 3, NUMPY)


LAWS = {
    "gaussian": (_on_device.Gaussian(2.0, 0.5), lambda x: scipy.stats.norm.cdf(x, 0.5, 2**0.5)),
    "laplace": (_on_device.Laplace(0.7), lambda x: scipy.stats.laplace.cdf(x, 0, 0.7)),
    "cauchy": (_on_device.Cauchy(0.7), lambda x: scipy.stats.cauchy.cdf(x, 0, 0.7)),
    "cos2": (_on_device.CosSquared(1.3), _on_device.CosSquared(1.3).cdf),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_by_their_inverse(name):
    """Kolmogorov-Smirnov on 20,000 fixed numbers; p below 1e-4 is a wrong law."""
    law, cdf = LAWS[name]
    u = Counter(KEY).uniform(20_000, 2, NUMPY)[..., None]
    x = _on_device.drawn(law, u, NUMPY)[:, 0]
    assert scipy.stats.kstest(x, cdf).pvalue > 1e-4


@pytest.mark.parametrize("u", [-1.5, 0.5])
def test_a_truncated_value_is_an_end_and_right_on_average(u):
    """`remark:truncation`; the mean of 20,000 ends is within 5 standard errors, √(4 − u²)/141."""
    channel = Inverse(Gaussian(1e-12), truncate=2.0)
    places, sample = _on_device.sampler_of(channel)
    parts = Counter(KEY).uniform(20_000, places, NUMPY)[..., None]
    ends = sample(np.full((20_000, 1), u), parts, NUMPY)
    assert np.allclose(np.abs(ends), 2.0, atol=1e-4)
    assert abs(ends.mean() - u) < 5 * np.sqrt((4 - u**2) / 20_000)


@pytest.mark.parametrize("name", PAPER)
def test_the_same_trials(name, device):
    method, numbers = method_of(name), counter(name, 0, 1)
    trials = 40 if name in FAST else 4
    here = _on_device.squared_errors_there(numbers, trials, method, 1.0, SETTING, NUMPY)
    copied = stand_in_device.StandIn.copied
    copied.update({"in": 0, "out": 0})
    there = _on_device.squared_errors_there(numbers, trials, method, 1.0, SETTING, device)
    assert copied["out"] == 0
    assert np.allclose(there.get(), here, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("chunk", [7, 100])
def test_chunks_do_not_matter(chunk, device, monkeypatch):
    monkeypatch.setattr(_on_device, "AT_ONCE", 9)
    arguments = {
        "method": method_of("laplace-output"), "s": 2.0, "setting": SETTING, "backend": "cupy",
    }  # fmt: skip
    task = Task("point", _on_device.squared_errors, arguments, counted=True)
    found = trials_of([task], trials=30, seed=4, chunk=chunk)["point"]
    whole = trials_of([task], trials=30, seed=4, chunk=30)["point"]
    # The same numbers; a BLAS may add up products of other shapes in another order.
    assert np.allclose(found, whole, rtol=1e-13, atol=0)


def test_the_mean_is_that_of_the_other_numbers():
    """Laplace at s = 1, 4000 trials each: the means differ by less than 4.5 standard errors."""
    method = method_of("laplace")
    a = _on_device.squared_errors_there(counter("x", 0, 3), 4000, method, 1.0, SETTING, NUMPY)
    b = squared_errors(np.random.default_rng(3), 4000, method=method, s=1.0, setting=SETTING)
    error = np.sqrt((a.var() + b.var()) / 4000)
    assert abs(a.mean() - b.mean()) < 4.5 * error


def test_what_cannot_run_there():
    own = Method("mine", "mine", lambda model, s: method_of("gaussian").pair(model, s))
    plain = Method("plain", "", lambda m, s: (own.pair(m, s)[0], lambda z: z[:, :5]))
    for method, words in (
        (plain, "its estimator is a function of NumPy's arrays"),
        (method_of("truncated-gain-gaussian-least-squares"), "Gain has no sampler"),
        (method_of("student-t"), "Additive has no sampler"),
    ):
        with pytest.raises(InvalidInput, match=words):
            _on_device.squared_errors_there(Counter(KEY), 3, method, 1.0, SETTING, NUMPY)


def test_the_figure(device):
    points = fig1([1.0, 2.0], trials=50, methods=["gaussian", "laplace"], backend="cupy").points
    assert [p.trials for p in points] == [50] * 4
    again = fig1([1.0, 2.0], trials=50, methods=["gaussian", "laplace"], backend="cupy").points
    assert again == points


def test_refusals(monkeypatch, device):
    with pytest.raises(InvalidInput, match="backend"):
        fig1([1.0], trials=5, backend="tpu")
    with pytest.raises(InvalidInput, match="workers=1"):
        fig1([1.0], trials=5, backend="cupy", workers=2)


def test_the_command_without_a_device(monkeypatch):
    stand_in_device.forgotten()
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    result = CliRunner().invoke(app, ["fig1", "--quick", "--device", "gpu"])
    assert isinstance(result.exception, MissingDependency) or result.exit_code != 0
    assert "privest[gpu]" in f"{result.output}{result.exception}"


def test_the_command(device, tmp_path):
    file = tmp_path / "points.json"
    command = "fig1 --device gpu --methods gaussian,cauchy --levels 1 --trials 20 --json"
    result = CliRunner().invoke(app, [*command.split(), str(file)])
    assert result.exit_code == 0, result.output
    points = json.loads(file.read_text("utf-8"))
    assert [p["mechanism"] for p in points] == ["gaussian", "cauchy"]
    found = _on_device.squared_errors_there(
        counter("cauchy at 1.0", 0, 1), 20, method_of("cauchy"), 1.0, SETTING, NUMPY
    )
    assert points[1]["mse"] == pytest.approx(found.mean(), rel=1e-9)
