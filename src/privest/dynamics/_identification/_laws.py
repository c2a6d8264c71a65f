"""Student's laws to draw from, points of a fixed lattice, and weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import NotIdentifiable

FREEDOM = 5.0


class Law(NamedTuple):
    """Student's law: mean and lower-triangular root of its scale."""

    mean: Array
    root: Array

    def log_density(self, points: Array) -> Array:
        """Up to a constant that all laws of one dimension share."""
        p = len(self.mean)
        unit = scipy.linalg.solve_triangular(self.root, (points - self.mean).T, lower=True)
        size = np.log(np.abs(self.root.diagonal())).sum() - _student_constant(p)
        return np.asarray(
            -(FREEDOM + p) / 2 * np.log1p(np.square(unit).sum(axis=0) / FREEDOM) - size
        )


def _student_constant(p: int) -> float:
    """The logarithm of the density of the unit law at 0."""
    gamma = scipy.special.gammaln
    return float(
        gamma((FREEDOM + p) / 2) - gamma(FREEDOM / 2) - p / 2 * math.log(FREEDOM * math.pi)
    )


def lattice(p: int, count: int) -> tuple[Array, Array]:
    """Points (N, p) even in the unit cube, and unit draws of Student's law: i·α mod 1, α the powers
    of 1/g with g^{d+1} = g + 1.
    """
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (p + 2))
    u = np.mod(0.5 + np.arange(1, count + 1)[:, None] * g ** -np.arange(1.0, p + 2), 1.0)
    scale = np.sqrt(FREEDOM / (2 * scipy.special.gammaincinv(FREEDOM / 2, u[:, p])))
    return u[:, :p], np.asarray(scipy.special.ndtri(u[:, :p]) * scale[:, None])


def normed(logs: Array) -> Array:
    """exp, to a sum of one."""
    top = logs.max()
    if not np.isfinite(top):
        raise NotIdentifiable("No point near the maximum has a likelihood.")
    weights = np.exp(logs - top)
    return np.asarray(weights / weights.sum())


def evened(logs: Array, wanted: float) -> Array:
    """Weights exp γ·logs to a sum of one, γ ≤ 1 the largest with which so many count."""
    power, step = 1.0, 0.5
    weights = normed(logs)
    for _ in range(20):
        enough = 1 / float(weights @ weights) >= wanted
        if enough and power == 1.0:
            break
        power += step if enough else -step
        step /= 2
        weights = normed(power * logs)
    return weights
