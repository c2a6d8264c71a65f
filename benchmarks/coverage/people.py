"""Cases of coverage: people with several rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.coverage import Case
from benchmarks.coverage.rows import held
from privest.arrays import Array
from privest.workflow import Spec
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.spec import Model, Privacy

ROWS = (1, 2, 5, 20)  # of a person, in turn
THETA = np.array([1.0, 0.5, -0.3])


def people(rng: np.random.Generator, trials: int, *, persons: int) -> Array:
    """A feature of a person (between), one of a row (within); σ² = τ² = .5, s = 2."""
    public = np.random.default_rng(persons)
    counts = np.array(ROWS)[np.arange(persons) % len(ROWS)]
    who = np.repeat(np.arange(persons), counts)
    between, within = public.normal(size=persons)[who], public.normal(size=len(who))
    H = np.column_stack([np.ones(len(who)), between, within])
    table = {"between": between, "within": within, "person": who.astype(float)}
    model = Model(("y",), ("between", "within"), person="person")
    spec = Spec("held.csv", model, Privacy(2.0))
    plan = make_plan(spec, table | {"y": np.zeros(len(who))})
    hits = np.empty((trials, 3))
    for row in hits:
        y = H @ THETA + np.sqrt(0.5) * (rng.normal(size=persons)[who] + rng.normal(size=len(who)))
        row[:] = held(estimate(replace(plan, data=table | {"y": y}).simulate(rng=rng)), THETA)
    return hits


CASES = [
    Case(
        "2 people with several rows", f"{persons} people", people,
        ("intercept", "between", "within"), "whitened, CR2 with Bell-McCaffrey degrees of freedom",
        ".943 to .981 (CR1 .84 to .95)", {"persons": persons}, (0.93, 0.985),
    )
    for persons in (15, 40, 100)
]  # fmt: skip
