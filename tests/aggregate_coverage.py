"""Coverage of aggregate releases, through the public calls: python tests/aggregate_coverage.py.

Features and the plan are made once a case; values and noise anew in every repetition:

    plan = pv.plan(table, …, form="aggregate");  pv.estimate(plan.simulate(rng=rng)).interval()

Prints a table: coverage of 95% intervals (lowest and highest coefficient), bias in Monte Carlo
standard errors, median half-width over 1.96 sd of the estimates, and sd of the estimates over the
planned standard error. `--command` repeats some cases with `privest plan`, `release --simulate`
and `estimate --json` in this process; `--replica` those of `--of intervals` with continuous noise.
"""

import argparse
import json
import math
import shlex
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.special

import privest as pv
from aggregate_replica import replicated
from workflow_command import called

NOTE, OURS, INTERVALS = "note", "ours", "intervals"
WIDE = (-6.0, 8.0)
LINE = np.array([1.0, 0.5])
LOG = np.array([0.5, 0.3])
SQUARES = "the noise of the squares is large"  # beside the variance that they show


@dataclass
class Case:
    """A table, how its private values are drawn, the true coefficients, and what is asked.

    sd       of the errors, where the plan knows it: the attained error is then the planned one.
    within   half-widths are at most so many times those of a known variance.
    wide     why its intervals may cover more than 98%.
    least    the lowest coverage that is stated, and why it is below 94%: `why`.
    biased   the estimator is not linear, or values are clipped.
    read     what is estimated from a release; None: all coefficients.
    """

    table: dict
    draw: Callable
    truth: object
    ask: dict
    sd: float | None = None
    wide: str = ""
    least: float = 0.94
    why: str = ""
    biased: bool = False
    read: Callable | None = None
    within: float = math.inf
    options: str = ""  # of `privest plan`, where the case is repeated by the command line
    of: str = OURS
    truth_of: np.ndarray = field(init=False)

    def __post_init__(self):
        self.truth_of = np.asarray(self.truth, dtype=float)
        self.ask = {"form": "aggregate", "range": WIDE, "epsilon": 10.0} | self.ask
        self.ask = {name: value for name, value in self.ask.items() if value is not None}
        if self.sd is not None:
            self.ask |= {"residual_variance": self.sd**2}

    def values(self, rng):
        """The private columns of one repetition."""
        drawn = self.draw(rng)
        return drawn if isinstance(drawn, dict) else {"y": drawn}

    def plan(self, rng):
        """The table, which later repetitions change, and its plan."""
        table = self.table | self.values(rng)
        ask = self.ask if "formula" in self.ask or "target" in self.ask else self.ask | {
            "formula": "y ~ x"
        }  # fmt: skip
        return table, pv.plan(table, **ask)


def normals(K, n=1, seed=1):
    return np.random.default_rng(seed).standard_normal((K, n))


def named(X):
    """Columns x0, x1, …, and the formula of all of them."""
    columns = {f"x{k}": column for k, column in enumerate(X.T)}
    return columns, f"y ~ {' + '.join(columns)}"


def line(x, errors, theta=LINE):
    """Values of a line with errors of mean 0."""
    return lambda rng: theta[0] + theta[1] * x + errors(rng, x)


def normal(sd=1.0):
    return lambda rng, x: sd * rng.standard_normal(len(x))


def heteroscedastic(rng, x):
    return (0.3 + np.abs(x)) * rng.standard_normal(len(x))


def lognormal(rng, x):
    return 0.5 * (np.exp(rng.standard_normal(len(x))) - math.exp(0.5))


def near_the_top(rng):
    return np.where(rng.random(400) < 0.1, 9.5, 0.5)


def persons(count, most, seed=5):
    return np.repeat(np.arange(count), np.random.default_rng(seed).integers(1, most + 1, count))


def shared(owners):
    """Errors of variance 1, half of it shared by the rows of a person."""

    def drawn(rng):
        own = rng.standard_normal(owners.max() + 1)[owners]
        return math.sqrt(0.5) * (own + rng.standard_normal(len(owners)))

    return drawn


def yes_no(eta):
    p = scipy.special.expit(eta)
    return lambda rng: (rng.random(len(p)) < p).astype(float)


def groups(sizes):
    """A column of categories, their list, and which of them each row has."""
    at = np.repeat(np.arange(len(sizes)), sizes)
    return [f"g{k}" for k in at], [f"g{k}" for k in range(len(sizes))], at


def missing(draw, share):
    """The same, with some values missing, whatever they are."""

    def drawn(rng):
        y = draw(rng)
        return np.where(rng.random(len(y)) < share, np.nan, y)

    return drawn


def of_note():
    """Those of curator.md, sections 3, 5 and 6."""
    mean = {"one": np.ones(400)}
    alone = {"target": "y"}
    x = normals(600)[:, 0]
    two = {"x": x}
    flat = lambda rng: 1 + rng.standard_normal(400)  # noqa: E731
    yield "mean, ε = 1", Case(mean, flat, [1.0], alone | {"epsilon": 1.0}, 1.0)
    yield "mean, ε = 10", Case(mean, flat, [1.0], alone, 1.0, options="--target y")
    far = {"one": np.ones(5000)}
    yield (
        "mean, ε = 0.3, K = 5,000",
        Case(far, lambda rng: 1 + rng.standard_normal(5000), [1.0], alone | {"epsilon": 0.3}, 1.0),
    )
    edge = alone | {"range": (0.0, 10.0), "epsilon": 3.0}
    yield "mean at the edge, 10% near the top", Case(mean, near_the_top, [1.4], edge)
    p = np.clip(0.4 + 0.1 * x, 0, 1)
    yield (
        "yes/no in the linear model",
        Case(
            two, lambda rng: (rng.random(600) < p).astype(float),
            np.linalg.lstsq(np.column_stack([np.ones(600), x]), p, rcond=None)[0],
            {"range": (0.0, 1.0), "epsilon": 3.0}, options="--formula 'y ~ x'",
        ),
    )  # fmt: skip
    sizes = np.unique(np.geomspace(1, 1058, 38).astype(int))[:30]
    sizes[-1] = 1058
    own, listed, _ = groups(sizes)
    count = len(own)
    by = {"target": "y", "by": "g", "categories": {"g": listed}, "range": (-5.0, 5.0)}
    rare = "a category of a few rows has the interval of the range"
    for epsilon in (3.0, 10.0):
        yield (
            f"30 categories of 1-1,058 rows, ε = {epsilon:g}",
            Case({"g": own}, lambda rng: rng.standard_normal(count), np.zeros(30),
                 by | {"epsilon": epsilon}, 1.0, wide=rare),
        )  # fmt: skip
    for sd, K in ((40, 500), (80, 500), (60, 50)):
        lever = np.append(normals(K - 1)[:, 0], sd)
        yield (
            f"a row at {sd} sd of x, K = {K}",
            Case({"x": lever}, line(lever, normal(), (1.0, 0.02)), [1.0, 0.02], {}, 1.0,
                 wide="one row decides the slope"),
        )  # fmt: skip
    yield (
        "sd grows with |x|",
        Case(two, line(x, heteroscedastic), LINE, {"range": (-14.0, 14.0)},
             options="--formula 'y ~ x'"),
    )  # fmt: skip
    t3 = lambda rng, x: 0.6 * rng.standard_t(3, len(x))  # noqa: E731
    yield (
        "t3 errors",
        Case(two, line(x, t3), LINE, {"range": (-40.0, 40.0)},
             wide="the range is 40 times the sd of the errors"),
    )  # fmt: skip
    heavy = np.exp(x)
    yield (
        "lognormal x and errors",
        Case({"x": heavy}, line(heavy, lognormal, (0.0, 0.1)), [0.0, 0.1], {"range": (-5.0, 60.0)},
             wide="the range is 60 times the sd of the errors"),
    )  # fmt: skip
    yield (
        "range −3 to +30 sd",
        Case(two, line(x, normal()), LINE, {"range": (-5.0, 31.0), "epsilon": 3.0}, 1.0,
             wide="the range is far too wide"),
    )  # fmt: skip
    yield (
        "σ stated 5 times too large",
        Case(two, line(x, normal()), LINE, {"residual_variance": 25.0}),
    )
    yield (
        "range clips 6% at one end",
        Case(mean, lambda rng: rng.standard_normal(400), [0.0],
             alone | {"range": (-8.0, 1.555)}, biased=True, least=0.0,
             why="clipping moves the mean"),
    )  # fmt: skip
    large = normals(2000)[:, 0]
    for start, name in ((-0.9, "31%"), (-3.0, "6%")):
        yield (
            f"yes/no, logit, {name} yes",
            Case({"x": large}, yes_no(start + 0.5 * large), [start, 0.5],
                 {"family": "binomial", "range": None, "epsilon": 1.0}, biased=True,
                 options="--formula 'y ~ x' --family binomial" if start > -1 else ""),
        )  # fmt: skip


def of_intervals():
    """Those of intervals.md, sections 1 and 2: few rows, wide ranges, persons that depend."""
    x = normals(600)[:, 0]
    few = normals(60)[:, 0]
    narrow = {"wide": SQUARES, "within": 1.5}
    for epsilon in (10.0, 30.0):
        yield (
            f"K = 60, ε = {epsilon:g}",
            Case({"x": few}, line(few, normal()), LINE, {"epsilon": epsilon}, 1.0, **narrow),
        )
    rare, listed, at = groups([490, 10])
    beside = normals(500)[:, 0]
    mean = 1 + 0.5 * beside + 0.5 * at
    for epsilon in (10.0, 30.0):
        yield (
            f"10 of 500 rows in a category, ε = {epsilon:g}",
            Case({"x": beside, "g": rare}, lambda rng: mean + rng.standard_normal(500),
                 [1.0, 0.5, 0.5],
                 {"formula": "y ~ x + C(g)", "categories": {"g": listed}, "epsilon": epsilon},
                 1.0, wide="a category of 10 rows", within=1.6),
        )  # fmt: skip
    of_one = math.sqrt((math.e - 1) * math.e)  # lognormal errors of sd 1

    def skewed(rng, x):
        return (np.exp(rng.standard_normal(len(x))) - math.exp(0.5)) / of_one

    for epsilon in (3.0, 10.0):
        yield (
            f"lognormal errors, range −4 to 16 sd, ε = {epsilon:g}",
            Case({"x": x}, line(x, skewed, (0.0, 0.3)), [0.0, 0.3],
                 {"range": (-4.0, 16.0), "epsilon": epsilon}, **narrow),
        )  # fmt: skip
    yield (
        "range of 60 sd, ε = 30",
        Case({"x": x}, line(x, normal()), LINE, {"range": (-30.0, 30.0), "epsilon": 30.0}, 1.0,
             within=1.5),
    )  # fmt: skip
    owners = persons(300, 6)
    inside = normals(len(owners))[:, 0]
    who = {"x": inside, "who": [f"p{k}" for k in owners]}
    half, at_x = shared(owners), 1 + 0.5 * inside
    for epsilon in (3.0, 10.0):
        yield (
            f"300 persons of 1-6 rows, ε = {epsilon:g}",
            Case(who, lambda rng: at_x + half(rng), LINE,
                 {"person": "who", "epsilon": epsilon, "within_person_correlation": 0.5}, 1.0,
                 **narrow,
                 options="--formula 'y ~ x' --person who" if epsilon > 3 else ""),
        )  # fmt: skip
    third = normals(300)[:, 0]
    for width, times in ((14.0, 1.5), (40.0, 2.2)):
        yield (
            f"exposure 0.005, K = 300, range of {width:g} sd",
            Case({"x": third}, line(third, normal()), LINE,
                 {"epsilon": None, "level": 0.005, "range": (1 - width / 2, 1 + width / 2)}, 1.0,
                 wide=SQUARES, within=times),
        )  # fmt: skip
    member = np.repeat(np.arange(200), 30)
    ends = {"person": "who", "range": (0.0, 10.0)}
    column = {"who": [f"p{k}" for k in member]}
    slope = {"x": np.repeat(normals(200, seed=3)[:, 0], 30)}
    extreme = "values at both ends, and equal in a person: the largest variance of all"

    def equal(rng):
        return np.repeat(10.0 * rng.integers(0, 2, 200), 30)

    for epsilon in (1.5, 3.0, 10.0):
        for words, more, truth, least in (
            ("mean", {"target": "y"}, [5.0], 0.94),
            ("slope", {"formula": "y ~ x"}, [5.0, 0.0], 0.92),
        ):
            yield (
                f"200 persons of 30 equal rows, 0 or 10, {words}, ε = {epsilon:g}",
                Case(column | slope, equal, truth, ends | more | {"epsilon": epsilon}, 5.0,
                     least=least, why=extreme if least < 0.94 else "", within=1.5),
            )  # fmt: skip


def of_ours():
    x = normals(600)[:, 0]
    two = {"x": x}
    columns, formula = named(normals(50, 4))
    theta = np.arange(5) / 5
    X = np.column_stack([np.ones(50), normals(50, 4)])
    yield (
        "K = 50, 5 coefficients",
        Case(columns, lambda rng: X @ theta + rng.standard_normal(50), theta,
             {"formula": formula, "range": (-9.0, 9.0)}, 1.0,
             wide=SQUARES),
    )  # fmt: skip
    many, all_of = named(normals(1000, 11))
    theta12 = np.arange(12) / 20
    X12 = np.column_stack([np.ones(1000), normals(1000, 11)])
    yield (
        "12 coefficients",
        Case(many, lambda rng: X12 @ theta12 + rng.standard_normal(1000), theta12,
             {"formula": all_of}, 1.0, wide=SQUARES),
    )  # fmt: skip
    yield (
        "K = 5,000, ε = 1",
        Case({"x": normals(5000)[:, 0]}, line(normals(5000)[:, 0], normal()), LINE,
             {"epsilon": 1.0}, 1.0),
    )  # fmt: skip
    near = 1 + 0.05 * x
    yield (
        "nearly collinear",
        Case({"x": near}, line(near, normal(), (0.5, 0.5)), [0.5, 0.5], {}, 1.0),
    )
    yield "no errors at all", Case(two, line(x, normal(0.0)), LINE, {}, wide="no errors")
    third = ["rare" if k == 9 else "usual" for k in range(600)]
    yield (
        "a category of one row",
        Case(two | {"g": third}, line(x, normal()), [1.0, 0.5, 0.0],
             {"formula": "y ~ x + C(g)", "categories": {"g": ["usual", "rare"]}}, 1.0,
             wide="one row of a category has the interval of the range"),
    )  # fmt: skip
    own, listed, at = groups([6, 594])
    means = np.array([0.5, 1.0])
    by = {"target": "y", "by": "g", "categories": {"g": listed}}
    yield (
        "two groups, 6 and 594 rows",
        Case({"g": own}, lambda rng: means[at] + rng.standard_normal(600), means, by, 1.0,
             wide="a group of 6 rows"),
    )  # fmt: skip
    uniform = lambda rng, x: rng.uniform(-2, 2, len(x))  # noqa: E731
    yield (
        "uniform errors, ε = 3",
        Case(two, line(x, uniform), LINE, {"epsilon": 3.0}, 2 / math.sqrt(3)),
    )
    modes = lambda rng, x: rng.choice([-3.0, 3.0], len(x))  # noqa: E731
    yield "errors of two modes", Case(two, line(x, modes), LINE, {}, 3.0)
    skewed = lambda rng, x: rng.exponential(1.0, len(x)) - 1  # noqa: E731
    yield (
        "exponential errors",
        Case(two, line(x, skewed), LINE, {"range": (-6.0, 12.0)}, 1.0),
    )
    yield (
        "whole numbers",
        Case(two, lambda rng: np.round(1 + 0.5 * x + rng.standard_normal(600)), LINE, {}),
    )
    level = {"epsilon": None, "level": 0.1}
    yield "exposure 0.1", Case(two, line(x, normal()), LINE, level, 1.0)
    own2, listed2, at2 = groups([200, 400])
    yield (
        "exposure 0.1, two groups",
        Case({"g": own2}, lambda rng: means[at2] + rng.standard_normal(600), means,
             {"target": "y", "by": "g", "categories": {"g": listed2}} | level, 1.0),
    )  # fmt: skip
    wanted = {"epsilon": None, "standard_error": {"x": 0.08}}
    yield (
        "standard error 0.08",
        Case(two, line(x, normal()), LINE, wanted, 1.0, wide=SQUARES),
    )
    yield (
        "standard error 0.1, σ stated 5 times too large",
        Case(two, line(x, normal(0.4)), LINE,
             {"epsilon": None, "standard_error": {"x": 0.1}, "residual_variance": 4.0},
             wide=SQUARES),
    )  # fmt: skip
    small, formula3 = named(normals(60, 2))
    X3 = np.column_stack([np.ones(60), normals(60, 2)])
    yield (
        "range alone, ε = 0.3",
        Case(small, lambda rng: X3 @ [1.0, 0.5, 0.0] + rng.standard_normal(60), [1.0, 0.5, 0.0],
             {"formula": formula3, "epsilon": 0.3}, 1.0),
    )  # fmt: skip
    owners = persons(300, 6)
    who = {"who": [f"p{k}" for k in owners]}
    half = shared(owners)
    yield (
        "300 persons, one mean",
        Case(who, lambda rng: 1 + half(rng), [1.0], {"target": "y", "person": "who"}),
    )
    X5 = normals(len(owners), 4)
    theta5 = np.full(5, 0.2)
    columns5, formula5 = named(X5)
    yield (
        "300 persons, 5 coefficients",
        Case(columns5 | who, lambda rng: 0.2 + X5 @ theta5[1:] + half(rng), theta5,
             {"formula": formula5, "person": "who"}, wide=SQUARES),
    )  # fmt: skip
    yield (
        "1,000 persons of 1-6 rows, at most 2 of each leave",
        _capped(),
    )
    slope = lambda rng: {  # noqa: E731
        "y": 1 + 0.5 * x + (e := rng.standard_normal(600)),
        "u": 2 - 0.3 * x + 0.8 * e + 0.6 * rng.standard_normal(600),
    }
    yield (
        "two columns, correlated",
        Case(two, slope, [1.0, 0.5, 2.0, -0.3],
             {"formula": "y + u ~ x", "range": {"y": WIDE, "u": (-4.0, 8.0)}}),
    )  # fmt: skip
    yield (
        "logarithm of y",
        Case(two, lambda rng: np.exp(LOG[0] + LOG[1] * x + 0.5 * rng.standard_normal(600)), LOG,
             {"formula": "log(y) ~ x", "range": (0.05, 60.0)}, 0.5,
             options="--formula 'log(y) ~ x'"),
    )  # fmt: skip
    yield (
        "10% of the values missing",
        Case(two, missing(line(x, normal()), 0.1), LINE, {"missing": "drop"}),
    )
    g, listed4, at4 = groups([150, 150, 150, 150])
    x4 = normals(600, seed=8)[:, 0]
    crossed = np.array([1.0, 0.5, 0.2, -0.2, 0.4, 0.0, 0.3, -0.3])
    H4 = np.column_stack([
        np.ones(600), x4, *(at4 == k for k in (1, 2, 3)), *(x4 * (at4 == k) for k in (1, 2, 3)),
    ])  # fmt: skip
    yield (
        "slopes of four groups",
        Case({"x": x4, "g": g}, lambda rng: H4 @ crossed + rng.standard_normal(600), crossed,
             {"formula": "y ~ x*C(g)", "categories": {"g": listed4}}, 1.0,
             wide=SQUARES),
    )  # fmt: skip
    columns6, formula6 = named(normals(600, 3, seed=6))
    X6 = normals(600, 3, seed=6)
    matrix = {"formula": formula6, "publish": "matrix"}
    without = np.array([1.0, 0.5, 0.2])
    yield (
        "a smaller model from the matrix",
        Case(columns6, lambda rng: 1 + X6[:, :2] @ without[1:] + rng.standard_normal(600), without,
             matrix, read=lambda z: pv.estimate(z, features=["x0", "x1"])),
    )  # fmt: skip
    row = {"x0": 1.0, "x1": -1.0, "x2": 0.5}
    yield (
        "the mean at a row, from the matrix",
        Case(columns6, lambda rng: 1 + X6[:, :2] @ without[1:] + rng.standard_normal(600),
             [1 + 0.5 - 0.2], matrix, read=lambda z: pv.estimate(z).predict(row)),
    )  # fmt: skip
    x7 = normals(2000, seed=7)[:, 0]
    near = {"range": (-30.0, 30.0), "within": 4.0}
    yield (
        "a wide range, and a pilot of 20%",
        Case({"x": x7}, line(x7, normal()), LINE, near | {"pilot": 0.2}, sd=1.0),
    )
    yield (
        "a wide range, and expected coefficients that are off",
        Case({"x": x7}, line(x7, normal()), LINE,
             near | {"expected": {"intercept": 0.9, "x": 0.6}}, sd=1.0),
    )  # fmt: skip


def _capped():
    owners = persons(1000, 6)
    x, half = normals(len(owners))[:, 0], shared(owners)
    table = {"x": x, "who": [f"p{k}" for k in owners]}
    return Case(table, lambda rng: 1 + 0.5 * x + half(rng), LINE, {"person": "who", "most_rows": 2})


def seed_of(name):
    """Every case has draws of its own."""
    return zlib.crc32(name.encode())


def cases(of):
    made = {NOTE: of_note, OURS: of_ours, INTERVALS: of_intervals}[of]
    found = dict(made())
    for case in found.values():
        case.of = of
    return found


CASES = cases(NOTE) | cases(INTERVALS) | cases(OURS)
COMMANDS = [name for name, case in CASES.items() if case.options]


@dataclass
class Found:
    """Errors of the estimates (times, n), half-widths, and the planned standard errors."""

    errors: np.ndarray
    half: np.ndarray
    planned: np.ndarray
    kind: str
    rows: int
    asked: int

    @property
    def cover(self):
        return (np.abs(self.errors) <= self.half).mean(axis=0)

    @property
    def bias(self):
        """In Monte Carlo standard errors."""
        sd = np.maximum(self.errors.std(axis=0, ddof=1), 1e-300)
        return self.errors.mean(axis=0) / sd * math.sqrt(len(self.errors))

    @property
    def width(self):
        return np.median(self.half, axis=0) / (1.96 * self.errors.std(axis=0))

    @property
    def attained(self):
        return self.errors.std(axis=0, ddof=1) / self.planned


def repeated(case, times, seed):
    """Through `pv.plan`, `Plan.simulate` and `pv.estimate`."""
    rng = np.random.default_rng(seed)
    table, plan = case.plan(rng)
    read = case.read or pv.estimate
    found = []
    for _ in range(times):
        table.update(case.values(rng))
        one = read(plan.simulate(rng=rng))
        ends = np.asarray(one.interval() if callable(one.interval) else one.interval)
        found.append((ends.mean(axis=1), np.diff(ends)[:, 0] / 2))
    planned = np.concatenate([plan.errors(column).total for column in plan.columns])
    return _found(case, found, planned, plan.splits[0].kind, plan.rows)


def of_replica(case, times, seed):
    """By `aggregate_replica`, with the variances and degrees of freedom of a document."""
    errors, variance, freedom = replicated(case, times, seed)
    _, plan = case.plan(np.random.default_rng(seed))
    half = scipy.special.stdtrit(freedom, 0.975) * np.sqrt(variance)
    planned = plan.errors(plan.columns[0]).total
    return Found(errors, half, planned, plan.splits[0].kind, plan.rows, len(errors))


def _found(case, found, planned, kind, rows):
    middle, half = np.array(found).swapaxes(0, 1)
    there = np.isfinite(middle).all(axis=1)  # else the score equations have no root
    kind = "scores" if case.ask.get("family") else kind
    errors = middle[there] - case.truth_of
    if len(planned) != errors.shape[1]:
        planned = np.full(errors.shape[1], np.nan)
    return Found(errors, half[there], planned, kind, rows, len(found))


def commanded(case, times, seed):
    """The same through `privest plan`, `privest release --simulate` and `privest estimate`."""
    rng, found = np.random.default_rng(seed), []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        data, toml = here / "t.csv", here / "plan.toml"
        stated = _options(case)

        def written():
            pd.DataFrame(case.table | case.values(rng)).to_csv(data, index=False)

        def told(*words):
            done = called(*words)
            assert done.returncode == 0, done.stderr
            return done.stdout

        written()
        told("plan", data, *stated, "--save", toml)
        for k in range(times):
            written()
            z = here / f"z{k}.json"
            told("release", toml, "--simulate", "--seed", int(rng.integers(2**31)), "--output", z)
            one = json.loads(told("estimate", z, "--json"))
            ends = np.array(one["interval"], dtype=float)
            found.append((ends.mean(axis=1), np.diff(ends)[:, 0] / 2))
    _, plan = case.plan(rng)
    planned = plan.errors(plan.columns[0]).total
    return _found(case, found, planned, plan.splits[0].kind, plan.rows)


def _options(case):
    found = [*shlex.split(case.options), "--form", "aggregate"]
    if "range" in case.ask:
        found.append("--range={},{}".format(*case.ask["range"]))
    if "residual_variance" in case.ask:
        found += ["--residual-variance", case.ask["residual_variance"]]
    return [*found, "--epsilon", case.ask["epsilon"]]


def span(values, digits):
    low, high = (f"{x:.{digits}f}" for x in (np.min(values), np.max(values)))
    return low if low == high else f"{low} to {high}"


def line_of(name, case, found):
    name = name.replace("|", "\\|")
    attained = span(found.attained, 2) if case.sd is not None else ""
    said = case.why if case.why else case.wide if found.cover.max() > 0.98 else ""
    lost = found.asked - len(found.errors)
    if lost:
        said = "; ".join(filter(None, [said, f"no estimate in {lost} of {found.asked}"]))
    return (
        f"|{name}|{found.kind}|{found.rows:,}|{found.errors.shape[1]}|{span(found.cover, 3)}|"
        f"{np.abs(found.bias).max():.1f}|{span(found.width, 2)}|{attained}|{said}|"
    )


HEAD = (
    "|case|squares|K|n|coverage|bias|width|sd/planned|why conservative, or low|\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--times", type=int, default=2000)
    asked.add_argument("--of", choices=(NOTE, INTERVALS, OURS))
    asked.add_argument("--command", action="store_true", help="through the command line")
    asked.add_argument("--replica", action="store_true", help="with continuous noise")
    given = asked.parse_args()
    print(HEAD)
    run = commanded if given.command else of_replica if given.replica else repeated
    for name, case in CASES.items():
        if given.of not in (None, case.of) or (given.command and name not in COMMANDS):
            continue
        print(line_of(name, case, run(case, given.times, seed_of(name))), flush=True)


if __name__ == "__main__":
    main()
