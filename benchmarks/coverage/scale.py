"""Cases of coverage: logarithms in the units of the file, and readings that are clipped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.coverage import Case
from benchmarks.coverage.rows import THETA, features, held, matrix, terms_of
from privest.arrays import Array
from privest.workflow.estimate import estimate
from privest.workflow.spec import Privacy


def log_mean(rng: np.random.Generator, trials: int, *, rows: int, level: float) -> Array:
    """The mean of a lognormal target at x = .5, σ² = .25, and its median; nothing is clipped."""
    public = features(rows, 2)
    H, truth = matrix(public), THETA[:2]
    terms = terms_of(public, Privacy(level, range={"y": (1e-9, 1e9)}), transform="log")
    eta = float(truth @ [1.0, 0.5])
    aims = np.exp([eta + 0.125, eta])
    hits = np.empty((trials, 2))
    for row in hits:
        y = np.exp(H @ truth + 0.5 * rng.normal(size=rows))
        found = estimate(replace(terms, data=public | {"y": y}).simulate(rng=rng)).mean_at(
            {"x": 0.5}
        )
        ends = np.array([found.interval, found.median_interval])
        row[:] = (ends[:, 0] <= aims) & (aims <= ends[:, 1])
    return hits


def clipped(
    rng: np.random.Generator, trials: int, *, rows: int, level: float, half: float
) -> Array:
    """A range about the mean, which clips at both ends; σ² = 1, not known."""
    public = features(rows, 2)
    H, truth = matrix(public), THETA[:2]
    terms = terms_of(public, Privacy(level, range={"y": (1 - half, 1 + half)}))
    hits = np.empty((trials, 2))
    for row in hits:
        y = H @ truth + rng.normal(size=rows)
        row[:] = held(estimate(replace(terms, data=public | {"y": y}).simulate(rng=rng)), truth)
    return hits


CASES = [
    *(
        Case(
            "5 logarithms in the units of the file", f"K = {rows}, s = {level:g}", log_mean,
            ("mean", "median"), "unbiased mean, interval of the log mean", ".947 to .950",
            {"rows": rows, "level": level}, (0.93, 0.985),
        )
        for rows in (30, 200) for level in (4.0, 1.0, 0.25)
    ),
    *(
        Case(
            "10 clipped readings", f"K = 400, range ± {half:g} σ, s σ² = {level:g}", clipped,
            ("intercept", "x"), "maximum likelihood, σ² from the release",
            "t of least squares .13 to .65 (K = 2000)",
            {"rows": 400, "level": level, "half": half},
        )
        for half, level in ((2.0, 1.0), (1.5, 10.0))
    ),
]  # fmt: skip
