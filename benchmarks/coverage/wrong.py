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
from privest.workflow.plan import make_plan, stated_plan
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
    """Least squares, or the likelihood of clipped readings where the range clips."""
    terms, hits = _planned(privacy, known), np.empty((trials, 2))
    x = FEATURES[feature](rng, rows)
    for k, row in enumerate(hits):
        x = x if k % FRESH else FEATURES[feature](rng, rows)
        y = THETA[0] + THETA[1] * x + ERRORS[errors](rng, x)
        row[:] = told(estimate(replace(terms, data={"x": x, "y": y}).simulate(rng=rng)), THETA[:2])
    return hits


def original(rng: np.random.Generator, trials: int, *, rows: int, level: float) -> Array:
    """The mean of e^y at x = −1 and 1, the deviation of y growing with x."""
    privacy = Privacy(level, range={"y": (1e-9, 1e9)})
    terms, hits = _planned(privacy, transform="log"), np.empty((trials, 2))
    x = np.random.default_rng(rows).normal(size=rows)
    places = np.array([-1.0, 1.0])
    truth = np.exp(1 + 0.5 * places + np.square(0.5 * np.exp(0.35 * places)) / 2)
    for row in hits:
        y = np.exp(1 + 0.5 * x + 0.5 * np.exp(0.35 * x) * rng.normal(size=rows))
        found = estimate(replace(terms, data={"x": x, "y": y}).simulate(rng=rng))
        ends = np.array([found.mean_at({"x": place}).interval for place in places])
        row[:] = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return hits


def slopes(rng: np.random.Generator, trials: int, *, persons: int) -> Array:
    """Persons who differ in their intercepts and in their slopes."""
    who = np.repeat(np.arange(persons), 6)
    x = np.random.default_rng(persons).normal(size=len(who))
    table = {"x": x, "person": who.astype(float)}
    spec = Spec("held.csv", Model(("y",), ("x",), person="person"), Privacy(10.0))
    plan = make_plan(spec, table | {"y": x})
    hits = np.empty((trials, 2))
    for row in hits:
        own = rng.normal(size=(2, persons))[:, who]
        y = THETA[0] + THETA[1] * x + own[0] + own[1] * x + 0.7 * rng.normal(size=len(who))
        found = estimate(replace(plan, data=table | {"y": y}).simulate(rng=rng))
        row[:] = told(found, THETA[:2])
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
NARROW = {"y": (-0.5, 2.5)}  # of readings about 1 with variance 1
LOW = Privacy(epsilon=1.0, delta=1e-6, range={"y": (-2.0, 9.0)})
CLIPPED = "maximum likelihood of clipped readings; sandwich"
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
    *(
        _case(f"range ± 1.5 σ, errors {errors}, K = 200, s = 10", known, 200, "normal", errors,
              Privacy(10.0, range=NARROW), CLIPPED)
        for errors, known in (
            ("normal", ".935 to .968"), ("by |x|", ".50"), ("exponential", ".62 to .77"),
        )
    ),
    _case("ε = 1, range −2 to 9, nothing clipped, K = 150", "none in 67 of 150", 150, "normal",
          "normal", LOW, "least squares of clipped readings"),
    _case("the same, σ² stated", "raised in 54 of 150", 150, "normal", "normal", LOW,
          "least squares of clipped readings", Public(1.0)),
    Case(
        TOPIC, "mean of a logarithm, variance by x, K = 200, s = 4", original, ("−1", "1"),
        "variance by features", ".06", {"rows": 200, "level": 4.0}, (0.93, 0.99),
    ),
    Case(
        TOPIC, "random slopes, 40 persons", slopes, ("intercept", "x"),
        "CR2", ".95", {"persons": 40}, (0.93, 0.985),
    ),
]  # fmt: skip
