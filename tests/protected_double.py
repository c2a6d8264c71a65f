"""Releases with noise far wider than 1, for tests that an estimator counts it.

A grid of 0.5 means noise of variance v = 1 + 3/16 = 1.1875: at 2⁻¹⁰ forgetting v would not be seen.
"""

import numpy as np

from privest.mechanism.source import Source

GRID = 0.5
V = 1.0 + 0.75 * GRID**2


class Wide(Source):
    """What a source of real releases is to an estimator, with its own numbers: not protected."""

    simulated, grid = False, GRID

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def add_noise(
        self, shown, *, shape=None, at=0, sizes=None, law="gaussian", clip=None, fingerprint=None
    ):
        found = shown() if callable(shown) else shown
        plain = getattr(found, "high", found)
        return plain + np.sqrt(V) * self.rng.standard_normal(np.shape(plain))
