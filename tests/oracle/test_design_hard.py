"""Designs of problems that nobody would choose: sizes over ten orders, ties, sparse and wild rows.

No reference solver is needed: levels are checked against every limit, valued by independent
arithmetic (`design_reference.value_of`), and the two directions against each other: levels for a
target cost no more than those of a budget that reach it, and no floor is above them.
"""

import numpy as np
import pytest

import privest as pv
from design_cases import CRITERIA, criteria
from design_reference import Case, value_of

ROWS = ("normal", "repeated", "wild", "intercept", "sparse")
LIMITS = ("none", "caps", "groups", "persons", "largest")


def rows(rng, kind, m, n):
    H = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-3, 3, n)
    if kind == "repeated":
        return np.repeat(H[: max(n, m // 4)], 5, axis=0)
    if kind == "wild":
        return H * rng.standard_t(1.5, (m, 1))
    if kind == "intercept":
        H[:, 0] = 1.0
    if kind == "sparse":
        H = np.where(rng.random(H.shape) < 0.5, 0.0, H)
        H[:n] = np.diag(10.0 ** rng.uniform(-1, 1, n))  # every parameter is seen
    return H


def variances(rng, m):
    kinds = [
        rng.uniform(0.1, 2, m),
        np.full(m, 1e-4),
        np.zeros(m),
        np.where(rng.random(m) < 0.5, 0.0, rng.uniform(0.1, 2, m)),
        10.0 ** rng.uniform(-8, 4, m),
    ]
    return kinds[rng.integers(len(kinds))]


def problem(seed):
    """(case, criterion of the reference, model, options, budget)."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    H = rows(rng, ROWS[rng.integers(5)], int(n + rng.integers(0, 40)), n)
    m = len(H)
    v, budget = variances(rng, m), float(m * 10.0 ** rng.uniform(-5, 5))
    limit, options = LIMITS[rng.integers(5)], {}
    cost, cap, atom = np.ones(m), np.full(m, np.inf), np.arange(m)
    if limit != "largest" and rng.random() < 0.3:
        options["cost"] = cost = 10.0 ** rng.uniform(-2, 2, m)
    mean = budget / cost.sum()
    names = rng.integers(0, max(2, m // 3), m)
    labels = np.unique(names, return_inverse=True)[1]
    person = most = None
    one = float(mean * 10.0 ** rng.uniform(0, 1))
    if limit == "caps":
        options["cap"] = cap = mean * 10.0 ** rng.uniform(-0.5, 1.5, m)
    if limit == "groups":
        options["groups"], atom = names, labels
    if limit == "persons":
        options |= {"persons": names, "person_cap": one}
        person, most = labels, np.full(labels.max() + 1, one)
    if limit == "largest":
        atom, cap, cost = labels, np.full(m, one), 1 / np.bincount(labels)[labels]
        options |= {"groups": names, "cost": cost, "cap": one}
    reference, asked = criteria(rng, CRITERIA[rng.integers(5)], n)
    options |= asked
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=v))
    return Case(H, v, cost, cap, atom, person, most), reference, model, options, budget


def judged(seed):
    case, criterion, model, options, budget = problem(seed)
    size = (lambda value: 1.0) if criterion.kind == "logdet" else abs
    found = pv.design.allocate(model, budget, **options)
    assert case.violation(found.levels, budget) <= 1e-12
    assert abs(found.value - value_of(criterion, case, found.levels)) <= 1e-7 * size(found.value)
    assert found.floor <= found.value + 1e-9 * size(found.value)
    assert found.certified
    target = found.value + 0.2 * size(found.value)
    least = pv.design.least_loss(model, target, **options)
    assert case.violation(least.levels) <= 1e-12
    assert value_of(criterion, case, least.levels) <= target + 1e-8 * size(target)
    assert least.floor <= least.spent * (1 + 1e-9)
    assert least.floor <= found.spent, "the floor is a lie: these levels reach the target for less"
    assert least.spent <= found.spent * (1 + 1e-6)
    assert least.certified


@pytest.mark.parametrize("seed", [*range(16), 497])  # 497: feasible levels cost the first proof
def test_hard_problems(seed):
    judged(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_hard_problems(block):
    for seed in range(100 + 50 * block, 150 + 50 * block):
        judged(seed)
