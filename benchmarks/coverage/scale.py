"""Cases of coverage: logarithms in the units of the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.coverage import Case
from benchmarks.coverage.rows import THETA, features, matrix, terms_of
from privest.arrays import Array
from privest.workflow.estimate import estimate
from privest.workflow.spec import Privacy


def log_median(rng: np.random.Generator, trials: int, *, rows: int, level: float) -> Array:
    """The median of a lognormal target at x = .5, σ² = .25; nothing is clipped."""
    public = features(rows, 2)
    H, truth = matrix(public), THETA[:2]
    terms = terms_of(public, Privacy(level, range={"y": (1e-9, 1e9)}), transform="log")
    aim = np.exp(truth @ [1.0, 0.5])
    hits = np.empty((trials, 1))
    for row in hits:
        y = np.exp(H @ truth + 0.5 * rng.normal(size=rows))
        z = replace(terms, data=public | {"y": y}).simulate(rng=rng)
        ((low, high),) = estimate(z).predict({"x": 0.5}).interval
        row[:] = low <= aim <= high
    return hits


CASES = [
    *(
        Case(
            "5 logarithms in the units of the file", f"K = {rows}, s = {level:g}", log_median,
            ("median",), "interval of the mean logarithm", ".947 to .950",
            {"rows": rows, "level": level}, (0.93, 0.985),
        )
        for rows in (30, 200) for level in (4.0, 1.0, 0.25)
    ),
]  # fmt: skip
