"""Cases of coverage: readings that are not as the simple model says, with what privest warns of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.coverage import WARNED, Case
from benchmarks.coverage.rows import THETA, held, many_levels
from privest.arrays import Array
from privest.workflow import Plan, Spec
from privest.workflow.estimate import estimate
from privest.workflow.plan import stated_plan
from privest.workflow.result import Estimate
from privest.workflow.spec import Model, Privacy, Public

FRESH = 25  # trials with the same features
SKEW = np.exp(0.5), np.sqrt((np.e - 1) * np.e)  # mean and deviation of e^N(0, 1)
Draw = Callable[[np.random.Generator, Array], Array]
FEATURES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, rows: rng.normal(size=rows),
    "lognormal": lambda rng, rows: np.exp(rng.normal(size=rows)),
}
ERRORS: dict[str, Draw] = {
    "normal": lambda rng, x: rng.normal(size=len(x)),
    "by |x|": lambda rng, x: (np.abs(x) + 0.1) / 1.1 * rng.normal(size=len(x)),
    "by x": lambda rng, x: np.sqrt(x / x.mean()) * rng.normal(size=len(x)),
    "exponential": lambda rng, x: rng.exponential(size=len(x)) - 1,
    "lognormal": lambda rng, x: (np.exp(rng.normal(size=len(x))) - SKEW[0]) / SKEW[1],
}


def told(found: Estimate, truth: Array) -> Array:
    """`held`, and WARNED more where the estimate is printed with a warning."""
    return held(found, truth) + (WARNED if found.warnings else 0)


def _planned(privacy: Privacy, public: Public | None = None, transform: str = "none") -> Plan:
    model = Model(("y",), ("x",), transform=transform)  # type: ignore[arg-type] # as given
    found = stated_plan(Spec("held.csv", model, privacy, public or Public()))
    assert found is not None
    return found


def wrong(
    rng: np.random.Generator, trials: int, *, rows: int, feature: str, errors: str,
    privacy: Privacy, known: Public,
) -> Array:  # fmt: skip
    """Least squares, whatever the errors."""
    terms, hits = _planned(privacy, known), np.empty((trials, 2))
    x = FEATURES[feature](rng, rows)
    for k, row in enumerate(hits):
        x = x if k % FRESH else FEATURES[feature](rng, rows)
        y = THETA[0] + THETA[1] * x + ERRORS[errors](rng, x)
        row[:] = told(estimate(replace(terms, data={"x": x, "y": y}).simulate(rng=rng)), THETA[:2])
    return hits


def _case(
    name: str, known: str, rows: int, feature: str, errors: str, privacy: Privacy,
    interval: str = "HC3", public: Public | None = None,
) -> Case:  # fmt: skip
    arguments = {
        "rows": rows, "feature": feature, "errors": errors, "privacy": privacy,
        "known": public or Public(),
    }  # fmt: skip
    return Case(TOPIC, name, wrong, ("intercept", "x"), interval, known, arguments, (0.93, 0.985))


TOPIC = "11 readings that are not as the model says"
CASES = [
    _case("lognormal errors, K = 50, s = 100", ".89", 50, "normal", "lognormal", Privacy(100.0)),
    _case("lognormal errors, K = 200, s = 100", ".93", 200, "normal", "lognormal", Privacy(100.0)),
    *(
        _case(f"lognormal x, variance ∝ x, K = {rows}, s = 100", ".87 to .91", rows, "lognormal",
              "by x", Privacy(100.0))
        for rows in (50, 200)
    ),
    Case(
        TOPIC, "a level for every row, lognormal x, variance ∝ x, K = 100", many_levels,
        ("intercept", "x"), "REML over the levels, HC3", ".65",
        {"rows": 100, "factor": 100.0, "by_x": True}, (0.93, 0.985),
    ),
]  # fmt: skip
