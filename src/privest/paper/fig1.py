"""The paper's first experiment (`fig:ppcr`): seven mechanisms with their estimators, one bound.

Every mechanism is calibrated to I_z(y) ≤ s·I for every y; every estimate is measured by Monte
Carlo against tr Σ_PPCR. The seven pairs are those of the paper's list. Where its text leaves a
choice, ours:

- the noise of 1/g has the width at which both suprema agree (`TruncatedInverse.calibrated`);
- the probabilistic quantiser has infinite information on its grid, truncated or not (an outcome
  whose probability vanishes linearly); the bounded one with triangular dither takes its place;
- output perturbation acts on (HᵀH)^½ θ̂, where one number calibrates all directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.estimator.likelihood import likelihood_of
from privest.paper import _drawing as draw
from privest.paper._engine import Claim, Record, Running, Task, beyond, monte_carlo
from privest.paper._first import NOISE_DEVIATION, THETA, first_model

Pair = tuple[pv.mechanism.Mechanism, Callable[[Array], Array]]
TRIALS = 2000
SEED = 1
LABEL = "fig:ppcr"
# Chance that a Gaussian mechanism that does attain the bound is said not to, over all levels.
FALSE_ALARM = 1e-3


def _entry(name: str) -> pv.mechanism.ChannelEntry:
    entry = pv.mechanism.CATALOGUE[name]
    assert isinstance(entry, pv.mechanism.ChannelEntry)
    return entry


def _gaussian(model: pv.LinearModel, s: float) -> Pair:
    """The optimal mechanism with weighted least squares (`optM`, `optEst`)."""
    kernel = pv.linalg.whitening(pv.PrivacyLevel(s).for_size(model.readings), model.covariance)
    rows = kernel.rows(model.matrix)

    def estimate(z: Array) -> Array:
        return np.asarray(pv.linalg.least_squares(rows, kernel.whiten(z.T))[0].T)

    return pv.mechanism.CATALOGUE["gaussian"].calibrated(s, model.readings), estimate


def _likelihood(name: str, model: pv.LinearModel, s: float) -> Pair:
    """Noise on the readings, then maximum likelihood."""
    mechanism = _entry(name).calibrated(s, model.readings)
    likelihood = likelihood_of(mechanism, NOISE_DEVIATION**2)

    def estimate(z: Array) -> Array:
        return np.asarray(pv.estimator.maximum_likelihood(model.matrix, z, likelihood).estimate)

    return mechanism, estimate


def _output(name: str, model: pv.LinearModel, s: float) -> Pair:
    """Noise on the least-squares estimate, which is then the estimate."""
    values, vectors = np.linalg.eigh(model.matrix.T @ model.matrix)
    back = (vectors / np.sqrt(values)) @ vectors.T  # (HᵀH)^-½
    return _entry(name).on_estimate(s, model.matrix), lambda z: np.asarray(z @ back)


class Method(NamedTuple):
    """One curve of the figure."""

    label: str
    pair: Callable[[pv.LinearModel, float], Pair]


INVERSE, QUANTISER = "truncated-inverse-gaussian", "triangular-quantiser"
METHODS = {
    "gaussian": Method("Gaussian, least squares (optimal)", _gaussian),
    "laplace": Method("Laplace on data, maximum likelihood", partial(_likelihood, "laplace")),
    "laplace-output": Method("Laplace on estimate", partial(_output, "laplace")),
    "cauchy": Method("Cauchy on data, maximum likelihood", partial(_likelihood, "cauchy")),
    "cos2-output": Method("cos² on estimate", partial(_output, "cos2")),
    INVERSE: Method(
        "1/Gaussian on data, truncated, maximum likelihood", partial(_likelihood, INVERSE)
    ),
    f"{QUANTISER}-output": Method("quantiser on estimate", partial(_output, QUANTISER)),
}


@dataclass(frozen=True)
class Point(Record):
    """One mechanism at one level. `mse` and its companions are of ‖θ̂ − θ‖²."""

    mechanism: str
    s: float
    mse: float
    standard_error: float
    median: float
    bound: float
    trials: int
    worst_information_over_s: float


def squared_errors(rng: np.random.Generator, trials: int, *, method: str, s: float) -> Array:
    """‖θ̂ − θ‖² of so many trials of one method at level s."""
    model = first_model()
    mechanism, estimate = METHODS[method].pair(model, s)
    z = mechanism.simulate(model.simulate(THETA, rng, trials), rng)
    return np.asarray(((estimate(z) - THETA) ** 2).sum(axis=1))


def figure_one(
    levels: Array,
    *,
    trials: int = TRIALS,
    seed: int = SEED,
    methods: tuple[str, ...] = tuple(METHODS),
    **running: Unpack[Running],
) -> list[Point]:
    """Every method at every level: measured error, bound, and its own worst information over s.

    The last is what the mechanism says of itself: λ_max of the matrix that I_z(y) never exceeds, in
    units of s. It does not change with s; `pv.audit.certify` checks it by numbers
    (`tests/contracts/test_certificates.py` does, for every mechanism of the catalogue).
    """
    cells = [(name, float(s)) for name in methods for s in levels]
    tasks = [
        Task(f"{name} at {s!r}", squared_errors, {"method": name, "s": s}) for name, s in cells
    ]
    found = monte_carlo(tasks, trials=trials, seed=seed, **running)
    model = first_model()
    floor = {s: float(np.trace(pv.bound(model, s).ppcrlb)) for _, s in cells}
    points = []
    for task, (name, s) in zip(tasks, cells):
        summary = found[task.key]
        worst = METHODS[name].pair(model, s)[0].worst_information()
        points.append(
            Point(
                mechanism=name,
                s=s,
                mse=summary.mean,
                standard_error=summary.standard_error,
                median=summary.median,
                bound=floor[s],
                trials=summary.trials,
                worst_information_over_s=float(np.linalg.eigvalsh(worst)[-1]) / s,
            )
        )
    return points


@dataclass(frozen=True)
class Verdict(Record):
    """Does the Gaussian mechanism attain the bound at every level, and does nobody beat it?

    `largest` is the largest |MSE − bound| of the Gaussian mechanism, in exact standard deviations
    √(2 tr Σ²/N); `threshold` the value it exceeds with probability `false_alarm` over all levels
    if it attains the bound. `below` counts points of the others below the bound by more than
    that many of their own standard errors.
    """

    largest: float
    threshold: float
    levels: int
    below: int
    others: int
    least_ratio: float

    @property
    def attained(self) -> bool:
        """The claim of the figure."""
        return self.largest <= self.threshold and self.below == 0

    def __str__(self) -> str:
        word = "attains" if self.largest <= self.threshold else "does NOT attain"
        return (
            f"The Gaussian mechanism {word} the bound at all {self.levels} levels: largest "
            f"deviation {self.largest:.2f} standard deviations (limit {self.threshold:.2f}). "
            f"Of {self.others} points of the others {self.below} lie below the bound; the closest "
            f"has {self.least_ratio:.3g} times its mean-square error."
        )


def attains(points: Sequence[Point], false_alarm: float) -> Verdict:
    """Judge the figure; all levels at once (Bonferroni)."""
    model = first_model()
    own = [p for p in points if p.mechanism == "gaussian"]
    others = [p for p in points if p.mechanism != "gaussian"]
    deviations = []
    for p in own:
        covariance = pv.bound(model, p.s).ppcrlb
        spread = float(np.sqrt(2.0 * np.sum(covariance**2) / p.trials))
        deviations.append(abs(p.mse - p.bound) / spread)
    threshold = beyond(false_alarm / (2.0 * len(own)))
    below = [p for p in others if p.mse < p.bound - threshold * p.standard_error]
    return Verdict(
        largest=max(deviations),
        threshold=threshold,
        levels=len(own),
        below=len(below),
        others=len(others),
        least_ratio=min((p.mse / p.bound for p in others), default=np.nan),
    )


def claims(points: Sequence[Point], false_alarm: float = FALSE_ALARM) -> list[Claim]:
    """What the paper says of the figure, judged on these points."""
    found = attains(points, false_alarm)
    return [
        Claim(
            LABEL,
            "fig1",
            "The Gaussian mechanism attains the private bound at every level.",
            found.largest <= found.threshold,
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


COLOURS = ("#1b9e77", "#d95f02", "#e6ab02", "#7570b3", "#66a61e", "#a6761d", "#e7298a")
MARKS = "osD^vPX"
STYLES = dict(zip(METHODS, zip(COLOURS, MARKS)))


def save_figure(points: Sequence[Point], path: Path) -> None:
    """Write the figure: mean-square error with 95 % bands on a log scale, and the bound."""
    figure = draw.new_figure(9.2, 6.0)
    axes = figure.subplots()
    for name, own in draw.curves(points, METHODS, by="mechanism", along="s"):
        colour, mark = STYLES[name]
        s, mean, error = draw.columns(own, "s", "mse", "standard_error")
        draw.mean(
            axes, s, mean, error, colour=colour, lw=1.2, marker=mark, ms=4.5,
            markevery=max(1, len(s) // 12), label=METHODS[name].label,
        )  # fmt: skip
    draw.floor(axes, points, "s", "private bound: no expected error below", zorder=5)
    axes.set_yscale("log")
    axes.set_xlabel("privacy level s (Fisher information about each reading, S = sI)")
    axes.set_ylabel("mean-square error of θ̂, summed")
    trials = max(p.trials for p in points)
    axes.set_title(
        f"Seven mechanisms at the same privacy level, {trials:,} trials a point", loc="left"
    )
    draw.open_frame(axes)
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    draw.save(figure, path)
