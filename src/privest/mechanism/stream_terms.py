"""A_kȲ_k of steps of a stream as sums of products, and the range of every coordinate of it."""

from __future__ import annotations

import itertools

import numpy as np

from privest import lattice
from privest.arrays import Array, Flags
from privest.mechanism.rows import Range, clip_of
from privest.mechanism.source import Clip
from privest.privacy import StreamLevel
from privest.privacy.parts import hidden_entries, mixes_a_step, partial_steps, rows_of_parts

Products = list[tuple[Array, Array]]


def stream_terms(
    level: StreamLevel, past: Array, values: Array, start: int, stop: int,
    absent: Flags | None = None,
) -> tuple[Products, Array]:  # fmt: skip
    """A_kȲ_k of these steps as Σ_t c_t∘v_t, own measurements first, and the past of the next step.

    values (…, measurements of these steps), with axes before for several series; past (…, p) the
    measurements that they look back to. `absent`: values that are 0 because nothing is shown there.
    """
    own = level.pointwise(start, stop)
    if own is not None:
        return [(lattice.literal_root(np.asarray(own)), values)], past
    if level.form == "dense":
        rows = level.dense_rows(start, stop)
        every = np.concatenate([past, values], axis=-1)
        return [(rows[:, k], every[..., k, None]) for k in range(every.shape[-1])][::-1], every
    if level.block is None:
        return _changing(level, values, start, stop, absent), past
    rows, count, m = level.blocks(start, stop), stop - start, level.block
    if absent is not None and level.form == "independent":
        rows = rows_of_parts(level, start, absent.reshape(*absent.shape[:-1], count, m))[None]
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


def hidden_of(
    level: StreamLevel, absent: Flags, start: int, sizes: tuple[int, ...], *, parts: bool
) -> Flags:
    """`privacy.parts.hidden_entries` of measurements (…, all of these steps)."""
    if level.block is not None:
        by_step = absent.reshape(*absent.shape[:-1], len(sizes), level.block)
        return hidden_entries(level, start, by_step, parts=parts).reshape(absent.shape)
    ends = itertools.accumulate(sizes, initial=0)
    own = [
        hidden_entries(level, start + k, absent[None, a:b], parts=parts)[0]
        for k, (a, b) in enumerate(itertools.pairwise(ends))
    ]
    return np.concatenate(own)


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


def _changing(
    level: StreamLevel, values: Array, start: int, stop: int, absent: Flags | None
) -> Products:
    """U = 0 and m_k that changes: zeros where a step has fewer products."""
    sizes = level.sizes_between(start, stop)
    weights, measured = np.zeros((2, max(sizes), len(values)))
    for k, (a, b) in enumerate(itertools.pairwise(itertools.accumulate(sizes, initial=0))):
        rows = level.blocks(start + k, start + k + 1)[0, 0]
        if absent is not None and absent[a:b].any():
            rows = rows_of_parts(level, start + k, absent[None, a:b])[0]
        weights[: b - a, a:b] = rows.T
        measured[: b - a, a:b] = values[a:b, None]
    return list(zip(weights, measured))


def shown_series(level: StreamLevel, values: Array, absent: Flags | None = None) -> Array:
    """A_kȲ_k of every series, (series, K, m); `absent` (…, K, m): 0, and not shown."""
    count, steps, m = values.shape
    if level.form == "dense":
        rows = level.dense_rows(0, steps)
        return np.asarray((values.reshape(count, -1) @ rows.T).reshape(values.shape))
    blocks, shown = level.blocks(0, steps), np.zeros(values.shape)
    for lag in range(min(level.reach + 1, steps)):
        shown[:, lag:] += np.einsum("kij,skj->ski", blocks[lag, lag:], values[:, : steps - lag])
    if absent is not None and mixes_a_step(level):
        flags = np.broadcast_to(absent, values.shape)
        for k in partial_steps(flags.transpose(1, 0, 2).reshape(steps, count * m)):
            rows = rows_of_parts(level, k, flags[:, k : k + 1])[:, 0]
            shown[:, k] = (rows @ values[:, k, :, None])[..., 0]
    return shown
