"""Tables and designs that the tests of the aggregate release share."""

import math
from fractions import Fraction

import numpy as np

from privest import aggregate
from privest.mechanism.source import Source


def design_of(H, owners=None, *, blocks=1, in_memory=2**25):
    """The design of rows (K, n), and the rows of each block; `owners`: whose they are."""
    H = np.asarray(H, dtype=float)
    parts = np.array_split(H, blocks)
    rows = aggregate.FeatureRows(H.shape[1], parts, in_memory=in_memory)
    persons = None
    if owners is not None:
        numbers = np.array_split(np.asarray(owners), blocks)
        persons = aggregate.RowPersons(numbers, np.bincount(owners))
        rows = aggregate.person_rows(rows, persons)
    triangle = np.linalg.qr(np.concatenate([*rows, np.zeros((rows.n, rows.n))]), mode="r")
    return aggregate.sum_design(rows, triangle, persons)


def split_of(design, limits, **promise):
    """The split of a promise (mu, or level), of the kind that the design asks for."""
    kind = aggregate.kind_of(design, limits, **promise)
    return aggregate.split(kind, design.rows.n, limits, **promise)


class Recorded(Source):
    """Noise of a generator (or none), and what it was added to: for tests only."""

    simulated = True

    def __init__(self, rng=None):
        self.rng, self.shown = rng, []

    def add_noise(self, shown, *, shape=None, law="gaussian", **how):
        assert law == "gaussian"  # of aggregate releases
        found = shown() if callable(shown) else shown
        self.shown.append(found)
        noise = 0.0 if self.rng is None else self.rng.standard_normal(shape)
        return found.high + noise


class Forced(Recorded):
    """Shows what it is told to; records what it was to show."""

    def __init__(self, *outputs):
        super().__init__()
        self.outputs = list(outputs)

    def add_noise(self, shown, *, shape=None, **how):
        self.shown.append(shown() if callable(shown) else shown)
        return np.broadcast_to(self.outputs[len(self.shown) - 1], shape).astype(float)


def weights_of(design):
    """H and L of all rows."""
    X, L = zip(*design.map(lambda X, L: (X, L)))
    return np.concatenate(X), np.concatenate(L)


def norm2(row):
    """‖row‖² of doubles, a fraction."""
    return sum(Fraction(x) ** 2 for x in np.asarray(row).tolist())


def values_between(lo, hi, count):
    """Values from end to end, and some near the ends."""
    inner = np.linspace(lo, hi, count)
    return np.unique([lo, math.nextafter(lo, hi), *inner, math.nextafter(hi, lo), hi])
