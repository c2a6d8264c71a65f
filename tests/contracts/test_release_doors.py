"""Every door through which readings leave: noise is never lost in rounding, and follows the seed.

A door is a function of (level, readings, seed, folder). What it returns is linear in the readings
plus noise: the readings themselves (`ROWS`), or an estimate from them (`FITS`).
"""

import json

import numpy as np
import pandas as pd
import pytest

import privest as pv
import workflow_inside as workflow
from privest import network
from privest.errors import InvalidInput
from privest.lattice import literal_root
from privest.mechanism import (
    CATALOGUE,
    GaussianMechanism,
    OutputPerturbation,
    RowMechanism,
    StreamMechanism,
)
from privest.mechanism.source import Kept, seeded
from workflow_command import runner
from workflow_tables import stated

H = np.column_stack([np.ones(12), np.linspace(-1.0, 1.0, 12)])
Y = np.round(1.0 + 0.5 * H[:, 1] + np.sin(np.arange(12.0)), 3)
MOVED = 4


def table(y):
    return pd.DataFrame({"x": H[:, 1], "load": y})


def written(y, folder):
    path = folder / "meter.csv"
    table(y).to_csv(path, index=False)
    return path


def stream(level_of):
    def door(level, y, seed, _):
        stated = level_of(level)
        shown = StreamMechanism(stated).simulate(y, seeded(seed)).values
        finite = stated.first(len(y) // stated.block) if stated.steps is None else stated
        return np.linalg.solve(finite.rows.dense(), shown)

    return door


def people(level, y, seed, _):
    rows = np.repeat([1, 3, 2, 1, 5], [1, 3, 2, 1, 5])
    weights = literal_root(level / rows)
    return RowMechanism().simulate(y, weights, seeded(seed)) / weights


def release(level, y, seed, folder):
    spec = stated("t.csv", workflow.Privacy(level), target="load", features=("x",))
    plan, path = workflow.stated_plan(spec), folder / f"{len(list(folder.iterdir()))}.csv"
    data = {"x": H[:, 1], "load": y}
    return workflow.simulate_release(
        plan, path, workflow.simulation_source(plan, seed), data
    ).values


def regression(level, y, seed, _):
    found = pv.PrivateLinearRegression(level=level, noise=0.25, random_state=seed, simulate=True)
    found.fit(H[:, 1:], y)
    return np.array([found.intercept_, *found.coef_])


def agent(level, y, seed, _):
    """What an agent sends first."""
    sensor = network.Sensor(H, 0.25, level)
    found = sensor.contribution(sensor.simulate(y, seeded(seed, "agent", f"{level:.6g}")))
    return np.linalg.solve(found.r, found.x)


def command_stream(run, level, y, seed, folder):
    path, out = written(y, folder), folder / f"{len(list(folder.iterdir()))}.jsonl"
    done = run(
        "stream", path, "--target", "load", "--level", level, "--simulate", "--seed", seed,
        "--emit", "releases", "--output", out,
    )  # fmt: skip
    if done.code:
        raise InvalidInput(done.err)
    return (
        np.array([json.loads(line)["z"] for line in out.read_text().splitlines()[1:]]) / level**0.5
    )


def command_filter(run, level, y, seed, folder):
    path, out = written(y, folder), folder / f"{len(list(folder.iterdir()))}.json"
    model = folder / "walk.toml"
    model.write_text("A = 1.0\nC = 1.0\nQ = 0.01\nR = 0.25\ncov0 = 4.0\n", encoding="utf-8")
    done = run(
        "filter", path, "--model", model, "--measurements", "load", "--level", level, "--simulate",
        "--seed", seed, "--emit", "releases", "--output", out,
    )  # fmt: skip
    if done.code:
        raise InvalidInput(done.err)
    lines = out.read_text().splitlines()[1:]
    return np.array([json.loads(line)["z"][0] for line in lines]) / level**0.5


def command_identify(run, level, y, seed, folder):
    path, out = written(y, folder), folder / f"{len(list(folder.iterdir()))}.json"
    done = run(
        "identify", path, "--family", "ar1", "--measurements", "load", "--level", level,
        "--simulate", "--seed", seed, "--emit", "releases", "--output", out,
    )  # fmt: skip
    if done.code:
        raise InvalidInput(done.err)
    lines = out.read_text().splitlines()[1:]
    return np.array([json.loads(line)["z"][0] for line in lines]) / level**0.5


def command_release(run, level, y, seed, folder):
    path = written(y, folder)
    plan, out = folder / "plan.toml", folder / f"{len(list(folder.iterdir()))}.csv"
    plan.write_text(
        f'version = 4\ndata = "{path}"\n[model]\ntarget = ["load"]\nfeatures = ["x"]\n'
        f"[public]\nresidual_variance = 0.25\n[privacy]\nlevel = {level!r}\n",
        encoding="utf-8",
    )
    done = run("release", plan, "-o", out, "--simulate", "--seed", seed)
    if done.code:
        raise InvalidInput(done.err)
    return pd.read_csv(out)["z"].to_numpy()


SENSOR = lambda level: network.Sensor(np.eye(12), 0.25, level)  # noqa: E731
LAGS = np.tril(np.ones((12, 12)), -1) * 0.01
ROWS = {
    "mechanism": lambda s, y, seed, _: GaussianMechanism(s, 12).simulate(y, seeded(seed)) / s**0.5,
    "kept": lambda s, y, seed, folder: (
        Kept(folder / f"{y[MOVED]} {seed}", seeded(seed)).add_noise(s**0.5 * y) / s**0.5
    ),
    "stream": stream(pv.StreamLevel.constant),
    "stream, lags": stream(lambda s: pv.StreamLevel.constant(s, lags=[0.5])),
    "stream, of a past": stream(lambda s: pv.StreamLevel(np.full(12, s), s * LAGS)),
    "stream, matrices": stream(
        lambda s: pv.StreamLevel.constant(s * np.array([[1.0, 0.5], [0.5, 1.0]]))
    ),
    "series": lambda s, y, seed, _: (
        pv.StreamMechanism(pv.StreamLevel.constant(s))
        .simulate(y[None, :, None], seeded(seed))
        .values[0, :, 0]
        / s**0.5
    ),
    "sensor": lambda s, y, seed, _: SENSOR(s).simulate(y, seeded(seed)).values / s**0.5,
    "people": people,
    "table": lambda s, y, seed, _: RowMechanism().simulate(y, s**0.5, seeded(seed)) / s**0.5,
    "table, levels per row": lambda s, y, seed, _: (
        RowMechanism().simulate(y, np.full(12, s**0.5), seeded(seed)) / s**0.5
    ),
    "table, Laplace": lambda s, y, seed, _: (
        RowMechanism("laplace").simulate(y, s**0.5, seeded(seed)) / s**0.5
    ),
    "release": release,
}
FITS = {"regression": regression, "agent": agent}
COMMANDS = {
    "privest stream": command_stream,
    "privest filter": command_filter,
    "privest identify": command_identify,
    "privest release": command_release,
}


@pytest.fixture
def opened(capsys, monkeypatch):
    """A door by its name; a command is run as a shell would."""
    run = runner(capsys, monkeypatch)

    def find(name):
        if name in COMMANDS:
            return lambda *given: COMMANDS[name](run, *given)
        return (ROWS | FITS)[name]

    return find


@pytest.mark.parametrize("name", [*ROWS, *FITS, *COMMANDS])
def test_noise_that_would_be_lost_in_rounding_is_refused(name, opened, tmp_path):
    door, huge = opened(name), Y.copy()
    huge[MOVED] = 1.2345e30
    door(4.0, Y, 1, tmp_path)
    for level, y in ((1e40, Y), (4.0, huge)):
        with pytest.raises(InvalidInput) as told:
            door(level, y, 1, tmp_path)
        message = " ".join(str(told.value).split())
        assert "lost in rounding" in message
        assert "measurement is too large for this level" in message
        assert "or the level is too large" in message
        assert "1.2345" not in message
        assert str(Y[MOVED]) not in message


@pytest.mark.parametrize("name", [*ROWS, *FITS, *COMMANDS])
def test_a_seed_draws_the_same_noise_whatever_the_last_bits(name, opened, tmp_path):
    """A level and measurements that are one ulp larger, as another processor may compute them.

    What is shown, up to 2^12, is rounded to 2^-40 or better; a dense level has 12 such terms.
    """
    door = opened(name)
    level = np.nextafter(4.0, 5.0) if name not in COMMANDS else 4.0  # commands type it
    first, other = (door(s, y, 7, tmp_path) for s, y in ((4.0, Y), (level, np.nextafter(Y, 9.0))))
    np.testing.assert_allclose(first, other, rtol=1e-9, atol=1e-9)
    assert (np.abs(first - door(4.0, Y, 8, tmp_path)) > 1e-9).any()


@pytest.mark.parametrize("name", ["release", *FITS, *COMMANDS])
def test_a_seed_never_puts_the_same_noise_on_another_level(name, opened, tmp_path):
    """√s·y is 0 at every level where y is 0: without the level two runs would show the zeros."""
    door = opened(name)
    strict, mild = (root * door(root**2, 0 * Y, 7, tmp_path) for root in (1.0, 2.0))
    assert (np.abs(strict - mild) > 1e-9).all()


def loose(name):
    """Whether the noise of this mechanism does not grow with what it hides."""
    unit = CATALOGUE[name].example(3)
    width = getattr(unit, "channels", [None])[0]
    if width is None:
        return name != "rotation"
    here, there = (width.noise_width(np.array([u])) for u in (1.0, 1e6))
    return here is not None and np.allclose(here, there)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mechanism_of_the_catalogue(name):
    """Additive noise is refused beside 1e20; noise that grows with u, and bits, are not lost."""
    mechanism, rng = CATALOGUE[name].example(3), np.random.default_rng(0)
    mechanism.simulate(np.zeros((0, 3)), rng)
    mechanism.simulate([1e6, 1.0, 1.0], rng)
    if loose(name):
        with pytest.raises(InvalidInput, match="lost in rounding"):
            mechanism.simulate([1e20, 1.0, 1.0], rng)
        return
    first, second = (mechanism.simulate([1e20, 1.0, 1.0], rng) for _ in range(2))
    if name.startswith("binary"):
        assert set(first) <= {0.0, 1.0}
    else:
        assert abs(first[0] - second[0]) > 1e10


def test_bits_at_a_far_threshold_keep_their_noise():
    """u + d ≤ C at u = C = 1e20: by adding first, every bit would be 1."""
    for name in ("binary-gaussian", "binary-laplace", "binary-cauchy"):
        law = CATALOGUE[name].unit.law
        channel = pv.mechanism.BinaryQuantiser(law, threshold=1e20)
        bits = channel.sample(np.full(4000, 1e20), np.random.default_rng(0))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OutputPerturbation(pv.LinearModel(H, noise=1.0), 1e30).simulate(Y, RNG),
        lambda: OutputPerturbation(
            pv.LinearModel(H, noise=1.0), 1e30, score="least_squares", noise=pv.noise.Laplace(1.0)
        ).simulate(Y, RNG),
        lambda: pv.mechanism.GeometricPerturbation(2).simulate([1e20, 1.0], RNG),
        lambda: pv.mechanism.Componentwise(
            pv.mechanism.Inverse(pv.noise.Gaussian(1e-40)), measurements=1
        ).simulate([1.0], RNG),
    ],
)
def test_other_noise_than_that_of_a_level(make):
    with pytest.raises(InvalidInput, match="lost in rounding"):
        make()


RNG = np.random.default_rng(0)
