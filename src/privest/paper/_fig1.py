"""The paper's first experiment (`fig:ppcr`): mechanisms with their estimators, one bound."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

import privest as pv
from privest.arrays import Array, ArrayLike, as_array, as_choice
from privest.errors import InvalidInput
from privest.estimator.device import as_backend
from privest.paper import _engine as engine
from privest.paper import _figure as draw
from privest.paper import _on_device
from privest.paper._figure import Claim, Figure, Table
from privest.paper._methods import PAPER, Given, Method, Setting, estimates, method_of, pair_of
from privest.paper._methods import setting_of as setting_of
from privest.records import Record
from privest.report.sections import printable

TRIALS = 2000
DEVICE_TRIALS = 1_000_000  # of a point on a graphics processor
LABEL = "fig:ppcr"
# Chance that a Gaussian mechanism that does attain the bound is said not to, over all levels.
FALSE_ALARM = 1e-3
ROUNDING = 1e-9  # of a supremum that is exactly the level
WIDE = 500.0  # levels that span more than this factor are drawn on a log scale


@dataclass(frozen=True)
class Point(Record):
    """One mechanism at one level. `mse` and its companions are of ‖θ̂ − θ‖².

    `worst_information_over_s` is the mechanism's own statement: λ_max of the matrix that I_z(y)
    never exceeds, in units of s (NaN: it does not say). `pv.audit.certify` checks it.
    """

    mechanism: str
    label: str
    s: float
    mse: float
    standard_error: float
    median: float
    bound: float
    trials: int
    worst_information_over_s: float

    @property
    def kept(self) -> bool:
        """Whether the mechanism says that it keeps the level."""
        return self.worst_information_over_s <= 1 + ROUNDING


def fig1(
    levels: ArrayLike | None = None,
    *,
    methods: Sequence[Given] = tuple(PAPER),
    trials: int | None = None,
    rng: int | np.random.Generator = 1,
    model: pv.LinearModel | None = None,
    theta: ArrayLike | None = None,
    backend: str = "numpy",
    **running: Unpack[engine.Running],
) -> Figure[Point]:
    """`fig:ppcr`: the error of every method at every level s, against the private bound.

    levels       of S = sI; 0.1, 0.2, …, 10 if not given.
    methods      names of the paper's seven or of channels of the catalogue (also with "-output" or
                 "-least-squares" behind them), classes of your own channels, and functions of
                 (model, s) that return a mechanism and an estimator.
    trials       of every point: 2000; on a graphics processor 10⁶.
    model, theta  another y = Hθ + w, w white and Gaussian, and its true θ.
    backend      "cupy": on a graphics processor; other random numbers than "numpy".
    running      workers=: processes; progress=: called with (chunks done, all).
    """
    as_choice(backend, ("numpy", "cupy"), "backend")
    setting, seed = setting_of(model, theta), engine.seed_of(rng)
    chosen, values = _distinct([method_of(given) for given in methods]), _positive(levels)
    tasks = {
        (m.name, s): _task(f"{m.name} at {s!r}", backend, {"method": m, "s": s, "setting": setting})
        for m in chosen
        for s in values
    }
    _require_workers(chosen, backend, running)
    for method in chosen:  # a mistake shows now, not after hours
        tasks[method.name, values[0]].run(0, 2, seed)
    there = backend != "numpy"
    count = trials if trials is not None else DEVICE_TRIALS if there else TRIALS
    chunk = count if there else engine.CHUNK
    found = engine.monte_carlo(
        list(tasks.values()), trials=count, seed=seed, chunk=chunk, **running
    )
    errors = {place: found[task.key] for place, task in tasks.items()}
    points = _points(chosen, values, setting, errors)
    return Figure(LABEL, points, partial(_claims, setting=setting), _table, _draw)


def _points(
    methods: Sequence[Method],
    levels: Sequence[float],
    setting: Setting,
    errors: Mapping[tuple[str, float], engine.Summary],
) -> list[Point]:
    floor = {s: float(np.trace(pv.bound(setting.model, s).covariance)) for s in levels}
    points = []
    for method in methods:
        for s in levels:
            summary = errors[method.name, s]
            worst = _worst(method, s, setting) / s
            points.append(
                Point(
                    method.name, method.label, s, summary.mean, summary.standard_error,
                    summary.median, floor[s], summary.trials, worst,
                )
            )  # fmt: skip
    return points


def squared_errors(
    rng: np.random.Generator, trials: int, *, method: Method, s: float, setting: Setting
) -> Array:
    """‖θ̂ − θ‖² of every trial of one method at level s."""
    model, theta = setting.model, setting.theta
    mechanism, estimate = pair_of(method, model, s)
    z = mechanism.simulate(model.sample(theta, rng, trials), rng)
    found = estimates(method, estimate, z, len(theta))
    return np.asarray(((found - theta) ** 2).sum(axis=1))


def _task(key: str, backend: str, arguments: dict[str, Any]) -> engine.Task:
    if backend == "numpy":
        return engine.Task(key, squared_errors, arguments)
    return engine.Task(
        key, _on_device.squared_errors, {**arguments, "backend": backend}, counted=True
    )


def _distinct(methods: Sequence[Method]) -> list[Method]:
    names = [method.name for method in methods]
    if not names or len(set(names)) < len(names):
        raise InvalidInput(
            f"name at least one method, and each once; received {', '.join(names) or 'none'}."
        )
    return list(methods)


def _positive(levels: ArrayLike | None) -> list[float]:
    """Every level once, increasing."""
    given = np.arange(1, 101) / 10 if levels is None else levels
    values = np.unique(as_array(given, "the levels", ndim=(0, 1)))
    if values.size == 0 or values[0] <= 0:
        raise InvalidInput("the levels s must be numbers > 0, at least one.")
    return [float(s) for s in values]


def _require_workers(methods: Sequence[Method], backend: str, running: engine.Running) -> None:
    """Refuse a device that is not there, and methods that cannot be sent to other processes."""
    if backend != "numpy":
        as_backend(backend)
    if running.get("workers", 1) == 1:
        return
    if backend != "numpy":
        raise InvalidInput("on a graphics processor one process does the work: workers=1.")
    for method in methods:
        try:
            pickle.dumps(method)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise InvalidInput(
                f"method {method.name} cannot be sent to other processes: make it a function of a "
                "module or name it as FILE.py:NAME, or use one worker."
            ) from None


def _worst(method: Method, s: float, setting: Setting) -> float:
    """λ_max of the worst information; NaN where the mechanism does not know it."""
    worst = np.asarray(pair_of(method, setting.model, s)[0].worst_information())
    if np.isnan(worst).any():
        return float("nan")
    return float(np.linalg.eigvalsh(worst)[-1]) if np.isfinite(worst).all() else float("inf")


def _claims(points: Sequence[Point], setting: Setting) -> list[Claim]:
    """The paper's claims about the figure; all levels at once (Bonferroni)."""
    own = [p for p in points if p.mechanism == "gaussian"]
    limit = engine.beyond(FALSE_ALARM / (2.0 * max(len(own), 1)))
    claims = [_attains(own, limit, setting)] if own else []
    others = [p for p in points if p.mechanism != "gaussian" and p.kept]
    if others:
        silent = dict.fromkeys(p.mechanism for p in points if not p.kept)
        claims.append(_above(others, limit, tuple(silent)))
    return claims


def _attains(own: Sequence[Point], limit: float, setting: Setting) -> Claim:
    """Deviations of the Gaussian mechanism in exact standard deviations √(2 tr Σ²/N)."""
    deviations = []
    for p in own:
        shape = pv.bound(setting.model, p.s).covariance / p.bound
        deviation = np.sqrt(2.0 / p.trials) * np.linalg.norm(shape)
        deviations.append(float(abs(p.mse / p.bound - 1.0) / deviation))
    largest = max(deviations)
    return Claim(
        LABEL,
        "The Gaussian mechanism attains the private bound at every level.",
        largest <= limit,
        {
            "levels": len(own),
            "largest deviation in standard deviations": largest,
            "limit": limit,
        },
    )


def _above(others: Sequence[Point], limit: float, silent: Sequence[str]) -> Claim:
    below = [p for p in others if p.mse < p.bound - limit * p.standard_error]
    numbers: dict[str, float | int | str] = {
        "points": len(others),
        "below": len(below),
        "least MSE/bound": min(p.mse / p.bound for p in others),
    }
    if silent:
        numbers["not judged, as they state no worst information"] = ", ".join(silent)
    return Claim(LABEL, "No other mechanism is below it, beyond chance.", not below, numbers)


def _table(points: Sequence[Point]) -> Table:
    levels = np.array(sorted({p.s for p in points}))
    wanted = np.geomspace(levels[0], levels[-1], 3)
    shown = sorted({float(levels[np.abs(levels - s).argmin()]) for s in wanted})
    by = {(p.mechanism, p.s): p for p in points}
    rows = {
        printable(label): [f"{by[name, s].mse:.3g} ({by[name, s].median:.2g})" for s in shown]
        for name, label in dict.fromkeys((p.mechanism, p.label) for p in points)
    }
    bounds = {p.s: p.bound for p in points}
    rows["private bound"] = [f"{bounds[s]:.3g}" for s in shown]
    return Table("Mean-square error (median)", [f"s = {s:g}" for s in shown], rows)


def _draw(points: Sequence[Point]) -> draw.Picture:
    labels = {p.mechanism: p.label for p in points}
    rows = -(-(len(labels) + 1) // 2)  # of the legend; more than four of them go below
    figure = draw.new_figure(9.2, 6.0 + 0.22 * max(0, rows - 4))
    axes = figure.subplots()
    curves = draw.curves(points, labels, by="mechanism", along="s")
    for (name, own), style in zip(curves, draw.styles(len(labels))):
        s, mean, error = draw.columns(own, "s", "mse", "standard_error")
        draw.mean(
            axes, s, mean, error, **style, lw=1.2, ms=4.5, markevery=max(1, len(s) // 12),
            label=printable(labels[name]).replace("$", r"\$"),
        )  # fmt: skip
    draw.floor(axes, points, "s", "private bound: no unbiased estimate below", zorder=5)
    axes.set_yscale("log")
    if max(p.s for p in points) > WIDE * min(p.s for p in points):
        axes.set_xscale("log")
    axes.set_xlabel("privacy level s (Fisher information about each measurement, S = sI)")
    axes.set_ylabel("mean-square error of θ̂, summed")
    draw.open_frame(axes)
    trials = max(p.trials for p in points)
    axes.set_title(f"Mechanisms at the same privacy level, {trials:,} trials a point", loc="left")
    if rows <= 4:
        axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    else:
        figure.legend(frameon=False, fontsize=9, ncols=2, loc="outside lower center")
    return figure
