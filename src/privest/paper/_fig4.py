"""A mean under non-Gaussian noise: estimate, then release (`fig:ml`).

y_k = θ + w_k, θ = 0.53, w Laplacian of variance 1 (or another distribution), budget tr I_z(Y) = K:

- optimal: the score of least J(ψ), with Gaussian noise;
- likelihood: the paper's `algo:mult`. For Laplacian noise its release noise does not exist
  (E l''² = ∞); there the likelihood is smoothed by N(0, h²), h the bandwidth of least loss;
- averaging with Gaussian and with Laplacian noise (Cai et al. 2021).

Two floors: `bound`, for any mechanism and unbiased estimate, 1/(KI) + 1/(Ks); and `floor`,
J*(1/s)/K, for every unbiased T(Y) plus independent Gaussian noise (theory.md 7).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Unpack

import numpy as np

import privest as pv
from privest.arrays import Array, as_choice
from privest.mechanism import OutputPerturbation
from privest.paper import _figure as draw
from privest.paper._engine import Running, Summary, Task, beyond, monte_carlo, seed_of
from privest.paper._figure import Claim, Figure, Table
from privest.records import Record

LABEL = "fig:ml"
THETA = 0.53
TRIALS = 5000
FALSE_ALARM = 1e-3
DISTRIBUTIONS: dict[str, pv.noise.Distribution] = {
    "laplace": pv.noise.Laplace(scale=0.5**0.5),
    "cauchy": pv.noise.Cauchy(scale=1.0),
    "student-t": pv.noise.StudentT(df=3.0, scale=1.0),
    "logistic": pv.noise.Logistic(scale=1.0),
    # 80% narrow and below, 20% wide and above: mean 0, long tail to the right.
    "skewed": pv.noise.GaussianMixture(weights=(0.8, 0.2), means=(-0.5, 2.0), sds=(0.6, 1.5)),
}
METHODS = {
    "optimal": "optimal score, Gaussian noise",
    "likelihood": "maximum likelihood, Gaussian noise (paper)",
    "averaging-gaussian": "average, Gaussian noise",
    "averaging-laplace": "average, Laplacian noise",
}
ENTRIES = 4_000_000  # measurements simulated at a time


@dataclass(frozen=True)
class Point(Record):
    """One method with K measurements; `mse` and its companions are of (z − θ)².

    predicted    its loss for K → ∞.
    bound        for any mechanism and unbiased estimate; `floor` for estimates with added noise.
    bandwidth    of the smoothed likelihood; None elsewhere.
    realised_mean, realised_median: of tr I_z(Y)/s over simulated data sets; 1 for averages.
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


def fig4(
    noise: str = "laplace",
    counts: Sequence[int] | None = None,
    *,
    methods: Sequence[str] | None = None,
    trials: int | None = None,
    rng: int | np.random.Generator = 4,
    **running: Unpack[Running],
) -> Figure[Point]:
    """`fig:ml`: a private mean under non-Gaussian noise, by four methods of one budget.

    noise    "laplace" (the paper's), "cauchy", "student-t", "logistic" or "skewed".
    counts   K; 13 from 10 to 10⁴ if not given.
    methods  "likelihood", "averaging-gaussian", "averaging-laplace", beside "optimal".
    running  workers=: processes; progress=: called with (chunks done, all).
    """
    law = DISTRIBUTIONS[as_choice(noise, tuple(DISTRIBUTIONS), "noise")]
    # The average of Cauchy noise has no finite variance.
    known = [m for m in METHODS if np.isfinite(law.variance) or not m.startswith("averaging")]
    names = ["optimal", *draw.chosen(methods, known[1:])]
    ks = counts or sorted({round(k) for k in np.geomspace(10, 1e4, 13)})
    cells = [(method, k) for method in names for k in ks]
    errors = [_task("error", squared_errors, m, noise, k) for m, k in cells]
    ratios = [
        _task("realised", realised_ratios, m, noise, k)
        for m, k in cells
        if not m.startswith("averaging")
    ]
    count = TRIALS if trials is None else trials
    found = monte_carlo([*errors, *ratios], trials=count, seed=seed_of(rng), **running)
    points = [
        _point(m, noise, k, found[task.key], found.get(_key("realised", m, noise, k)))
        for task, (m, k) in zip(errors, cells)
    ]
    return Figure(LABEL, points, _claims, _table, _draw)


def _point(method: str, noise: str, count: int, errors: Summary, realised: Summary | None) -> Point:
    own = perturbation(method, noise, count)
    return Point(
        method=method,
        noise=noise,
        count=count,
        mse=errors.mean,
        standard_error=errors.standard_error,
        median=errors.median,
        predicted=own.limit_loss,
        bound=own.private_bound,
        floor=perturbation("optimal", noise, count).limit_loss,
        trials=errors.trials,
        bandwidth=own.bandwidth,
        realised_mean=1.0 if realised is None else realised.mean,
        realised_median=1.0 if realised is None else realised.median,
    )


@lru_cache(maxsize=256)
def perturbation(method: str, noise: str, count: int) -> OutputPerturbation:
    """One method for K = `count` measurements and the budget s = K."""
    law = DISTRIBUTIONS[noise]
    model, how = pv.LinearModel(np.ones((count, 1)), noise=law), dict[str, Any]()
    if method == "likelihood":
        smooth = np.isfinite(law.expected_squared_curvature)
        how = {"score": "likelihood", "bandwidth": None if smooth else "best"}
    elif method != "optimal":
        wide = pv.noise.Laplace(1.0) if method == "averaging-laplace" else None
        how = {"score": "least_squares", "noise": wide}
    return OutputPerturbation(model, float(count), **how)


def squared_errors(
    rng: np.random.Generator, trials: int, *, method: str, noise: str, count: int
) -> Array:
    """(z − θ)² of simulated releases."""
    own = perturbation(method, noise, count)
    parts = []
    for at in range(0, trials, max(1, ENTRIES // count)):
        some = min(max(1, ENTRIES // count), trials - at)
        y = own.model.sample([THETA], rng, some)
        with warnings.catch_warnings():  # the error of few measurements is what is measured here
            warnings.simplefilter("ignore", pv.errors.SmallSampleWarning)
            parts.append((own.simulate(y, rng).value[:, 0] - THETA) ** 2)
    return np.concatenate(parts)


def realised_ratios(
    rng: np.random.Generator, trials: int, *, method: str, noise: str, count: int
) -> Array:
    """tr I_z(Y)/s of simulated data sets."""
    return perturbation(method, noise, count).ratios(rng, trials)


def _key(what: str, method: str, noise: str, count: int) -> str:
    return f"{what} of {method}, {noise}, {count} readings"


def _task(what: str, work: Callable[..., Array], method: str, noise: str, count: int) -> Task:
    arguments = {"method": method, "noise": noise, "count": count}
    # All methods see the same measurements.
    stream = f"{noise}, {count} readings"
    return Task(_key(what, method, noise, count), work, arguments, stream)


def _claims(points: Sequence[Point]) -> list[Claim]:
    """The paper's claims about the figure, and what holds at every K, judged on these points."""
    own = {p.count: p for p in points if p.method == "optimal"}
    last = own[max(own)]
    limit = beyond(FALSE_ALARM / len(points))
    below = [p for p in points if p.mse < p.floor - limit * p.standard_error]
    found = [
        Claim(
            LABEL,
            "The ML-based release is close to the private bound (its measured error at the largest "
            "K is within 3/√K of what is predicted).",
            last.mse - limit * last.standard_error <= (1 + 3 / last.count**0.5) * last.predicted,
            {
                "K": last.count,
                "above the bound": last.mse / last.bound - 1,
                "above the floor": last.mse / last.floor - 1,
            },
        ),
        Claim(
            LABEL,
            "No estimate with added noise lies below J*(1/s)/K, at any K, beyond chance.",
            not below,
            {"points": len(points), "below": len(below), "limit in standard errors": limit},
        ),
    ]
    averages = [p for p in points if p.method.startswith("averaging")]
    return [*found, _claim_averages(own, averages)] if averages else found


def _claim_averages(own: Mapping[int, Point], averages: Sequence[Point]) -> Claim:
    ratios = [p.mse / own[p.count].mse for p in averages if p.count >= 100]
    return Claim(
        LABEL,
        "Direct averaging has larger errors (K ≥ 100).",
        all(ratio > 1 for ratio in ratios),
        {"points": len(ratios), "least ratio": float(min(ratios, default=np.nan))},
    )


def _table(points: Sequence[Point]) -> Table:
    counts = sorted({p.count for p in points})
    shown = [counts[0], counts[len(counts) // 2], counts[-1]]
    by = {(p.method, p.count): p for p in points}
    rows = {
        METHODS[name]: [f"{by[name, k].mse / by[name, k].bound:.3f}" for k in shown]
        for name in dict.fromkeys(p.method for p in points)
    }
    own = [by["optimal", k] for k in shown]
    rows["floor of estimates with added noise"] = [f"{p.floor / p.bound:.3f}" for p in own]
    rows["the private bound itself"] = [f"{p.bound:.3g}" for p in own]
    title = "Mean-square error as a multiple of the private bound"
    remarks = _remarks([p for p in points if p.count in shown], own)
    return Table(title, [f"K = {k:,}" for k in shown], rows, remarks)


def _remarks(points: Sequence[Point], own: Sequence[Point]) -> list[str]:
    remarks = []
    smooth = [p for p in points if p.bandwidth is not None]
    if smooth:
        widths = ", ".join(f"{p.bandwidth:.3g} (K = {p.count:,})" for p in smooth)
        remarks.append(
            "E l''² is infinite for this distribution: the paper's release noise does not exist. "
            f"Its likelihood was smoothed by a Gaussian of standard deviation {widths}."
        )
    if not np.isfinite(DISTRIBUTIONS[points[0].noise].variance):
        remarks.append("This distribution has no mean: averages estimate nothing.")
    medians = ", ".join(f"{p.realised_median:.3f} (K = {p.count:,})" for p in own)
    remarks.append(
        f"The budget is met in the limit: median of tr I/s over data sets {medians}; about half "
        "of all data sets lie above 1."
    )
    return remarks


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


def _draw(points: Sequence[Point]) -> draw.Picture:
    figure = draw.new_figure(9.0, 7.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
    for name, own in draw.curves(points, STYLE, by="method", along="count"):
        _draw_method(above, below, name, own)
    optimal = sorted((p for p in points if p.method == "optimal"), key=lambda p: p.count)
    count, bound, floor = draw.columns(optimal, "count", "bound", "floor")
    above.plot(count, bound, **draw.BOUND, label="private bound: no unbiased estimate below")
    above.plot(count, floor, **FLOOR, label="floor of estimates with added noise")
    below.axhline(1.0, **draw.BOUND)
    below.plot(count, floor / bound, **FLOOR)
    above.set_xscale("log")
    above.set_yscale("log")
    above.set_ylabel("mean-square error of the released mean")
    below.set_ylabel("divided by the private bound")
    below.set_xlabel("measurements K (budget tr I = K); dotted: predicted for large K")
    # Heavy tails give single wild points: the lower panel shows what most of them say.
    shown = [p.mse / p.bound for p in points]
    below.set_ylim(0.93, min(max(shown) * 1.05, 1.3 * float(np.quantile(shown, 0.9))))
    trials = max(p.trials for p in points)
    above.set_title(
        f"A private mean under {NAMES[points[0].noise]}, {trials:,} trials a point", loc="left"
    )
    draw.open_frame(above, below)
    above.legend(frameon=False, fontsize=9)
    return figure


def _draw_method(above: draw.Axes, below: draw.Axes, name: str, own: Sequence[Point]) -> None:
    colour, mark = STYLE[name]
    count, mse, error, bound, predicted = draw.columns(
        own, "count", "mse", "standard_error", "bound", "predicted"
    )
    label = METHODS[name]
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
