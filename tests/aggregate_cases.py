"""Tables and designs that the tests of the aggregate release share."""

import itertools
import math
from fractions import Fraction

import numpy as np

from privest import aggregate, vault
from privest.aggregate._ways import LeftSums
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


def most_of(design):
    """The rows of a person, at most; None where rows are the unit."""
    return None if design.persons is None else int(design.persons.rows.max())


def split_of(design, limits, **promise):
    """The split of a promise (mu, or level), of the kind that the design asks for."""
    kind = aggregate.kind_of(design, limits, **promise)
    return aggregate.split(kind, design.rows.n, limits, most=most_of(design), **promise)


class Recorded(Source):
    """A way that records what noise is added to: `shown`, whole numbers, and `sigma`, their noise.

    rng   of the noise; None: there is none.
    seed  of the random roundings, the same for every table.
    """

    simulated = True

    def __init__(self, rng=None, seed=0):
        self.rng, self.seed = rng, seed
        self.shown, self.sigma, self.laws = [], [], []

    def add_noise(self, *shown, **how):
        raise AssertionError("sums leave in whole numbers")

    def leave(self, values, asked):
        words = np.random.default_rng([self.seed, len(self.laws)]).integers(
            2**64, size=len(values), dtype=np.uint64
        )
        k = vault.on_grid(np.asarray(values, float), asked.range, words, centre=asked.centre)
        found = [int(number) for number in asked.map.shown(k, asked.range, words)]
        sigma = np.broadcast_to(np.array(asked.law.sigma, dtype=object), len(found)).tolist()
        self.laws.append(asked.law)
        self.shown.append(found)
        self.sigma.append(sigma)
        integers = self.integers(found, sigma)
        return LeftSums(tuple(integers), asked.law, asked.range)

    def integers(self, shown, sigma):
        if self.rng is None:
            return shown
        noise = self.rng.standard_normal(len(shown))
        return [a + round(b * x) for a, b, x in zip(shown, sigma, noise)]

    @property
    def scaled(self):
        """All that was shown, in units of its noise: fractions."""
        pairs = zip(itertools.chain(*self.shown), itertools.chain(*self.sigma), strict=True)
        return [Fraction(shown, sigma) for shown, sigma in pairs]


class Forced(Recorded):
    """Releases what it is told to, in units of the noise; records what it was to show."""

    def __init__(self, *outputs, seed=0):
        super().__init__(seed=seed)
        self.outputs = list(outputs)

    def integers(self, shown, sigma):
        told = np.broadcast_to(self.outputs[len(self.laws) - 1], len(shown))
        return [round(float(x) * b) for x, b in zip(told, sigma)]


def moved2(first, second):
    """Σ(Δ/σ)² of two lists of `scaled`."""
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def weights_of(design):
    """H and L of all rows."""
    X, L = zip(*design.map(lambda X, L: (X, L)))
    return np.concatenate(X), np.concatenate(L)


def values_between(lo, hi, count):
    """Values from end to end, and some near the ends."""
    inner = np.linspace(lo, hi, count)
    return np.unique([lo, math.nextafter(lo, hi), *inner, math.nextafter(hi, lo), hi])
