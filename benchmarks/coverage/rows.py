"""Cases of coverage: tables of independent rows, one private column or several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.coverage import Case
from privest.arrays import Array
from privest.estimator import Estimate
from privest.estimator.inference import WeightedRows, fit_levels
from privest.workflow import Plan, Spec
from privest.workflow.estimate import estimate
from privest.workflow.plan import stated_plan
from privest.workflow.spec import Model, Privacy

THETA = np.array([1.0, 0.5, -0.3, 0.2])
LEVELS = (10.0, 1.0, 0.1)  # s; σ² = 1


def held(found: Estimate, truth: Array) -> Array:
    """1 where the 95 % interval of a coefficient holds the truth, 0 where not, NaN without one."""
    low, high = found.interval().T
    inside = (low <= truth) & (truth <= high)
    return np.where(np.isfinite(high - low), inside, np.nan)


def features(rows: int, parameters: int) -> dict[str, Array]:
    """The same public features in every trial: a normal one, a group of a third, a uniform one."""
    rng = np.random.default_rng(rows)
    made = {
        "x": rng.normal(size=rows),
        "group": (np.arange(rows) % 3 == 0).astype(float),
        "u": rng.uniform(-1, 1, rows),
    }
    return dict(list(made.items())[: parameters - 1])


def matrix(columns: dict[str, Array]) -> Array:
    """H, with its intercept."""
    first = next(iter(columns.values()))
    return np.column_stack([np.ones(len(first)), *columns.values()])


def planned(privacy: Privacy, **model: object) -> Plan:
    """The plan of a table that is held in memory; nothing is known of its residuals."""
    spec = Spec("held.csv", Model(**model), privacy)  # type: ignore[arg-type] # as given
    found = stated_plan(spec)
    assert found is not None
    return found


def terms_of(columns: dict[str, Array], privacy: Privacy, **model: object) -> Plan:
    """The plan of `y` on these features."""
    names = tuple(name for name in columns if name not in ("weight", "person"))
    return planned(privacy, target="y", features=names, **model)


def one_level(
    rng: np.random.Generator, trials: int, *, rows: int, level: float, parameters: int = 2,
    spread: str = "equal",
) -> Array:  # fmt: skip
    """Rows at one level, σ² = 1 on average; `spread`: "equal" variances, or "unequal"."""
    public = features(rows, parameters)
    H, terms = matrix(public), terms_of(public, Privacy(level))
    truth = THETA[:parameters]
    size = np.ones(rows) if spread == "equal" else _unequal(public["x"])
    hits = np.empty((trials, parameters))
    for row in hits:
        y = H @ truth + size * rng.normal(size=rows)
        row[:] = held(estimate(replace(terms, data=public | {"y": y}).simulate(rng=rng)), truth)
    return hits


def _unequal(x: Array) -> Array:
    """Deviations that grow with |x|, of mean square 1."""
    size = np.abs(x) + 0.1
    return np.asarray(size / np.sqrt(np.mean(size**2)))


def survey(rng: np.random.Generator, trials: int, *, rows: int, level: float) -> Array:
    """Survey weights over a factor of 20, unequal variances."""
    public = features(rows, 2)
    weight = np.exp(np.random.default_rng(rows + 1).uniform(0, 3, rows))
    H, truth, size = matrix(public), THETA[:2], _unequal(public["x"])
    public = public | {"weight": weight}
    terms = terms_of(public, Privacy(level), weights="weight")
    hits = np.empty((trials, 2))
    for row in hits:
        y = H @ truth + size * rng.normal(size=rows)
        row[:] = held(estimate(replace(terms, data=public | {"y": y}).simulate(rng=rng)), truth)
    return hits


def many_levels(
    rng: np.random.Generator, trials: int, *, rows: int, factor: float, by_x: bool = False
) -> Array:
    """A level for every row, spread over a factor, the levels around 1; σ² = 1, or ∝ e^x."""
    x, truth = features(rows, 2)["x"], THETA[:2]
    x = np.exp(x) if by_x else x
    H, size = matrix({"x": x}), np.sqrt(x / x.mean()) if by_x else 1.0
    spread = np.random.default_rng(rows + 2).uniform(-0.5, 0.5, rows)
    levels = np.exp(np.log(factor) * spread)
    hits = np.empty((trials, 2))
    for row in hits:
        z = H @ truth + size * rng.normal(size=rows) + rng.normal(size=rows) / np.sqrt(levels)
        found = fit_levels(lambda z=z: [WeightedRows(H, z, added=1 / levels)], 2)
        row[:] = held(Estimate(value=found.value, **found.errors.fields()), truth)
    return hits


ROWS = "1 variance from the release"
UNEQUAL = "4 unequal variances"
PLAIN = (0.93, 0.97)
FLOORED = (0.93, 0.985)  # no interval is narrower than the noise of the release alone allows


def _expected(level: float) -> tuple[float, float]:
    """The floor widens intervals where the noise of the release is most of what there is."""
    return FLOORED if level <= 1 else PLAIN


def _way(rows: int) -> str:
    """What "auto" takes."""
    return "Student's t from the release" if rows < 27 else "HC3"


CASES = [
    *(
        Case(
            ROWS, f"K = {rows}, s σ² = {level:g}", one_level, ("intercept", "x"),
            _way(rows),
            "exact t .949 to .952, floored .950 to .983", {"rows": rows, "level": level},
            _expected(level),
        )
        for rows in (8, 12, 30, 200) for level in LEVELS
    ),
    *(
        Case(
            UNEQUAL, f"K = {rows}, s σ² = {level:g}", one_level, ("intercept", "x"), _way(rows),
            "HC3 .938 to .949, HC2 .941 to .950 (classical .602 to .930)",
            {"rows": rows, "level": level, "spread": "unequal"}, _expected(level),
        )
        for rows in (30, 100) for level in (1e4, 1.0, 0.1)
    ),
    *(
        Case(
            UNEQUAL, f"survey weights, K = 400, s σ² = {level:g}", survey, ("intercept", "x"),
            "sandwich", "HC2 .937 to .942 (weights as precisions .777 to .865)",
            {"rows": 400, "level": level}, _expected(level),
        )
        for level in (20.0, 1.0)
    ),
    *(
        Case(
            "1 a level for every row", f"K = {rows}, levels over a factor of {factor:g}",
            many_levels, ("intercept", "x"), "REML over the levels, HC3",
            "floored .946 to .984, .93 to 1.0 with few rows of very high level",
            {"rows": rows, "factor": factor}, (0.93, 1.0),
        )
        for rows in (10, 30, 100) for factor in (100.0, 1e4)
    ),
]  # fmt: skip
