"""The best level for each measurement: against CVXPY + Clarabel, 10⁵ measurements and 10⁶.

One line of the table is the slowest of a family of problems, with the largest certified gap of all;
`python -m benchmarks.bench_design` prints every problem. A gap above 1e-6 is OVER, like the time.
"""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from benchmarks.timing import Row, compare, report, seconds
from privest import LinearModel, design

FEW, SOME, MANY = 10_000, 100_000, 1_000_000
LIMIT, LONG = 10.0, 60.0  # seconds for some measurements, and for many of 20 parameters
GAP = 1e-6
SHOW = False
VARIANCES = (10.0, 1.0, 1e-2, 1e-5)  # times the mean level, which is 1
CRITERIA = {"A": "A", "D": "D", "E": "E"}


def measurements(kind, count, n):
    """Rows: independent normal, heavy-tailed t(2), 30 clusters ± 1e-3, two columns nearly equal."""
    rng = np.random.default_rng(17)
    if kind == "heavy":
        return rng.standard_t(2, size=(count, n))
    rows = rng.normal(size=(count, n))
    if kind == "clusters":
        return rng.normal(size=(30, n))[rng.integers(0, 30, count)] + 1e-3 * rows
    if kind == "collinear":
        rows[:, -1] = rows[:, 0] + 1e-3 * rows[:, -1]
    return rows


@dataclass(frozen=True)
class Closed(Row):
    """A row whose answers are only good within a certified gap."""

    gap: float = np.inf

    @property
    def verdict(self):
        return "OVER" if not self.gap <= GAP else super().verdict


def solved(H, v, criterion, target=None):
    """Seconds and certified gap of one problem: a budget of 1 for each measurement, or a target."""
    model, found = LinearModel(H, noise=v), []

    def work():
        if target is None:
            found.append(design.allocate(model, float(len(H)), criterion=criterion))
        else:
            found.append(design.least_loss(model, target, criterion=criterion))

    return seconds(work), found[0].gap


def family(name, problems, items=SOME, limit=LIMIT):
    """One line: the slowest of the problems, the largest gap."""
    done = []
    for label, problem in problems:
        time, gap = solved(*problem)
        done.append((time, gap, label))
        if SHOW:
            print(f"  {name}, {label}: {time:.2f} s, gap {gap:.0e}", flush=True)
    slowest = max(done)
    gap = max(gap for _, gap, _ in done)
    return Closed(
        name=f"{name}: slowest of {len(done)} ({slowest[2]}), gaps ≤ {gap:.0e}",
        reference=f"the limit, {limit:g} s",
        seconds=slowest[0],
        reference_seconds=limit,
        ratio=slowest[0] / limit,
        limit=1.0,
        items=items,
        gap=gap,
    )


def large(kind, n):
    """A and D in every regime of the noise."""
    H = measurements(kind, SOME, n)

    def problems():
        for v in VARIANCES:
            for name in ("A", "D"):
                yield f"{name}, σ²s = {v:g}", (H, v, CRITERIA[name])

    return family(f"10⁵ {kind} measurements, n = {n}", problems())


def others(kind):
    """The worst direction (E), one parameter (c), and the least loss for an accuracy (A)."""
    H = measurements(kind, SOME, 5)
    one = np.eye(5)[0]
    equal = float(np.trace(np.linalg.inv(H.T @ H))) * (1e-2 + 1.0)  # A of equal levels of 1
    problems = [
        ("E, σ²s = 1", (H, 1.0, CRITERIA["E"])),
        ("E, σ²s = 0.01", (H, 1e-2, CRITERIA["E"])),
        ("c, σ²s = 0.01", (H, 1e-2, one)),
        ("least loss for A, σ²s = 0.01", (H, 1e-2, CRITERIA["A"], equal)),
    ]
    return family(f"10⁵ {kind} measurements, n = 5, other questions", problems)


def million():
    """10⁶ measurements of 20 parameters: 210 features, made in blocks."""
    H = measurements("normal", MANY, 20)
    problems = [(f"A, σ²s = {v:g}", (H, v, CRITERIA["A"])) for v in (1.0, 1e-2)]
    return family("10⁶ normal measurements, n = 20", problems, MANY, LONG)


def reference(H, v, kind, budget):
    """CVXPY + Clarabel, scaled as in tests/design_reference.py, at its own tolerances."""
    count = len(H)
    R = np.linalg.cholesky(H.T @ H / count).T
    rows = H @ np.linalg.inv(R)

    def solve():
        s, x = cp.Variable(count, nonneg=True), cp.Variable(count)
        cone = cp.SOC(s - x + 1 + v * s, cp.vstack([2 * np.sqrt(v) * s, s - x - 1 - v * s]), axis=0)
        M = _gram(rows, x) / count
        goal = -cp.log_det(M) if kind == "D" else cp.matrix_frac(np.linalg.inv(R).T, M)
        problem = cp.Problem(cp.Minimize(goal), [cone, cp.sum(s) <= budget])
        problem.solve(solver=cp.CLARABEL)
        return problem.value

    return solve


def _gram(rows, x):
    """Σ x_k h_kh_kᵀ as a linear map of x."""
    count, n = rows.shape
    outer = (rows[:, :, None] * rows[:, None, :]).reshape(count, n * n)
    return cp.reshape(outer.T @ x, (n, n), order="C")


def against(name, v):
    H = measurements("normal", FEW, 5)
    model, budget = LinearModel(H, noise=v), float(FEW)
    return compare(
        f"best levels of 10⁴ measurements, {name}, n = 5, σ²s = {v:g}, gap ≤ 1e-6",
        lambda: design.allocate(model, budget, criterion=CRITERIA[name]),
        "CVXPY + Clarabel",
        reference(H, v, name, budget),
        at_least=10,
        again=5,
        repeats=1,
    )


def rows():
    for name, v in (("A", 1.0), ("A", 1e-2), ("D", 1e-2)):
        yield against(name, v)
    for kind in ("normal", "heavy", "clusters", "collinear"):
        for n in (5, 12):
            yield large(kind, n)
        yield others(kind)
    yield million()


if __name__ == "__main__":
    SHOW = True
    report(rows())
