"""A mean under non-Gaussian noise: estimate, then release (`fig:ml`).

y_k = θ + w_k, θ = 0.53, w Laplacian of variance 1 (or another law), budget tr I_z(Y) = K: λ = 1/K.
Four ways to the same budget:

- optimal: the score of least J(ψ), with Gaussian noise;
- likelihood: the paper's `algo:mult`. For Laplacian noise its release noise does not exist
  (E l''² = ∞); there the likelihood is smoothed by N(0, h²), h the bandwidth of least loss;
- averaging with Gaussian and with Laplacian noise (Cai et al. 2021).

Two floors: `bound`, for any mechanism and any unbiased estimate, 1/(KI) + 1/(Ks); and `floor`,
J*(1/s)/K, for every unbiased T(Y) plus independent Gaussian noise under E tr I_z(Y) ≤ s, at every K
(docs/theory.md 7). For Gaussian noise they agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Unpack

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.paper import _drawing as draw
from privest.paper._engine import Claim, Record, Running, Task, beyond, monte_carlo

LABEL = "fig:ml"
THETA = 0.53
TRIALS = 5000
SEED = 4
FALSE_ALARM = 1e-3
LAWS: dict[str, pv.noise.ScalarLaw] = {
    "laplace": pv.noise.Laplace(scale=0.5**0.5),
    "cauchy": pv.noise.Cauchy(scale=1.0),
    "student-t": pv.noise.StudentT(df=3.0, scale=1.0),
    "logistic": pv.noise.Logistic(scale=1.0),
    # 80 % narrow and below, 20 % wide and above: mean 0, long tail to the right.
    "skewed": pv.noise.GaussianMixture(weights=(0.8, 0.2), means=(-0.5, 2.0), sds=(0.6, 1.5)),
}
LABELS = {
    "optimal": "optimal score, Gaussian noise",
    "likelihood": "maximum likelihood, Gaussian noise (paper)",
    "averaging-gaussian": "average, Gaussian noise",
    "averaging-laplace": "average, Laplacian noise",
}
ENTRIES = 4_000_000  # readings simulated at a time


def counts(points: int = 13, largest: float = 1e4) -> list[int]:
    """K from 10 to 10⁴, evenly on a log scale."""
    return sorted({round(k) for k in np.geomspace(10, largest, points)})


def law_named(noise: str) -> pv.noise.ScalarLaw:
    """The noise law of one version of the experiment."""
    if noise not in LAWS:
        raise pv.errors.InvalidInput(f"--noise is one of {', '.join(LAWS)}; received {noise!r}.")
    return LAWS[noise]


def methods(noise: str) -> list[str]:
    """The methods that exist for a law: the average of Cauchy noise has no finite variance."""
    averages = np.isfinite(law_named(noise).variance)
    return [name for name in LABELS if averages or not name.startswith("averaging")]


def _likelihood(model: pv.LinearModel, budget: float) -> pv.pipeline.OutputPerturbation:
    smooth = np.isfinite(model.noise.laws[0].expected_squared_curvature)  # type: ignore[attr-defined]
    return pv.pipeline.OutputPerturbation(
        model, budget, score="likelihood", bandwidth=None if smooth else "best"
    )


PIPELINES: dict[str, Callable[[pv.LinearModel, float], pv.pipeline.OutputPerturbation]] = {
    "optimal": pv.pipeline.OutputPerturbation,
    "likelihood": _likelihood,
    "averaging-gaussian": lambda model, s: pv.pipeline.OutputPerturbation(
        model, s, score="least_squares"
    ),
    "averaging-laplace": lambda model, s: pv.pipeline.OutputPerturbation(
        model, s, score="least_squares", noise=pv.noise.Laplace(1.0)
    ),
}


@lru_cache(maxsize=256)
def pipeline(method: str, noise: str, count: int) -> pv.pipeline.OutputPerturbation:
    """One method for K = `count` readings and the budget s = K."""
    model = pv.LinearModel(np.ones((count, 1)), noise=law_named(noise))
    return PIPELINES[method](model, float(count))


def squared_errors(
    rng: np.random.Generator, trials: int, *, method: str, noise: str, count: int
) -> Array:
    """(z − θ)² of so many simulated releases."""
    own = pipeline(method, noise, count)
    parts = []
    for at in range(0, trials, max(1, ENTRIES // count)):
        some = min(max(1, ENTRIES // count), trials - at)
        y = own.model.simulate([THETA], rng, some)
        with warnings.catch_warnings():  # how far few readings are off is what is measured here
            warnings.simplefilter("ignore", pv.errors.FewReadings)
            parts.append((own.simulate(y, rng).estimate[:, 0] - THETA) ** 2)
    return np.concatenate(parts)


def realised_ratios(
    rng: np.random.Generator, trials: int, *, method: str, noise: str, count: int
) -> Array:
    """tr I_z(Y)/s of simulated data sets."""
    return pipeline(method, noise, count).ratios(rng, trials)


@dataclass(frozen=True)
class Point(Record):
    """One method with K readings; `mse` and its companions are of (z − θ)².

    predicted    its loss for K → ∞.
    bound        for any mechanism and unbiased estimate; `floor` for estimates with added noise.
    bandwidth    of the smoothed likelihood; None elsewhere.
    realised_mean, realised_median: of tr I_z(Y)/s over simulated data sets; exactly 1 for averages.
    """

    method: str
    noise: str
    count: int
    mse: float
    standard_error: float
    median: float
    predicted: float
    bound: float
    floor: float
    trials: int
    bandwidth: float | None
    realised_mean: float
    realised_median: float


def figure_four(
    noise: str = "laplace",
    ks: Sequence[int] | None = None,
    *,
    trials: int = TRIALS,
    seed: int = SEED,
    **running: Unpack[Running],
) -> list[Point]:
    """Every method at every K."""
    cells = [(method, k) for method in methods(noise) for k in (ks or counts())]
    errors = [_task("error", squared_errors, m, noise, k) for m, k in cells]
    ratios = [
        _task("realised", realised_ratios, m, noise, k)
        for m, k in cells
        if not m.startswith("averaging")
    ]
    found = monte_carlo([*errors, *ratios], trials=trials, seed=seed, **running)
    points = []
    for task, (method, k) in zip(errors, cells):
        own = pipeline(method, noise, k)
        summary = found[task.key]
        realised = found.get(_key("realised", method, noise, k))
        points.append(
            Point(
                method=method,
                noise=noise,
                count=k,
                mse=summary.mean,
                standard_error=summary.standard_error,
                median=summary.median,
                predicted=own.limit_loss,
                bound=own.private_bound,
                floor=pipeline("optimal", noise, k).limit_loss,
                trials=summary.trials,
                bandwidth=own.bandwidth,
                realised_mean=1.0 if realised is None else realised.mean,
                realised_median=1.0 if realised is None else realised.median,
            )
        )
    return points


def _key(what: str, method: str, noise: str, count: int) -> str:
    return f"{what} of {method}, {noise}, {count} readings"


def _task(what: str, work: Callable[..., Array], method: str, noise: str, count: int) -> Task:
    arguments = {"method": method, "noise": noise, "count": count}
    # All methods see the same readings.
    stream = f"{noise}, {count} readings"
    return Task(_key(what, method, noise, count), work, arguments, stream)


def claims(points: Sequence[Point], false_alarm: float = FALSE_ALARM) -> list[Claim]:
    """What the paper says of the figure, and what holds at every K, judged on these points."""
    own = {p.count: p for p in points if p.method == "optimal"}
    last = own[max(own)]
    limit = beyond(false_alarm / max(1, len(points)))
    below = [p for p in points if p.mse < p.floor - limit * p.standard_error]
    found = [
        _claim(
            "The ML-based release is close to the private bound (its measured error at the largest "
            "K is within 3/√K of what is predicted).",
            last.mse - limit * last.standard_error <= (1 + 3 / last.count**0.5) * last.predicted,
            {
                "K": last.count,
                "above the bound": last.mse / last.bound - 1,
                "above the floor": last.mse / last.floor - 1,
            },
        ),
        _claim(
            "No estimate with added noise lies below J*(1/s)/K, at any K, beyond chance.",
            not below,
            {"points": len(points), "below": len(below), "limit in standard errors": limit},
        ),
    ]
    averages = [p for p in points if p.method.startswith("averaging")]
    return [*found, _claim_averages(own, averages)] if averages else found


def _claim_averages(own: Mapping[int, Point], averages: Sequence[Point]) -> Claim:
    ratios = [p.mse / own[p.count].mse for p in averages if p.count >= 100]
    return _claim(
        "Direct averaging has larger errors (K ≥ 100).",
        all(ratio > 1 for ratio in ratios),
        {"points": len(ratios), "least ratio": float(min(ratios, default=np.nan))},
    )


def _claim(sentence: str, holds: bool, numbers: Mapping[str, float | int | str]) -> Claim:
    return Claim(LABEL, "fig4", sentence, holds, numbers)


STYLE = {
    "optimal": ("#1b9e77", "o"),
    "likelihood": ("#7570b3", "s"),
    "averaging-gaussian": ("#d95f02", "^"),
    "averaging-laplace": ("#e6ab02", "v"),
}
NAMES = {
    "laplace": "Laplacian noise of variance 1",
    "cauchy": "Cauchy noise",
    "student-t": "Student-t noise, 3 degrees of freedom",
    "logistic": "logistic noise",
    "skewed": "a skewed mixture as noise",
}
FLOOR = {"color": "#555555", "lw": 1.2, "ls": "-."}


def save_figure(points: Sequence[Point], path: Path) -> None:
    """Write the figure: errors and bound on log scales; below, all divided by the bound."""
    figure = draw.new_figure(9.0, 7.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
    for name, own in draw.curves(points, STYLE, by="method", along="count"):
        _draw(above, below, name, own)
    optimal = sorted((p for p in points if p.method == "optimal"), key=lambda p: p.count)
    count, bound, floor = draw.columns(optimal, "count", "bound", "floor")
    above.plot(count, bound, **draw.BOUND, label="private bound: no expected error below")
    above.plot(count, floor, **FLOOR, label="floor of estimates with added noise")
    below.axhline(1.0, **draw.BOUND)
    below.plot(count, floor / bound, **FLOOR)
    above.set_xscale("log")
    above.set_yscale("log")
    above.set_ylabel("mean-square error of the released mean")
    below.set_ylabel("divided by the private bound")
    below.set_xlabel("readings K (budget tr I = K); dotted: predicted for large K")
    # Heavy tails give single wild points: the lower panel shows what most of them say.
    shown = [p.mse / p.bound for p in points]
    below.set_ylim(0.93, min(max(shown) * 1.05, 1.3 * float(np.quantile(shown, 0.9))))
    trials = max(p.trials for p in points)
    above.set_title(
        f"A private mean under {NAMES[points[0].noise]}, {trials:,} trials a point", loc="left"
    )
    draw.open_frame(above, below)
    above.legend(frameon=False, fontsize=9)
    draw.save(figure, path)


def _draw(above: draw.Axes, below: draw.Axes, name: str, own: Sequence[Point]) -> None:
    """One method: measured, and below what is predicted for large K."""
    colour, mark = STYLE[name]
    count, mse, error, bound, predicted = draw.columns(
        own, "count", "mse", "standard_error", "bound", "predicted"
    )
    label = LABELS[name]
    if own[0].bandwidth is not None:
        label += f",\nlikelihood smoothed, h = {own[0].bandwidth:.2g} … {own[-1].bandwidth:.2g}"
    # Two methods may agree to the width of a line: the paper's is hollow, around ours.
    dot = {"mfc": "none", "ms": 9} if name == "likelihood" else {"ms": 5}
    for axes, unit in ((above, np.ones_like(bound)), (below, bound)):
        draw.mean(
            axes, count, mse, error, unit=unit, colour=colour, lw=1.3, marker=mark, label=label,
            **dot,
        )  # fmt: skip
    below.plot(count, predicted / bound, color=colour, lw=0.9, ls=":")
