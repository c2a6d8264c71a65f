"""Moments of releases of single numbers: where a search for parameters begins."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._releases import Data
from privest.dynamics._steps import of_entries
from privest.mechanism.stream_terms import shown_series

DIFFERENCES = (1, 2, 3)  # orders: what they leave is at least the variance of what is white


class Moments(NamedTuple):
    """Releases ŷ_k = z̃_k/ℓ_k = y_k + noise of variance 1/s_k, and their sizes.

    values (K, series), columns (K, p) of the inputs, noise 1/s_k and weight ∝ 1/(γ_0 + 1/s_k);
    variance about the inputs, with privacy noise; whitest: the least that differences leave;
    lagged:
    releases look back. Privacy noise is white: autocovariances of lags h ≥ 1 need no correction.
    """

    values: Array
    columns: Array
    noise: Array
    weight: Array
    lagged: bool
    variance: float = 1.0
    whitest: float = 1.0

    @property
    def steps(self) -> int:
        return len(self.values)

    @property
    def signal(self) -> float:
        noise = float((self.weight * self.noise).sum() / self.weight.sum())
        return max(self.variance - noise, 0.1 * self.variance)

    def autocovariances(self, lags: int) -> Array:
        """γ_0 + noise, γ_1, …, γ_lags over pairs (k, k − h)."""
        found = []
        weighted = self.weight * self.values
        for h in range(min(lags, self.steps - 1) + 1):
            end = self.steps - h
            weights = float((self.weight[h:] * self.weight[:end]).sum())
            if not weights > 0:
                break
            found.append(float((weighted[h:] * weighted[:end]).sum()) / weights)
        return np.array(found)

    def white_variance(self, order: int) -> float:
        """Variance of the differences (1 − B)^order over that of white noise of variance 1."""
        steps = self.steps - order
        places = [slice(order - j, order - j + steps) for j in range(order + 1)]
        weight = np.min([self.weight[at] for at in places], axis=0) if steps > 0 else np.zeros(1)
        if not weight.any():
            return math.inf
        whole = sum(f * self.values[at] for f, at in zip(np.poly(np.ones(order)), places))
        return float((weight * np.square(whole)).sum() / weight.sum()) / math.comb(2 * order, order)

    def peak_frequency(self) -> float:
        waves = np.fft.rfft(self.values * self.weight, axis=0)
        power = np.square(np.abs(waves)).sum(axis=1)
        return 2 * math.pi * int(power[1:].argmax() + 1) / self.steps

    def autoregression(self, order: int, after: int) -> Array:
        """φ (order,) by least squares on γ_h = Σ_j φ_jγ_{h−j} for lags h > after, which white
        errors miss.
        """
        gamma = self.autocovariances(3 * order + after + 4)
        gamma[0] = self.signal
        h = np.arange(1 + after, len(gamma))
        past = gamma[np.abs(np.subtract.outer(h, np.arange(1, order + 1)))]
        return np.asarray(np.linalg.lstsq(past, gamma[h], rcond=None)[0])

    def means(self) -> Array:
        each = self.weight.sum(axis=1)
        return np.asarray((self.weight * self.values).sum(axis=1) / np.where(each > 0, each, 1.0))

    def residuals(self, columns: Array) -> tuple[Moments, Array]:
        """The same after weighted least squares on columns (K, p), and their coefficients."""
        if not columns.shape[1]:
            return self, np.zeros(0)
        root = np.sqrt(self.weight.sum(axis=1))
        found = np.linalg.lstsq(root[:, None] * columns, root * self.means(), rcond=None)[0]
        rest = np.where(self.weight > 0, self.values - (columns @ found)[:, None], 0.0)
        return self._replace(values=rest), found


def moments_of(data: list[Data]) -> Moments:
    level = data[0].level
    K = data[0].steps
    unit = data[0].unit
    if level.form == "dense":
        gain = np.linalg.norm(level.dense_rows(0, K), axis=1)
    else:
        gain = np.sqrt(np.square(level.blocks(0, K)[:, :, 0, 0]).sum(axis=0))
    gain = unit * gain
    lagged = level.reach > 0 or level.form == "dense"
    columns = data[0].inputs
    size = np.where(gain > 0, gain, 1.0)[:, None]
    if columns.shape[1] and lagged:
        columns = unit * shown_series(level, columns.T[:, :, None])[:, :, 0].T / size
    flags = [np.repeat(~of_entries(own.missing)[:, :1], own.series, axis=1) for own in data]
    there = np.concatenate(flags, axis=1) & (gain > 0)[:, None]
    every = np.concatenate([own.values[:, 0] for own in data], axis=1)
    values = np.where(there, every / size, 0.0)
    noise = np.where(there, size**-2, 0.0)
    found = Moments(values, columns, noise, _weights(values, noise, there), lagged)
    rest, _ = found.residuals(columns)
    square = float((rest.weight * np.square(rest.values)).sum())
    if not square > 0:
        return found
    variance = square / float(rest.weight.sum())
    whitest = [own for own in map(rest.white_variance, DIFFERENCES) if own > 0]
    return found._replace(variance=variance, whitest=min(variance, *whitest))


def _weights(values: Array, noise: Array, there: Flags) -> Array:
    """1/(γ_0 + 1/s_k), for a first γ_0: the mean of s²(ŷ² − 1/s) over that of s²."""
    if not there.any() or noise[there].min() == noise[there].max():
        return there.astype(float)
    s = np.where(there, 1.0 / np.where(there, noise, 1.0), 0.0)
    centre = (s * values).sum(axis=0) / np.maximum(s.sum(axis=0), s[s > 0].min())
    first = float((s**2 * (np.square(values - centre) - noise)).sum() / np.square(s).sum())
    weight = np.where(there, 1.0 / (max(first, 0.1 / float(s.max())) + noise), 0.0)
    return np.asarray(weight / weight.max())
