"""A_kȲ_k of steps of a stream as sums of products, and the range of every coordinate of it."""

from __future__ import annotations

import itertools

import numpy as np

from privest import lattice
from privest.arrays import Array
from privest.mechanism.rows import Range, clip_of
from privest.mechanism.source import Clip
from privest.privacy import StreamLevel

Products = list[tuple[Array, Array]]


def stream_terms(
    level: StreamLevel, past: Array, values: Array, start: int, stop: int
) -> tuple[Products, Array]:
    """A_kȲ_k of these steps as Σ_t c_t∘v_t, own measurements first, and the past of the next step.

    values (…, measurements of these steps), with axes before for several series; past (…, p) the
    measurements that they look back to.
    """
    own = level.pointwise(start, stop)
    if own is not None:
        return [(lattice.literal_root(np.asarray(own)), values)], past
    if level.form == "dense":
        rows = level.dense_rows(start, stop)
        every = np.concatenate([past, values], axis=-1)
        return [(rows[:, k], every[..., k, None]) for k in range(every.shape[-1])][::-1], every
    if level.block is None:
        return _changing(level, values, start, stop), past
    rows, count, m = level.blocks(start, stop), stop - start, level.block
    every = np.concatenate([past, values], axis=-1).reshape(*values.shape[:-1], -1, m)
    terms = []
    for lag in range(level.reach + 1):
        before = every[..., level.reach - lag :, :][..., :count, :]
        terms += [
            (_flat_rows(rows[lag][..., k]), np.repeat(before[..., k], m, axis=-1)) for k in range(m)
        ]
    return terms, every[..., count:, :].reshape(*values.shape[:-1], -1).copy()


def _flat_rows(column: Array) -> Array:
    return column.reshape(*column.shape[:-2], -1)


def begun(level: StreamLevel) -> Array:
    """The past of the first step."""
    return np.zeros(level.reach * (level.block or 0) if level.form == "banded" else 0)


def clip_between(
    level: StreamLevel, span: Range | None, past: Array, start: int, stop: int
) -> Clip | None:
    """Between which multiples of the grid every coordinate stays, if there is a range."""
    if span is None:
        return None
    zeros = np.zeros(sum(level.sizes_between(start, stop)))
    weights = [
        np.broadcast_to(weight, np.broadcast_shapes(np.shape(weight), np.shape(value))).ravel()
        for weight, value in stream_terms(level, past, zeros, start, stop)[0]
    ]
    own = {"banded": level.block or 0, "dense": 0}.get(level.form, len(weights))
    return clip_of(weights, span, lags=len(weights) - own)


def _changing(level: StreamLevel, values: Array, start: int, stop: int) -> Products:
    """U = 0 and m_k that changes: zeros where a step has fewer products."""
    sizes = level.sizes_between(start, stop)
    weights, measured = np.zeros((2, max(sizes), len(values)))
    for k, (a, b) in enumerate(itertools.pairwise(itertools.accumulate(sizes, initial=0))):
        weights[: b - a, a:b] = level.blocks(start + k, start + k + 1)[0, 0].T
        measured[: b - a, a:b] = values[a:b, None]
    return list(zip(weights, measured))


def shown_series(level: StreamLevel, values: Array) -> Array:
    """A_kȲ_k of every series, (series, K, m)."""
    count, steps, _ = values.shape
    if level.form == "dense":
        rows = level.dense_rows(0, steps)
        return np.asarray((values.reshape(count, -1) @ rows.T).reshape(values.shape))
    blocks, shown = level.blocks(0, steps), np.zeros(values.shape)
    for lag in range(min(level.reach + 1, steps)):
        shown[:, lag:] += np.einsum("kij,skj->ski", blocks[lag, lag:], values[:, : steps - lag])
    return shown
