"""Work for the Monte Carlo engine's tests, in a module that other processes can import."""

import numpy as np


def normal(rng, trials, scale=1.0):
    return scale * rng.standard_normal(trials)


def wrong(rng, trials):
    return np.zeros(trials + 1)


def pair(rng, trials):
    return rng.standard_normal((trials, 1)) * [1.0, 2.0]
