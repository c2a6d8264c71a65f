"""A mean under non-Gaussian noise: estimate, then release (`fig:ml`).

y_k = θ + w_k, θ = 0.53, w Laplacian of variance 1 (or another law), budget tr I_z(Y) = K: λ = 1/K.
Four ways to the same budget:

- optimal: the score of least J(ψ), with Gaussian noise;
- likelihood: the paper's `algo:mult`. For Laplacian noise its release noise does not exist
  (E l''² = ∞); there the likelihood is smoothed by N(0, h²), h the bandwidth of least loss;
- averaging with Gaussian and with Laplacian noise (Cai et al. 2021).

Two floors: `bound`, for any mechanism and any unbiased estimate, 1/(KI) + 1/(Ks); and `floor`,
J*(1/s)/K, for every unbiased T(Y) plus independent Gaussian noise under E tr I_z(Y) ≤ s, at every K
(docs/theory.md 4). For Gaussian noise they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.noise import Cauchy, GaussianMixture, Laplace, Logistic, ScalarLaw, StudentT
from privest.paper._claim import Claim
from privest.paper._engine import Progress, Task, monte_carlo
from privest.pipeline import (
    LeastSquaresRelease,
    MaximumLikelihoodRelease,
    OptimalScoreRelease,
    ScoreRelease,
    optimal_score,
)

LABEL = "fig:ml"
THETA = 0.53
TRIALS = 5000
SEED = 4
FALSE_ALARM = 1e-3
LAWS: dict[str, ScalarLaw] = {
    "laplace": Laplace(scale=0.5**0.5),
    "cauchy": Cauchy(scale=1.0),
    "student-t": StudentT(df=3.0, scale=1.0),
    "logistic": Logistic(scale=1.0),
    # 80 % narrow and below, 20 % wide and above: mean 0, long tail to the right.
    "skewed": GaussianMixture(weights=(0.8, 0.2), means=(-0.5, 2.0), sds=(0.6, 1.5)),
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


def law_named(noise: str) -> ScalarLaw:
    """The noise law of one version of the experiment."""
    if noise not in LAWS:
        raise InvalidInput(f"--noise is one of {', '.join(LAWS)}; received {noise!r}.")
    return LAWS[noise]


def methods(noise: str) -> list[str]:
    """The methods that exist for a law: a Cauchy has no mean to estimate by an average."""
    averages = np.isfinite(law_named(noise).mean)
    return [name for name in LABELS if averages or not name.startswith("averaging")]


def _likelihood(model: LinearModel, budget: float) -> ScoreRelease:
    smooth = np.isfinite(model.noise.laws[0].expected_squared_curvature)  # type: ignore[attr-defined]
    return MaximumLikelihoodRelease(model, budget, bandwidth=None if smooth else "best")


PIPELINES: dict[str, Callable[[LinearModel, float], ScoreRelease]] = {
    "optimal": OptimalScoreRelease,
    "likelihood": _likelihood,
    "averaging-gaussian": LeastSquaresRelease,
    "averaging-laplace": lambda model, s: LeastSquaresRelease(model, s, noise=Laplace(1.0)),
}


@lru_cache(maxsize=256)
def pipeline(method: str, noise: str, count: int) -> ScoreRelease:
    """One method for K = `count` readings and the budget s = K."""
    model = LinearModel(np.ones((count, 1)), noise=law_named(noise))
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
        parts.append((own.simulate(y, rng).estimate[:, 0] - THETA) ** 2)
    return np.concatenate(parts)


def realised_ratios(
    rng: np.random.Generator, trials: int, *, method: str, noise: str, count: int
) -> Array:
    """tr I_z(Y)/s of simulated data sets."""
    return pipeline(method, noise, count).ratios(rng, trials)


@dataclass(frozen=True)
class Point:
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
    workers: int = 1,
    executor: Executor | None = None,
    resume: Path | None = None,
    progress: Progress | None = None,
) -> list[Point]:
    """Every method at every K."""
    law = law_named(noise)
    cells = [(method, k) for method in methods(noise) for k in (ks or counts())]
    errors = [_task("error", squared_errors, m, noise, k) for m, k in cells]
    ratios = [
        _task("realised", realised_ratios, m, noise, k)
        for m, k in cells
        if not m.startswith("averaging")
    ]
    found = monte_carlo(
        [*errors, *ratios],
        trials=trials,
        seed=seed,
        workers=workers,
        executor=executor,
        resume=resume,
        progress=progress,
    )
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
                predicted=own.loss,
                bound=own.private_bound,
                floor=optimal_score(law, 1 / k).cost(1 / k) / k,
                trials=summary.trials,
                bandwidth=getattr(own, "bandwidth", None),
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
    own = sorted((p for p in points if p.method == "optimal"), key=lambda p: p.count)
    others = [p for p in points if p.method.startswith("averaging")]
    limit = float(-scipy.special.ndtri(false_alarm / max(1, len(points))))
    below = [p for p in points if p.mse < p.floor - limit * p.standard_error]
    last = own[-1]
    found = [
        Claim(
            LABEL,
            "fig4",
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
            "fig4",
            "No estimate with added noise lies below J*(1/s)/K, at any K, beyond chance.",
            not below,
            {"points": len(points), "below": len(below), "limit in standard errors": limit},
        ),
    ]
    if others:
        by = {p.count: p for p in own}
        worse = [p for p in others if p.count >= 100]
        beaten = [p for p in worse if p.mse > by[p.count].mse]
        ratio = min((p.mse / by[p.count].mse for p in worse), default=np.nan)
        found.append(
            Claim(
                LABEL,
                "fig4",
                "Direct averaging has larger errors (K ≥ 100).",
                len(beaten) == len(worse),
                {"points": len(worse), "least ratio": float(ratio)},
            )
        )
    return found


def as_records(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The points as plain dictionaries, for JSON."""
    return [asdict(point) for point in points]
