"""Cases of coverage: yes/no and counts, and Laplace noise for numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.coverage import Case
from benchmarks.coverage.rows import features, held, matrix, terms_of
from privest.arrays import Array
from privest.errors import NotIdentifiable, NumericalFailure
from privest.workflow.estimate import estimate
from privest.workflow.spec import Privacy

YES = np.array([-0.5, 0.6, 0.4])
COUNTS = np.array([1.0, 0.3, -0.2])
NUMBERS = np.array([0.5, 0.1, -0.05])


def family(
    rng: np.random.Generator, trials: int, *, rows: int, kind: str, privacy: Privacy
) -> Array:
    """A normal feature and a group of a third; NaN where there is no finite fit."""
    public = features(rows, 3)
    H, truth = matrix(public), YES if kind == "binomial" else COUNTS
    terms = terms_of(public, privacy, family=kind)
    hits = np.empty((trials, 3))
    for row in hits:
        if kind == "binomial":
            y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-H @ truth))).astype(float)
        else:
            y = rng.poisson(np.exp(H @ truth)).astype(float)
        try:
            row[:] = held(estimate(replace(terms, data=public | {"y": y}).simulate(rng=rng)), truth)
        except (NotIdentifiable, NumericalFailure):
            row[:] = np.nan
    return hits


def pure(rng: np.random.Generator, trials: int, *, rows: int) -> Array:
    """A number between 0 and 1 under ε = 1, with Laplace noise."""
    public = features(rows, 3)
    H = matrix(public)
    terms = terms_of(public, Privacy(epsilon=1.0, range={"y": (-0.5, 1.5)}, distribution="laplace"))
    hits = np.empty((trials, 3))
    for row in hits:
        y = H @ NUMBERS + 0.1 * rng.normal(size=rows)
        row[:] = held(estimate(replace(terms, data=public | {"y": y}).simulate(rng=rng)), NUMBERS)
    return hits


OF = ("intercept", "x", "group")
CASES = [
    *(
        Case(
            "9 yes/no and counts", f"yes/no by coins, ε = {epsilon:g}, K = {rows:,}", family, OF,
            "logistic likelihood of the coins", known,
            {"rows": rows, "kind": "binomial", "privacy": Privacy(epsilon=epsilon)}, expected,
        )
        for rows, epsilon, known, expected in (
            (1000, 1.0, ".943 to .972", (0.93, 0.98)),
            (1000, 2.0, "not examined", (0.93, 0.97)),
            (4000, 1.0, ".935 to .960", (0.93, 0.97)),
        )
    ),
    *(
        Case(
            "9 yes/no and counts", f"counts, K = 500, s = {level:g}", family, OF,
            "Poisson quasi-likelihood, HC3", ".939 to .959",
            {"rows": 500, "kind": "poisson", "privacy": Privacy(level)},
        )
        for level in (4.0, 1.0, 0.1)
    ),
    Case(
        "8 pure laws for numbers", "Laplace noise, ε = 1, K = 500", pure, OF, "HC3",
        ".948 to .958 (HC2, K = 1000)", {"rows": 500},
    ),
]  # fmt: skip
