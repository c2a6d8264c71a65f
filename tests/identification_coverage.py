"""Coverage of identification, through the public calls: python tests/identification_coverage.py.

Readings and releases are drawn anew in every repetition, z = √s y + e, by numpy alone:

    found = fit(family, level, release);  found.interval();  found.forecast(5).interval()

Prints a table: how often 95% intervals hold the truth, for each parameter (profile, then Wald),
and the readings 1 and 5 steps after the last release (mixture, then plug-in), and how much wider
the mixture's intervals are than the plug-in's. The Monte Carlo standard error of a share of .95
stands in the last column. Public names are those of `golden/dynamics.py`.
"""

import argparse
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from golden.dynamics import autoregression, call_family, call_fit, make_release

PLACES = [0, 4]  # h = 1 and 5
WAVE = np.column_stack([np.sin(np.arange(1100) / 9), np.cos(np.arange(1100) / 5)])


@dataclass
class Case:
    """A family, its true parameters by name, and how K + 5 readings are drawn."""

    family: str
    truth: dict
    draw: Callable
    columns: int = 0
    share: float = 0.0  # of the releases that are missing


def ar(phi, q, mean=0.0):
    return lambda rng, steps: autoregression(rng, steps, phi, q, mean=mean)


def noisy(draw, r):
    return lambda rng, steps: draw(rng, steps) + math.sqrt(r) * rng.standard_normal(steps)


def arma(phi, theta, q):
    def drawn(rng, steps):
        w = math.sqrt(q) * rng.standard_normal(steps + 201)
        x = np.zeros(steps + 201)
        for k in range(1, steps + 201):
            x[k] = phi * x[k - 1] + w[k] + theta * w[k - 1]
        return x[201:]

    return drawn


def structural(q_level=0.0, q_slope=0.0, season=()):
    def drawn(rng, steps):
        slope = np.cumsum(math.sqrt(q_slope) * rng.standard_normal(steps))
        level = np.cumsum(slope + math.sqrt(q_level) * rng.standard_normal(steps))
        return level + (np.resize(season, steps) if len(season) else 0.0)

    return drawn


def seasonal(q_level, q_season, period):
    def drawn(rng, steps):
        season = np.zeros(steps)
        season[: period - 1] = rng.standard_normal(period - 1)
        white = math.sqrt(q_season) * rng.standard_normal(steps)
        for k in range(period - 1, steps):
            season[k] = white[k] - season[k - period + 1 : k].sum()
        return season + structural(q_level)(rng, steps)

    return drawn


def arx(phi, b, q):
    def drawn(rng, steps):
        y = np.zeros(steps)
        y[0] = rng.standard_normal()
        for k in range(1, steps):
            y[k] = phi * y[k - 1] + b * WAVE[k - 1, 0] + math.sqrt(q) * rng.standard_normal()
        return y

    return drawn


def regression(phi, q, beta):
    errors = ar(phi, q)
    return lambda rng, steps: WAVE[:steps] @ beta + errors(rng, steps)


def parameters(**named):
    return named


CASES = {
    "AR(1), no mean": Case("ar1-mean", parameters(phi1=0.8, q=0.36), ar(0.8, 0.36)),
    "AR(1)": Case("ar1", parameters(phi1=0.8, q=0.36, mean=2.0), ar(0.8, 0.36, 2.0)),
    "AR(1), 20% missing": Case(
        "ar1", parameters(phi1=0.8, q=0.36, mean=2.0), ar(0.8, 0.36, 2.0), share=0.2
    ),
    "AR(1), φ = .98": Case("ar1-mean", parameters(phi1=0.98, q=0.0396), ar(0.98, 0.0396)),
    "AR(1) + noise": Case(
        "ar1+noise-mean", parameters(phi1=0.8, q=0.36, r=0.5), noisy(ar(0.8, 0.36), 0.5)
    ),
    "AR(2)": Case("ar2-mean", parameters(phi1=1.5, phi2=-0.75, q=0.2), ar([1.5, -0.75], 0.2)),
    "ARMA(1, 1)": Case(
        "arma1,1-mean", parameters(phi1=0.8, theta1=0.4, q=0.4), arma(0.8, 0.4, 0.4)
    ),
    "ARX(1)": Case("arx1", parameters(phi1=0.7, q=0.5, b1=1.0), arx(0.7, 1.0, 0.5), columns=1),
    "RegressionAR(1)": Case(
        "regression1", parameters(phi1=0.8, q=0.36, beta1=1.0, beta2=-0.5),
        regression(0.8, 0.36, [1.0, -0.5]), columns=2,
    ),
    "LocalLevel": Case("level", parameters(q_level=0.3, r=0.5), noisy(structural(0.3), 0.5)),
    "LocalLevel, no noise": Case("level-noise", parameters(q_level=0.3), structural(0.3)),
    "LocalTrend": Case(
        "trend", parameters(q_level=0.2, q_slope=0.02, r=0.5), noisy(structural(0.2, 0.02), 0.5)
    ),
    "Seasonal(4)": Case(
        "seasonal4", parameters(q_level=0.2, q_season=0.1, r=0.5),
        noisy(seasonal(0.2, 0.1, 4), 0.5),
    ),
}  # fmt: skip

RUNS = [  # case, K, s, repetitions, and in how many of them forecasts are made
    ("AR(1), no mean", 200, 0.2, 300, 300),
    ("AR(1), no mean", 200, 1.0, 300, 300),
    ("AR(1), no mean", 200, 5.0, 300, 300),
    ("AR(1), no mean", 1000, 1.0, 300, 300),
    ("AR(1), φ = .98", 200, 0.2, 200, 200),
    ("AR(1)", 60, 0.05, 200, 100),
    ("AR(1)", 200, 1.0, 200, 100),
    ("AR(1), 20% missing", 200, 1.0, 200, 0),
    ("AR(1) + noise", 400, 2.0, 200, 0),
    ("AR(2)", 200, 1.0, 200, 0),
    ("ARMA(1, 1)", 300, 1.0, 200, 0),
    ("ARX(1)", 200, 1.0, 200, 0),
    ("RegressionAR(1)", 200, 1.0, 200, 0),
    ("LocalLevel", 200, 1.0, 300, 300),
    ("LocalLevel, no noise", 200, 0.2, 300, 300),
    ("LocalTrend", 200, 2.0, 200, 0),
    ("Seasonal(4)", 160, 2.0, 200, 0),
]


def drawn(case, steps, s, rng):
    """Releases of K steps, NaN where one is missing, and the readings that follow."""
    y = case.draw(rng, steps + 5)
    z = math.sqrt(s) * y[:steps] + rng.standard_normal(steps)
    z[rng.random(steps) < case.share] = np.nan
    return z, y[steps:][PLACES]


def repeated(case, steps, s, times, forecasts, seed):
    """Shares by name; of `width` the mean ratio of the widths of mixture and plug-in."""
    rng = np.random.default_rng(seed)
    family, names = call_family(case.family), list(case.truth)
    truth = np.array(list(case.truth.values()))
    inputs = WAVE[:steps, : case.columns] if case.columns else None
    later = WAVE[steps : steps + 5, : case.columns] if case.columns else None
    found = {name: [] for name in ("profile", "wald", "mixture", "plug-in", "width")}
    for number in range(times):
        z, after = drawn(case, steps, s, rng)
        one = call_fit(family, s, make_release(s, z[:, None]), inputs)
        assert list(one.names) == names, one.names
        for method in ("profile", "wald"):
            low, high = one.interval(0.95, method=method).T
            found[method].append((low <= truth) & (truth <= high))
        if number >= forecasts:
            continue
        widths = []
        for method in ("mixture", "plug-in"):
            ahead = one.forecast(5, inputs=later, method=method)
            low, high = ahead.interval(0.95)[PLACES, 0].T
            found[method].append((low <= after) & (after <= high))
            widths.append(high - low)
        found["width"].append(widths[0] / widths[1])
    return {name: np.mean(one, axis=0) if one else () for name, one in found.items()}


def line_of(name, steps, s, times, forecasts, found, names):
    def shares(values):
        return " ".join(f"{value:.3f}" for value in values)

    return (
        f"|{name}|{steps}|{s:g}|{' '.join(names)}|{shares(found['profile'])}|"
        f"{shares(found['wald'])}|{shares(found['mixture'])}|{shares(found['plug-in'])}|"
        f"{' '.join(f'{value:.2f}' for value in found['width'])}|"
        f"{times}, {forecasts}|{math.sqrt(0.05 * 0.95 / times):.3f}|"
    )


HEAD = (
    "|family|K|s|parameters|profile|Wald|mixture, h = 1, 5|plug-in|width ratio|times|error|\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--times", type=int, help="repetitions of every row")
    asked.add_argument("--of", default="", help="only families whose name contains this")
    asked.add_argument("--clock", action="store_true", help="seconds of every row")
    given = asked.parse_args()
    print(HEAD)
    for name, steps, s, own, forecasts in RUNS:
        if given.of not in name:
            continue
        case, times, start = CASES[name], given.times or own, time.perf_counter()
        seed = zlib.crc32(f"{name} {steps} {s}".encode())
        forecasts = min(times, forecasts)
        found = repeated(case, steps, s, times, forecasts, seed)
        spent = f" {time.perf_counter() - start:.0f} s" if given.clock else ""
        print(line_of(name, steps, s, times, forecasts, found, case.truth) + spent, flush=True)


if __name__ == "__main__":
    main()
