"""A replica of the aggregate release of numbers, with continuous noise: many repetitions at once.

It takes the public facts of a plan (rows, weights, division of the promise), and writes down anew
what leaves and what follows from it (curator.md; intervals.md, sections 1 and 2). Only the interval
itself is the library's, which `tests/oracle/test_aggregate_interval.py` compares with quadrature.
"""

import numpy as np

from aggregate_cases import weights_of
from privest import aggregate

CHUNK = 2**22  # values drawn at a time


def kappa(M, share):
    """κ(M) on a grid of d, for an array M."""
    table = np.linspace(0.5, 1.0, 257)
    d = np.linspace(0.0, 1.0, 2001)[1:]
    with np.errstate(divide="ignore"):
        squared = [((1 - (1 - share) * d**2) / (d * (2 * m - d)) ** 2).min() for m in table]
    return np.interp(M, table, np.sqrt(squared))


class Replica:
    """`drawn(y, rng)`: estimates (times, n), and u and d of the squares, for values (times, K)."""

    def __init__(self, plan):
        design, (column,), (self.own,) = plan.survey.sums, plan.columns, plan.splits
        assert self.own.kind in ("squares", "persons")
        limits = plan.summed(column)
        self.low, self.high = limits.low, limits.high
        self.X, self.L = weights_of(design)
        inverse = np.linalg.inv(self.L.T @ self.X)
        self.A = inverse @ self.L.T
        self.b = (inverse**2).sum(axis=1)
        self.inverse, n = inverse, len(inverse)
        self.owner = None
        if design.persons is not None:
            self.owner = np.concatenate([np.asarray(part) for part in design.persons.numbers])
            persons = np.eye(self.owner.max() + 1)[self.owner].T
            q = persons @ (self.A**2).T
            self.nu = q.sum(axis=0) ** 2 / (q**2).sum(axis=0)
            self.top = ((persons @ np.abs(self.A).T) ** 2).sum(axis=0)
            self.f = len(persons) / (len(persons) - n)
            self.members = persons
        else:
            N = np.eye(len(self.X)) - self.X @ self.A
            N = N @ N.T
            trace = (self.A**2) @ np.diag(N)
            squares = [a2 @ (N**2) @ a2 for a2 in self.A**2]
            self.nu = np.maximum(1, trace**2 / squares)
            self.f = np.minimum(2, (self.A**2).sum(axis=1) / trace)
            self.top = (self.A**2).sum(axis=1)
        self.top = self.top * (self.high - self.low) ** 2 / 4

    def drawn(self, values, rng):
        own, width = self.own, self.high - self.low
        c1 = own.level
        y = np.clip(values, self.low, self.high)
        z = np.sqrt(c1) * y @ self.L + rng.standard_normal((len(y), len(self.b)))
        theta = z @ self.inverse.T / np.sqrt(c1)
        m = np.clip(theta @ self.X.T, self.low, self.high)
        M = 0.5 + np.abs(m - (self.low + self.high) / 2) / width
        if self.owner is not None:
            k, shown = self._persons(y - m, M, rng)
        else:
            q = self.A.T**2 / self.b
            size = np.linalg.norm(q, axis=1)
            if own.mu is None:
                k = 0.999 * np.sqrt(own.share * own.exposure) / (2 * width * (M * size).max(axis=1))
            else:
                k = 0.999 * own.mu / width**2 * (kappa(M, own.share) / size).min(axis=1)
            t = k[:, None] * ((y - m) ** 2 @ q) + rng.standard_normal(theta.shape)
            shown = t / k[:, None] * self.b
        u, d = self.f * shown, self.f * self.b / k[:, None]
        return theta, u, d

    def _persons(self, residuals, M, rng):
        n, width = len(self.b), self.high - self.low
        reach = width * ((M * np.linalg.norm(self.L, axis=1)) @ self.members.T).max(axis=1)
        k = np.sqrt(self.own.share / min(n, 2)) * self.own.mu / reach**2
        at = np.triu_indices(n)
        noise = rng.standard_normal((len(M), len(at[0]))) / k[:, None]
        E = np.zeros((len(M), n, n))
        E[:, at[0], at[1]] = noise * np.where(at[0] == at[1], 1.0, np.sqrt(0.5))
        E = E + np.triu(E, 1).swapaxes(1, 2)
        moved = np.stack([(residuals * a) @ self.members.T for a in self.A], axis=2)
        squares = (moved**2).sum(axis=1)
        return k, squares + np.einsum("ij,tjk,ik->ti", self.inverse, E, self.inverse)


def replicated(case, times, seed):
    """Errors of the estimates, variances and degrees of freedom, (times, n) each."""
    rng = np.random.default_rng(seed)
    _, plan = case.plan(rng)
    replica = Replica(plan)
    step = max(1, CHUNK // len(replica.X))
    found = []
    for start in range(0, times, step):
        y = np.array([case.draw(rng) for _ in range(min(step, times - start))])
        theta, u, d = replica.drawn(y, rng)
        facts = (replica.b / replica.own.level, u, d, replica.top, replica.nu)
        flat = (np.broadcast_to(one, u.shape).ravel() for one in facts)
        variance, freedom = aggregate.VarianceFromSquares(*flat).student()
        found.append((theta - case.truth_of, variance.reshape(u.shape), freedom.reshape(u.shape)))
    return (np.concatenate(part) for part in zip(*found))
