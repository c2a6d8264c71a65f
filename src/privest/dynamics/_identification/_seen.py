"""What releases of single numbers show before any model: readings with white noise, moments.

    ŷ_k = z̃_k/ℓ_k = y_k + noise of variance 1/s_k ,   s_k = ℓ_k²

Release noise is white: autocovariances of lags h ≥ 1 need no correction, averaged over the pairs
(k, k − h) with the weights 1/(γ_0 + 1/s_k) of both. A release that looks back, Σ_j a_jy_{k−j} + e,
is taken in units of √Σa_j²; its moments are not those of y (`coloured`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.dynamics._releases import Data
from privest.dynamics._steps import of_entries
from privest.dynamics._releases import shown_series

ORDERS = (1, 2, 3)  # of differences: what they leave is at least the variance of what is white


class Part(NamedTuple):
    """Of series that miss the same steps, zeros where nothing is seen.

    readings (K, series), columns of the inputs as the releases show them (K, p), noise 1/s_k and
    weight 1/(γ_0 + 1/s_k) (K,).
    """

    readings: Array
    columns: Array
    noise: Array
    weight: Array


class Seen(NamedTuple):
    """All parts, and sizes of what is left of the readings after least squares on the inputs.

    variance: weighted, with release noise; noise: its part of it; whitest: the least variance that
    differences leave, which is what of it is white or a little more; steps K.
    """

    parts: tuple[Part, ...]
    variance: float
    noise: float
    whitest: float
    steps: int
    coloured: bool

    @property
    def signal(self) -> float:
        """γ_0 of the readings about their inputs, at least a tenth of what is seen."""
        return max(self.variance - self.noise, 0.1 * self.variance)

    def autocovariances(self, lags: int) -> Array:
        """γ_0 + noise, γ_1, …, γ_lags (fewer where there are no such pairs)."""
        found = []
        for h in range(lags + 1):
            total = weights = 0.0
            for part in self.parts:
                pair = part.weight[h:] * part.weight[: len(part.weight) - h]
                e = part.readings
                total += float(pair @ np.einsum("ks,ks->k", e[h:], e[: len(e) - h]))
                weights += float(pair.sum()) * e.shape[1]
            if not weights > 0:
                break
            found.append(total / weights)
        return np.array(found)

    def filtered_square(self, taps: Array) -> tuple[float, float, int]:
        """Mean of (Σ_j f_jŷ_{k−j})², of the release noise in it; over how many steps."""
        return _filtered_square(self.parts, taps)

    def strongest(self) -> float:
        """The frequency, in radians a step, that the readings show most of (periodogram)."""
        grid = max(len(part.weight) for part in self.parts)
        power = np.zeros(grid // 2 + 1)
        for part in self.parts:
            waves = np.fft.rfft(part.readings * part.weight[:, None], grid, axis=0)
            power += np.square(np.abs(waves)).sum(axis=1)
        power[0] = 0.0
        return 2 * math.pi * int(power.argmax()) / grid

    def without_inputs(self) -> tuple[Seen, Array]:
        """The same less what least squares on the inputs explains, and their coefficients."""
        p = self.parts[0].columns.shape[1]
        if not p:
            return self, np.zeros(0)
        left = np.concatenate([np.sqrt(part.weight)[:, None] * part.columns for part in self.parts])
        right = np.concatenate(
            [np.sqrt(part.weight) * part.readings.mean(axis=1) for part in self.parts]
        )
        series = np.concatenate(
            [np.full(len(part.weight), math.sqrt(part.readings.shape[1])) for part in self.parts]
        )
        found = np.linalg.lstsq(left * series[:, None], right * series, rcond=None)[0]
        parts = tuple(
            part._replace(
                readings=np.where(
                    part.weight[:, None] > 0, part.readings - (part.columns @ found)[:, None], 0.0
                )
            )
            for part in self.parts
        )
        return self._replace(parts=parts), found


def seen_of(data: list[Data]) -> Seen:
    """The readings of single numbers, as the releases show them."""
    level = data[0].level
    coloured = level.reach > 0 or level.form == "dense"
    parts = tuple(_weighed(_part(own)) for own in data)
    seen = Seen(parts, 1.0, 0.0, 1.0, max(own.steps for own in data), coloured)
    left, _ = seen.without_inputs()
    weight = sum(float(part.weight.sum()) * part.readings.shape[1] for part in parts)
    square = sum(float(part.weight @ np.square(part.readings).sum(axis=1)) for part in left.parts)
    noise = sum(float(part.weight @ part.noise) * part.readings.shape[1] for part in parts)
    if not (weight > 0 and square > 0):
        return seen
    variance, mean_noise = square / weight, noise / weight
    whites = [_filtered_square(left.parts, differences(order)) for order in ORDERS]
    sizes = [
        mean / math.comb(2 * order, order)
        for order, (mean, _, count) in zip(ORDERS, whites)
        if count
    ]
    whitest = min([variance, *sizes])
    return seen._replace(
        variance=variance, noise=mean_noise, whitest=whitest if whitest > 0 else variance
    )


def differences(order: int, span: int = 1) -> Array:
    """Taps of (1 − B^span)^order.

    >>> differences(2, 2).tolist()
    [1.0, 0.0, -2.0, 0.0, 1.0]
    """
    one, taps = np.zeros(span + 1), np.ones(1)
    one[0], one[-1] = 1.0, -1.0
    for _ in range(order):
        taps = np.convolve(taps, one)
    return taps


def _part(data: Data) -> Part:
    level, K = data.level, data.steps
    if level.form == "dense":
        gain = np.linalg.norm(level.dense_rows(0, K), axis=1)
    else:
        gain = np.sqrt(np.square(level.blocks(0, K)[:, :, 0, 0]).sum(axis=0))
    there = ~of_entries(data.missing)[:, 0] & (gain > 0)
    size = np.where(there, gain, 1.0)
    readings = np.where(there[:, None], data.values[:, 0] / (data.unit * size)[:, None], 0.0)
    columns = data.inputs
    if columns.shape[1] and (level.reach or level.form == "dense"):
        shown = shown_series(level, columns.T[:, :, None])[:, :, 0].T
        columns = shown / size[:, None]
    noise = np.where(there, 1.0 / (data.unit * size) ** 2, 0.0)
    return Part(readings, columns, noise, there.astype(float))


def _weighed(part: Part) -> Part:
    """With weights 1/(γ_0 + 1/s_k), for a first γ_0: the mean of s²(ŷ² − 1/s) over that of s²."""
    there = part.weight > 0
    if not there.any() or part.noise[there].min() == part.noise[there].max():
        return part
    s = np.where(there, 1.0 / np.where(there, part.noise, 1.0), 0.0)
    centre = (s @ part.readings) / s.sum()
    square = np.square(part.readings - centre).mean(axis=1)
    first = float(s**2 @ (square - part.noise)) / float(s @ s)
    size = max(first, 0.1 / float(s.max()))
    weight = np.where(there, 1.0 / (size + part.noise), 0.0)
    return part._replace(weight=weight / weight.max())


def _filtered_square(parts: tuple[Part, ...], taps: Array) -> tuple[float, float, int]:
    total = noise = weights = 0.0
    count, width, used = 0, len(taps), np.flatnonzero(taps)
    for part in parts:
        steps = len(part.weight) - width + 1
        if steps < 1:
            continue
        whole, own = np.zeros((steps, part.readings.shape[1])), np.zeros(steps)
        weight: Array = np.ones(steps)
        for j in used.tolist():
            here = slice(width - 1 - j, width - 1 - j + steps)
            whole = whole + taps[j] * part.readings[here]
            own = own + taps[j] ** 2 * part.noise[here]
            weight = np.minimum(weight, part.weight[here])
        series = whole.shape[1]
        total += float(weight @ np.square(whole).sum(axis=1))
        noise += float(weight @ own) * series
        weights += float(weight.sum()) * series
        count += int(np.count_nonzero(weight)) * series
    return (total / weights, noise / weights, count) if weights > 0 else (0.0, 0.0, 0)
