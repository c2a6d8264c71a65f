"""The paper's first experiment (`fig:ppcr`): mechanisms with their estimators, one bound.

Every mechanism is calibrated to I_z(y) ≤ s·I for every y; every estimate is measured by Monte
Carlo against tr Σ_PPCR. The pairs of the paper's list, and how to bring your own: `_methods.py`.

    fig1.figure_one([0.1, 1.0], methods=["gaussian", my_method], setting=fig1.Setting(H, θ, σ))
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

import privest as pv
from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.estimator.device import as_backend
from privest.paper import _drawing as draw
from privest.paper import _on_device
from privest.paper._engine import (
    CHUNK,
    Claim,
    Record,
    Running,
    Task,
    Unit,
    beyond,
    monte_carlo,
    run_unit,
)
from privest.paper._first import NOISE_DEVIATION as DEVIATION
from privest.paper._first import Setting, paper_setting
from privest.paper._methods import LABELS, PAPER, MakePair, Method, estimates, method_of, pair_of
from privest.report import printable

__all__ = [
    "DEVIATION", "METHODS", "PAPER", "SEED", "TRIALS", "Claim", "Method", "Point", "Setting",
    "Verdict", "attains", "claims", "figure_one", "method_of", "save_figure",
]  # fmt: skip

TRIALS = 2000
DEVICE_TRIALS = 1_000_000  # of a point on a graphics processor
DEVICES = ("cpu", "gpu")
SEED = 1
LABEL = "fig:ppcr"
# Chance that a Gaussian mechanism that does attain the bound is said not to, over all levels.
FALSE_ALARM = 1e-3
# What rounding may add to a supremum that is exactly the level.
ROUNDING = 1e-9
# Levels that span more than this are drawn on a log scale.
WIDE = 500.0
METHODS = {name: method_of(name) for name in LABELS}


@dataclass(frozen=True)
class Point(Record):
    """One mechanism at one level. `mse` and its companions are of ‖θ̂ − θ‖².

    `worst_information_over_s` is what the mechanism says of itself: λ_max of the matrix that I_z(y)
    never exceeds, in units of s (NaN: it does not say). `pv.audit.certify` checks that by numbers
    (`tests/contracts/test_certificates.py` does, for every mechanism of the catalogue).
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


def squared_errors(
    rng: np.random.Generator, trials: int, *, method: Method, s: float, setting: Setting
) -> Array:
    """‖θ̂ − θ‖² of so many trials of one method at level s."""
    model, theta = setting.model, setting.theta
    mechanism, estimate = pair_of(method, model, s)
    z = mechanism.simulate(model.simulate(theta, rng, trials), rng)
    found = estimates(method, estimate, z, len(theta))
    return np.asarray(((found - theta) ** 2).sum(axis=1))


def figure_one(
    levels: ArrayLike,
    *,
    trials: int = TRIALS,
    seed: int = SEED,
    methods: Sequence[str | Method | MakePair] = tuple(PAPER),
    setting: Setting | None = None,
    device: str = "cpu",
    **running: Unpack[Running],
) -> list[Point]:
    """Every method at every level: measured error, bound, and its own worst information over s.

    `methods`: names (`METHODS`, or any channel of the catalogue), and your own: a function of
    (model, s) that returns a mechanism and an estimator. With several workers it must be one of a
    module (other processes import it). `setting`: H, θ and σ; the paper's, if not given.
    `device`: "gpu" makes readings, releases and estimates on a graphics processor, from numbers
    that are a function of (seed, point, trial) (`Counter`; other numbers than the processor's).
    """
    setting = setting or paper_setting()
    _require_device(device, running)
    chosen = _distinct([method_of(given) for given in methods])
    values = _positive(levels)
    worst = {(m.name, s): _worst(m, s, setting) for m in chosen for s in values}
    floor = {s: float(np.trace(pv.bound(setting.model, s).covariance)) for s in values}
    tasks = {
        (m.name, s): _task(f"{m.name} at {s!r}", device, {"method": m, "s": s, "setting": setting})
        for m in chosen
        for s in values
    }
    for method in chosen:  # a mistake shows now, not after hours
        if running.get("workers", 1) > 1 or running.get("executor") is not None:
            _require_portable(method)
        run_unit(Unit(tasks[method.name, values[0]], 0, 2), seed)
    chunk = trials if device == "gpu" else CHUNK
    found = monte_carlo(list(tasks.values()), trials=trials, seed=seed, chunk=chunk, **running)
    points = []
    for method in chosen:
        for s in values:
            summary = found[tasks[method.name, s].key]
            points.append(
                Point(
                    mechanism=method.name,
                    label=method.label,
                    s=s,
                    mse=summary.mean,
                    standard_error=summary.standard_error,
                    median=summary.median,
                    bound=floor[s],
                    trials=summary.trials,
                    worst_information_over_s=worst[method.name, s] / s,
                )
            )
    return points


def _task(key: str, device: str, arguments: dict[str, Any]) -> Task:
    """The work of one point, on the processor or on the device."""
    if device == "cpu":
        return Task(key, squared_errors, arguments)
    return Task(key, _on_device.squared_errors, {**arguments, "backend": "cupy"}, counted=True)


def _require_device(device: str, running: Running) -> None:
    """It is known, there, and the only one to work."""
    if device not in DEVICES:
        raise InvalidInput(f"the device must be {' or '.join(DEVICES)}; received {device!r}.")
    if device == "cpu":
        return
    if running.get("workers", 1) > 1 or running.get("executor") is not None:
        raise InvalidInput("on a graphics processor one process does the work: workers=1.")
    as_backend("cupy")


def _distinct(methods: Sequence[Method]) -> list[Method]:
    if not methods:
        raise InvalidInput("no methods were given: name at least one.")
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        raise InvalidInput(f"every method needs a name of its own; received {', '.join(names)}.")
    return list(methods)


def _positive(levels: ArrayLike) -> list[float]:
    """Every level once, increasing."""
    values = np.unique(as_array(levels, "the levels", ndim=(0, 1)))
    if values.size == 0 or values[0] <= 0:
        raise InvalidInput("the levels s must be numbers > 0, at least one.")
    return [float(s) for s in values]


def _require_portable(method: Method) -> None:
    try:
        pickle.dumps(method)
    except (pickle.PicklingError, AttributeError, TypeError):
        raise InvalidInput(
            f"method {method.name} cannot be sent to other processes: make it a function of a "
            "module or name it as FILE.py:NAME, or use one worker."
        ) from None


def _worst(method: Method, s: float, setting: Setting) -> float:
    """λ_max of the worst information; NaN where the mechanism does not know it."""
    worst = pair_of(method, setting.model, s)[0].worst_information()
    if np.isnan(worst).any():
        return float("nan")
    return float(np.linalg.eigvalsh(worst)[-1]) if np.isfinite(worst).all() else float("inf")


@dataclass(frozen=True)
class Verdict(Record):
    """Does the Gaussian mechanism attain the bound at every level, and does nobody beat it?

    `largest` is the largest |MSE − bound| of the Gaussian mechanism, in exact standard deviations
    √(2 tr Σ²/N); `threshold` the value it exceeds with probability `false_alarm` over all levels
    if it attains the bound. `below` counts points of the others below the bound by more than
    that many of their own standard errors. `not_judged` names mechanisms that do not say they keep
    the level: for them there is no bound. Nor is there one for biased estimates.
    """

    largest: float
    threshold: float
    levels: int
    below: int
    others: int
    least_ratio: float
    not_judged: tuple[str, ...] = ()

    @property
    def attained(self) -> bool:
        """The claim of the figure."""
        return self.levels > 0 and self.largest <= self.threshold and self.below == 0

    def __str__(self) -> str:
        word = "attains" if self.largest <= self.threshold else "does NOT attain"
        where = f"all {self.levels} levels" if self.levels > 1 else "the one level"
        parts = [
            self.levels
            and f"The Gaussian mechanism {word} the bound at {where}: largest "
            f"deviation {self.largest:.2f} standard deviations (limit {self.threshold:.2f}).",
            self.others
            and f"Of {self.others} points of the others {self.below} lie below the bound; the "
            f"closest has {self.least_ratio:.3g} times its mean-square error.",
            self.not_judged
            and f"Not judged, for they do not say that they keep the level: "
            f"{', '.join(self.not_judged)} (worst_information; ask privest.audit.certify).",
        ]
        return " ".join(part for part in parts if part)


def attains(points: Sequence[Point], false_alarm: float, setting: Setting | None = None) -> Verdict:
    """Judge the figure; all levels at once (Bonferroni)."""
    model = (setting or paper_setting()).model
    own = [p for p in points if p.mechanism == "gaussian"]
    others = [p for p in points if p.mechanism != "gaussian" and p.kept]
    deviations = []
    for p in own:
        shape = pv.bound(model, p.s).covariance / p.bound
        spread = float(np.sqrt(2.0 / p.trials) * np.linalg.norm(shape))
        deviations.append(abs(p.mse / p.bound - 1.0) / spread)
    threshold = beyond(false_alarm / (2.0 * max(len(own), 1)))
    below = [p for p in others if p.mse < p.bound - threshold * p.standard_error]
    return Verdict(
        largest=max(deviations, default=np.nan),
        threshold=threshold,
        levels=len(own),
        below=len(below),
        others=len(others),
        least_ratio=min((p.mse / p.bound for p in others), default=np.nan),
        not_judged=tuple(dict.fromkeys(p.mechanism for p in points if not p.kept)),
    )


def claims(points: Sequence[Point], false_alarm: float = FALSE_ALARM) -> list[Claim]:
    """What the paper says of the figure, judged on points of its own set-up."""
    found = attains(points, false_alarm)
    return [
        Claim(
            LABEL,
            "fig1",
            "The Gaussian mechanism attains the private bound at every level.",
            found.levels > 0 and found.largest <= found.threshold,
            {
                "levels": found.levels,
                "largest deviation in standard deviations": found.largest,
                "limit": found.threshold,
            },
        ),
        Claim(
            LABEL,
            "fig1",
            "No other mechanism is below it, beyond chance.",
            found.below == 0,
            {"points": found.others, "below": found.below, "least MSE/bound": found.least_ratio},
        ),
    ]


def save_figure(points: Sequence[Point], path: Path) -> None:
    """Write the figure: mean-square error with 95 % bands on a log scale, and the bound."""
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
    draw.floor(axes, points, "s", "private bound: no expected error below", zorder=5)
    axes.set_yscale("log")
    if max(p.s for p in points) > WIDE * min(p.s for p in points):
        axes.set_xscale("log")
    axes.set_xlabel("privacy level s (Fisher information about each reading, S = sI)")
    axes.set_ylabel("mean-square error of θ̂, summed")
    draw.open_frame(axes)
    trials = max(p.trials for p in points)
    number = draw.in_words(len(labels))
    axes.set_title(f"{number} at the same privacy level, {trials:,} trials a point", loc="left")
    if rows <= 4:
        axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    else:
        figure.legend(frameon=False, fontsize=9, ncols=2, loc="outside lower center")
    draw.save(figure, path)
