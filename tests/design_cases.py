"""Random problems of allocation: every criterion, constraint and size of the noise.

What a test calls by name ("A rank 2", "persons", "mixed") becomes a `Case` and a `Criterion` of
`design_reference`, and what a user would pass to `pv.design`.
"""

from dataclasses import dataclass

import numpy as np

import privest as pv
from design_reference import Case, Criterion, value_of

CRITERIA = ("A", "A rank 2", "D", "E", "c")  # "standard errors" besides: a target alone
CONSTRAINTS = ("budget", "costs", "caps", "groups", "persons", "largest")
NOISE = ("moderate", "small", "none", "mixed")


@dataclass(frozen=True)
class Asked:
    """One cell of the grid: for the reference, and for the doors of the library."""

    case: Case
    criterion: Criterion
    model: pv.LinearModel
    options: dict  # of every door: criterion=, cost=, cap=, groups=, persons=
    budget: float

    def value(self, levels):
        return value_of(self.criterion, self.case, levels)

    @property
    def logarithm(self):
        return self.criterion.kind == "logdet"

    def target(self, value):
        """What a user asks for so that the criterion is at most `value`."""
        if self.criterion.kind != "largest":
            return value
        errors = value**0.5 / np.diagonal(self.criterion.matrix)
        return {f"θ[{j}]": float(error) for j, error in enumerate(errors)}

    def excess(self, one, other):
        """How much the criterion `one` is above `other`: relative; of log det absolute."""
        return one - other if self.logarithm else one / other - 1


def variances(rng, kind, m):
    if kind == "moderate":
        return rng.uniform(0.1, 2, m)
    if kind == "mixed":
        return np.where(rng.random(m) < 0.5, 0.0, rng.uniform(0.1, 2, m))
    return np.full(m, {"small": 1e-4, "none": 0.0}[kind])


def criteria(rng, name, n):
    """(of the reference, of the library)."""
    if name == "A":
        return Criterion("trace", np.eye(n)), {}
    if name == "A rank 2":
        root = rng.standard_normal((n, 2))
        return Criterion("trace", root), {"weight": root @ root.T}
    if name == "D":
        return Criterion("logdet"), {"criterion": "D"}
    if name == "E":
        root = rng.standard_normal((n, n))
        weight = root @ root.T + 0.1 * np.eye(n)
        return Criterion("least", weight), {"criterion": "E", "weight": weight}
    if name == "c":
        vector = rng.standard_normal(n)
        return Criterion("trace", vector[:, None]), {"criterion": vector}
    errors = rng.uniform(0.05, 0.5, n)
    return Criterion("largest", np.diag(1 / errors)), {}


def asked(seed, criterion, constraint, noise):
    """A cell: 20 to 59 readings, 2 to 5 parameters, columns of different units."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(20, 60)), int(rng.integers(2, 6))
    H = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-1, 1, n)
    v = variances(rng, noise, m)
    cost, cap, atom = np.ones(m), np.full(m, np.inf), np.arange(m)
    person = most = None
    options = {}
    labels = rng.permutation(np.arange(m) // 3)  # three readings each; not next to each other
    named = [f"number {k}" for k in labels]
    if constraint == "costs":
        options["cost"] = cost = rng.uniform(0.3, 3, m)
    if constraint == "caps":
        options["cap"] = cap = rng.uniform(1, 3, m)
    if constraint == "groups":
        options["groups"], atom = named, labels
    if constraint == "persons":  # Σ s_k of a person is limited
        limit = float(rng.uniform(3, 6))
        person, most = labels, np.full(labels.max() + 1, limit)
        options |= {"persons": named, "person_cap": limit}
    if constraint == "largest":  # one level a person, limited, and paid once
        limit = float(rng.uniform(1.5, 3))
        atom, cap, cost = labels, np.full(m, limit), 1 / np.bincount(labels)[labels]
        options |= {"groups": named, "cost": cost, "cap": limit}
    reference, public = criteria(rng, criterion, n)
    case = Case(H, v, cost, cap, atom, person, most)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=v))
    return Asked(case, reference, model, public | options, float(cost.sum()))
