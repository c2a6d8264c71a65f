"""Streams whose noise remembers, for tests: an hourly design, AR(1) noise, dense formulas."""

import numpy as np
import scipy


def hourly(count):
    """Intercept, temperature, evening, weekend of so many hours."""
    t = np.arange(count)
    warm = 10 + 5 * np.sin(2 * np.pi * t / 168) + 3 * np.sin(2 * np.pi * t / 24)
    evening, weekend = (t % 24 >= 18) & (t % 24 < 22), (t // 24) % 7 >= 5
    return np.column_stack([np.ones(count), warm, evening, weekend]).astype(float)


def remembering(rng, shape, correlation, variance=1.0):
    """Stationary AR(1) along the last axis."""
    white = np.sqrt(variance * (1 - correlation**2)) * rng.standard_normal(shape)
    white[..., 0] = np.sqrt(variance) * rng.standard_normal(shape[:-1])
    return scipy.signal.lfilter([1.0], [1.0, -correlation], white, axis=-1)


def autoregressive(count, correlation, variance):
    """The covariance of AR(1), dense."""
    return variance * correlation ** np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
