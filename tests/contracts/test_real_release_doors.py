"""Every door that releases for real keeps one contract. A new door is one more entry of `REAL`.

No seed and no place for one; nothing refused, whatever the readings are; multiples of the grid;
fresh noise every time; nothing is computed with a reading before the noise is drawn; without its
noise a release is what was to be shown, within one step of the grid. Commands are run by
tests/unit/cli/test_stream_release.py, which holds them to the same.
"""

import inspect
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privest as pv
import workflow_inside as workflow
from charged import charged
from paid import PAID
from privest import lattice, network
from privest.errors import InvalidInput
from privest.ledger import LedgerSource
from privest.mechanism import (
    Additive,
    Componentwise,
    GaussianMechanism,
    OutputPerturbation,
    RowMechanism,
    StreamMechanism,
)
from privest.mechanism.source import Generated, Kept, seeded
from workflow_tables import stated

G = 2.0**-10
H = np.column_stack([np.ones(12), np.linspace(-1.0, 1.0, 12)])
Y = np.round(1.0 + 0.5 * H[:, 1] + np.sin(np.arange(12.0)), 3)
S = np.array([[4.0, 2.0, 1.0], [2.0, 3.0, 0.5], [1.0, 0.5, 2.0]])


@dataclass(frozen=True)
class Door:
    """One way out.

    call       the public function: it is looked through for seeds.
    release    (y (12,), source) -> what comes back.
    shown      of that, the numbers z̃ in units of the noise; a linear map of z̃ where not `on_grid`.
    expected   y -> what `shown` is without noise and rounding.
    step       by how much one step of the grid on every z̃ can move an entry of `shown`.
    keeps      whether one whole release goes through the source at once (`Kept`).
    simulated  of what comes back, whether it says so; None where it is a bare array.
    """

    call: Callable[..., Any]
    release: Callable[[Any, Any], Any]
    shown: Callable[[Any], np.ndarray]
    expected: Callable[[np.ndarray], np.ndarray]
    step: float = G
    on_grid: bool = True
    keeps: bool = True
    simulated: Callable[[Any], bool] | None = lambda found: found.simulated


def mechanism(level, measurements):
    made = GaussianMechanism(level, measurements)
    return Door(
        made.release,
        lambda y, source: made.release(np.reshape(y, (-1, measurements)), source),
        lambda found: found,
        lambda y: made._S.factor_rows(y.reshape(-1, measurements).T)[made._kept].T,
        simulated=None,
    )


def stream(level):
    finite = level if level.steps is not None else level.first(12 // level.block)
    return Door(
        StreamMechanism.release,
        lambda y, source: StreamMechanism(level).release(y, source),
        lambda found: found.values,
        lambda y: finite.rows.dense() @ y,
        keeps=False,
    )


def sensor(level):
    made = network.Sensor(np.eye(12), pv.noise.Gaussian(cov=0.25), level)
    return Door(
        made.release, made.release, lambda found: found.values,
        lambda y: made.level_matrix.factor_rows(y[:, None])[:, 0],
    )  # fmt: skip


def series(level, m):
    """Two series that share the readings."""
    finite = level if level.steps is not None else level.first(6 // m)

    def expected(y):
        return np.concatenate([finite.rows.dense() @ part for part in y.reshape(2, -1)])

    return Door(
        pv.StreamMechanism.release,
        lambda y, source: pv.StreamMechanism(level).release(np.reshape(y, (2, -1, m)), source),
        lambda found: found.values.ravel(),
        expected,
    )


def additive(law, scale):
    """z = y + scale·e."""
    made = Componentwise(Additive(law), measurements=12)
    return Door(
        made.release, made.release,
        lambda found: (found - law.mean) / scale, lambda y: y / scale,
        simulated=None,
    )  # fmt: skip


ROWS = np.repeat([1, 3, 2, 1, 5], [1, 3, 2, 1, 5])  # of five persons


def rows(weights, law="gaussian"):
    """Every number that is shown is c·y."""
    return Door(
        RowMechanism.release,
        lambda y, source: RowMechanism(law).release(y, weights, source),
        lambda found: found * G,
        lambda y: weights * y,
        keeps=False,
        simulated=None,
    )


def people(counts):
    """√(s/r)·y of persons with r rows."""
    return rows(lattice.literal_root(4.0 / counts))


LEVELS = np.geomspace(0.5, 4.0, 12)


def regression(fit):
    """(intercept, slope): the least-squares map of the readings."""

    def release(y, source):
        paid = None if isinstance(source, LedgerSource) else PAID
        found = pv.PrivateLinearRegression(level=4.0, noise=0.25, account=paid)
        fit(found, y, source)
        return found

    gain = np.linalg.pinv(H)
    return Door(
        pv.PrivateLinearRegression.fit, release,
        lambda found: np.array([found.intercept_, *found.coef_]),
        lambda y: gain @ y,
        step=G / 2 * np.abs(gain).sum(axis=1).max(), on_grid=False, keeps=False,
        simulated=lambda found: found.result_.simulated,
    )  # fmt: skip


def estimated(**options):
    """An estimate that is linear in the readings, in units of its noise: F⁻¹θ̂."""
    model = pv.LinearModel(H, noise=0.25)
    made = OutputPerturbation(model, 24.0, score="least_squares", **options)
    inverse = np.linalg.inv(np.linalg.cholesky(made.information_scale))
    return Door(
        made.release, made.release,
        lambda found: inverse @ found.value,
        lambda y: inverse @ np.linalg.pinv(H) @ y,
    )  # fmt: skip


def release_file(y, source):
    """The header of a table of two columns, and its numbers; rows without a reading are dropped."""
    spec = stated("t", workflow.Privacy(4.0), target="y", features=("x",), missing="drop")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "z.csv"
        header = charged(workflow.stated_plan(spec), path, {"x": H[:, 1], "y": y}, source=source)
        return header, np.loadtxt(path, delimiter=",", skiprows=1)[:, 1]


FILE = Door(
    workflow.release, release_file,
    lambda found: found[1] * G, lambda y: 2.0 * y,
    keeps=False, simulated=lambda found: found[0].simulated,
)  # fmt: skip

REAL = {
    "mechanism, number": mechanism(4.0, 12),
    "mechanism, diagonal": mechanism(LEVELS, 12),
    "mechanism, matrix": mechanism(S, 3),
    "mechanism, singular": mechanism([[4.0, 2.0], [2.0, 1.0]], 2),
    "additive Laplace": additive(pv.noise.Laplace(0.5), 0.5),
    "additive Gaussian": additive(pv.noise.Gaussian(0.25, mean=3.0), 0.5),
    "stream": stream(pv.StreamLevel.constant(4.0)),
    "stream, lags": stream(pv.StreamLevel.constant(1.0, lags=[0.5, 0.2])),
    "stream, matrices": stream(pv.StreamLevel.constant(S)),
    "stream, of a past": stream(
        pv.StreamLevel(np.full(12, 2.0), 0.02 * np.tril(np.ones((12, 12)), -1))
    ),
    "stream, sizes": stream(pv.StreamLevel([np.eye(2), S, np.eye(3), S, np.eye(1)])),
    "sensor": sensor(4.0),
    "sensor, matrix": sensor(np.eye(12) + 0.2),
    "table": rows(np.full(12, 2.0)),
    "table, levels per row": rows(np.sqrt(LEVELS)),
    "table, Laplace": rows(np.full(12, 2.0), "laplace"),
    "table, file": FILE,
    "series": series(pv.StreamLevel.constant(4.0), 1),
    "series, lags": series(pv.StreamLevel.constant([[2.0, 0.5], [0.5, 1.0]], lags=[0.5]), 2),
    "series, of a past": series(pv.StreamLevel.from_cumulative(np.eye(6) + 0.2), 1),
    "people": people(ROWS),
    "people, at most six": people(np.full(12, 6)),
    "regression": regression(lambda found, y, source: found.fit(H[:, 1:], y, source)),
    "pipeline": estimated(),
    "pipeline, Laplace": estimated(noise=pv.noise.Laplace(1.0)),
}
EVERY = pytest.mark.parametrize("name", REAL)


@EVERY
def test_there_is_no_seed_and_none_is_taken(name):
    door = REAL[name]
    assert not {"seed", "rng", "random_state"} & set(inspect.signature(door.call).parameters)
    for seed in (3, np.random.default_rng(3), seeded(3), Generated(np.random.default_rng(3))):
        with pytest.raises(InvalidInput, match="simulat"):
            door.release(Y, seed)


@EVERY
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e20, np.nan])
def test_no_value_is_refused(name, value):
    """Two of them, of which the effect could cancel; NaN is missing, and public."""
    y = Y.copy()
    y[4], y[7] = value, -value
    shown = REAL[name].shown(REAL[name].release(y, None))
    assert np.isfinite(shown).all() if not np.isnan(value) else np.isfinite(shown).any()
    # 2^42 for every z̃, its noise, and what a least-squares fit or a sum makes of them
    assert np.nanmax(np.abs(shown)) < 2.0**43 * 12


@EVERY
def test_releases_are_on_the_grid_and_never_the_same(name):
    door = REAL[name]
    found = [door.release(Y, None) for _ in range(2)]
    first, second = (door.shown(one) for one in found)
    # X of one entry is the same twice with probability 2.8e-4: never all, for one entry rarely
    assert (first != second).any() or first.size == 1
    if door.simulated is not None:
        assert door.simulated(found[0]) is False
    if door.on_grid:
        # sums and quotients of some 1e1 are right to 1e-13, averages to 1e-9 standard errors
        steps = first / G
        assert np.abs(steps - np.round(steps)).max() < 1e-4


@EVERY
@pytest.mark.parametrize("words", [0, 2**64 - 1])
def test_without_noise_it_is_what_was_to_be_shown(name, words, monkeypatch):
    """Rounded down, and up: within one step of the grid."""
    door = REAL[name]
    for law in ("gaussian", "laplace"):
        monkeypatch.setattr(lattice, f"{law}_integers", lambda n: np.zeros(n, dtype=np.int64))
    monkeypatch.setattr(lattice, "os_words", lambda n: np.full(n, words, dtype=np.uint64))
    gap = door.shown(door.release(Y, None)) - door.expected(Y)
    assert np.abs(gap).max() <= door.step * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("name", [name for name, door in REAL.items() if door.keeps])
def test_a_release_that_is_kept_comes_back(name, tmp_path):
    door, path = REAL[name], tmp_path / "kept.release"
    first = door.shown(door.release(Y, Kept(path)))
    again = Kept(path)
    assert np.array_equal(door.shown(door.release(Y, again)), first)
    assert again.resent
    # A real release is never refused because the readings have changed: the old one is sent.
    assert np.array_equal(door.shown(door.release(Y + 1.0, Kept(path))), first)


class Watched(np.ndarray):
    """Readings that say when they are computed with; whether one is missing is public."""

    events: list[str] = []  # noqa: RUF012 - one for all

    def __array_ufunc__(self, ufunc, how, *inputs, **named):
        if ufunc is not np.isnan:
            self.events.append("reading")
        plain = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in inputs]
        return getattr(ufunc, how)(*plain, **named)


class Late(pv.mechanism.source.Protected):
    """Protected noise that says when it was drawn, and when what it hides was asked for."""

    def add_noise(self, shown, **named):
        def told():
            Watched.events.append("reading")
            return shown()

        return super().add_noise(told if callable(shown) else shown, **named)

    def _integers(self, count, law):
        Watched.events.append("noise")
        return super()._integers(count, law)


# scikit-learn looks at y when it is handed over: shape and type, and what is missing.
@pytest.mark.parametrize("name", [name for name in REAL if not name.startswith("regression")])
def test_noise_is_drawn_before_a_reading_is_computed_with(name, monkeypatch):
    exact = {how: getattr(lattice, how) for how in ("sum_of_products", "exactly")}

    def told(how, given):  # exact sums take the numbers out of their class
        Watched.events.append("reading")
        return exact[how](given)

    for how in exact:
        monkeypatch.setattr(lattice, how, partial(told, how))
    Watched.events.clear()
    REAL[name].release(Y.copy().view(Watched), Late())
    assert Watched.events[0] == "noise"
    assert "reading" in Watched.events


def test_the_order_can_be_seen_to_be_wrong():
    Watched.events.clear()
    y = Y.copy().view(Watched)
    Late().add_noise(2.0 * y)
    assert Watched.events[:2] == ["reading", "noise"]


def overflows(transform, y):
    """A transform that overflows at the upper end: ∞ − ∞ is NaN."""
    return np.where(y >= 9.0, np.nan, np.log(y))


@pytest.mark.parametrize("form", ["rows", "laplace"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308])
def test_what_a_transform_makes_nan_of_is_missing_and_never_an_integer(
    form, value, tmp_path, monkeypatch
):
    """NaN as an integer is −2⁶³: a number without noise, which says that the reading overflowed."""
    ends = {"y": (0.5, 10.0)}
    kinds = {
        "rows": {"privacy": workflow.Privacy(level=4.0, range=ends)},
        "laplace": {
            "privacy": workflow.Privacy(epsilon=9.0, range=ends, distribution="laplace"),
        },
    }  # fmt: skip
    spec = stated("table", target="y", features=("x",), transform="log", **kinds[form])
    y, who = np.abs(Y) + 1.0, np.arange(12) // 2
    y[4] = value
    data = {"x": H[:, 1], "y": y, "who": who}
    terms = workflow.stated_plan(spec) or workflow.make_plan(spec, data)
    monkeypatch.setattr("privest.workflow.rows.modelled", overflows)
    path = tmp_path / "z.csv"
    charged(terms, path, data)
    z = np.genfromtxt(path, delimiter=",", skip_header=1)[:, -1]
    assert np.isfinite(np.delete(z, 4)).all()
    assert np.nanmax(np.abs(z)) < 2.0**52  # −2⁶³ is no number of the grid
    assert np.isnan(z[4]) or value == -np.inf  # −∞ is clipped to 0.5, which does not overflow
