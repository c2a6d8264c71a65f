"""The largest eigenvalue of a level on spans of adjacent measurements.

A span is (first, end), counted from 0. The level of a stream is the FINAL
S̄ = AᵀA; only the rows of A that see a span are touched, never all of S̄.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import EPS, Array, Flags, Index
from privest.errors import InvalidInput
from privest.linalg import PSD, BandedRows, Blocks, DenseRows, IndependentRows, Rows

ENTRIES = 2**22  # of the matrices worked on at once: 32 MB
LONGEST = 2**14  # measurements of one span: beyond, its eigenvalues take minutes


def largest_of_spans(level: PSD, firsts: Index, ends: Index) -> float:
    """max over spans of λ_max(S_span), S as blocks along the diagonal.

    Cost: the eigenvalues of every different part of a block that a span covers.
    """
    if not isinstance(level, Blocks):
        seen = np.zeros(level.size + 1)
        np.add.at(seen, firsts, 1.0)
        np.add.at(seen, ends, -1.0)
        return float(np.max(level.diagonal()[np.cumsum(seen)[:-1] > 0]))
    stops = np.cumsum(level.sizes)
    owners = np.searchsorted(stops, firsts, "right"), np.searchsorted(stops, ends - 1, "right")
    covered = {  # blocks do not know of each other
        (k, max(first - start, 0), min(end - start, level.sizes[k]))
        for first, end, k0, k1 in zip(firsts.tolist(), ends.tolist(), *(o.tolist() for o in owners))
        for k in range(k0, k1 + 1)
        for start in [int(stops[k]) - level.sizes[k]]
    }
    parts = (level.matrices[k][first:end, first:end] for k, first, end in covered)
    return max(float(np.linalg.eigvalsh(part)[-1]) for part in parts)


def largest_of_stream_spans(rows: Rows, firsts: Index, ends: Index) -> float:
    """The same for S̄ = AᵀA of a stream.

    Cost, banded: O(K b m²) once, and the eigenvalues of the spans that can be the worst: one of
    equal spans (a constant level has few different ones), and none whose row sums stay below what
    another span has reached.
    """
    if isinstance(rows, IndependentRows):
        return largest_of_spans(rows.level, firsts, ends)
    if isinstance(rows, BandedRows):
        return _largest_banded(rows, firsts, ends)
    assert isinstance(rows, DenseRows)
    # A step's measurements are seen from its own first row on, at most widest − 1 rows above.
    top = np.maximum(firsts - rows.widest + 1, 0)
    parts = (rows.matrix[t:, f:e] for t, f, e in zip(top, firsts, ends))
    return max(float(np.linalg.eigvalsh(part.T @ part)[-1]) for part in parts)


def _largest_banded(rows: BandedRows, firsts: Index, ends: Index) -> float:
    require_short(ends - firsts)
    m, best = rows.block, 0.0
    bounds = _row_sums(rows, firsts, ends)
    order = np.lexsort((firsts, ends - firsts, firsts % m))  # equal spans lie side by side
    firsts, ends, bounds = firsts[order], ends[order], bounds[order]
    new = _differs_from_last(rows, firsts, ends)
    firsts, ends, bounds = firsts[new], ends[new], bounds[new]
    for members in _alike(ends - firsts, firsts % m):
        worst_first = members[np.argsort(-bounds[members])]
        length, offset = int(ends[members[0]] - firsts[members[0]]), int(firsts[members[0]] % m)
        steps = -(-(offset + length) // m)
        size = max(ENTRIES // ((steps + rows.reach) * m * steps * m), 1)
        for at in range(0, len(worst_first), size):
            some = worst_first[at : at + size]
            some = some[bounds[some] > best]
            if not len(some):
                break
            best = max(best, _largest_alike(rows, firsts[some] // m, steps, offset, length))
    return best


def _largest_alike(rows: BandedRows, at: Index, steps: int, offset: int, length: int) -> float:
    """λ_max over spans of one length, `offset` measurements after the start of the steps `at`."""
    m, own = rows.block, slice(offset, offset + length)
    if len(at) == 1 and length > 512:
        part = rows.blocks[: rows.reach + 1, at[0] : at[0] + steps + rows.reach]
        return _largest_long(part, steps, own)
    seen = np.zeros((len(at), steps + rows.reach, m, steps, m))
    for lag in range(rows.reach + 1):
        for step in range(steps):
            row = at + step + lag
            there = row < rows.steps
            seen[there, step + lag, :, step] = rows.blocks[lag, row[there]]
    part = seen.reshape(len(at), (steps + rows.reach) * m, steps * m)[:, :, own]
    return float(np.linalg.eigvalsh(part.swapaxes(-1, -2) @ part)[:, -1].max())


def _largest_long(blocks: Array, steps: int, own: slice) -> float:
    """One long span, in LAPACK's lower band storage: band[d, j] = S̄[j + d, j]."""
    reach, m = len(blocks) - 1, blocks.shape[-1]
    band = np.zeros(((reach + 1) * m, steps * m))
    for lag in range(reach + 1):  # S̄_{k+lag, k} = Σ_i A_{k+lag+i, k+lag}ᵀ A_{k+lag+i, k}
        total = np.zeros((steps, m, m))
        for i in range(reach - lag + 1):
            left, right = blocks[i, lag + i :], blocks[lag + i, lag + i :]
            product = left.swapaxes(-1, -2) @ right
            total[: len(product)] += product[:steps]
        for row in range(m):
            for column in range(m):
                below = lag * m + row - column
                if below >= 0:
                    band[below, column::m] = total[:, row, column]
    band = band[:, own]
    last = band.shape[1] - 1
    found = scipy.linalg.eigvals_banded(band, lower=True, select="i", select_range=(last, last))
    return float(found[0])


def _row_sums(rows: BandedRows, firsts: Index, ends: Index) -> Array:
    """The largest of |A|ᵀ|A| 1 on every span: no eigenvalue of S̄ there is larger (Gershgorin)."""
    sizes, m = np.abs(rows.blocks[: rows.reach + 1]), rows.block
    across = np.zeros((rows.steps, m))
    for lag in range(rows.reach + 1):
        across[lag:] += sizes[lag, lag:].sum(axis=-1)
    total = np.zeros_like(across)
    for lag in range(rows.reach + 1):
        total[: rows.steps - lag] += np.einsum("krc,kr->kc", sizes[lag, lag:], across[lag:])
    ups = 1.0 + 4.0 * EPS * (rows.reach + 1) * m * m  # above the rounding of these sums
    cuts = np.stack([firsts, ends], axis=1).ravel()
    return np.asarray(np.maximum.reduceat(np.append(ups * total.ravel(), 0.0), cuts)[::2])


def _differs_from_last(rows: BandedRows, firsts: Index, ends: Index) -> Flags:
    """Which spans show other numbers than the one before them of the same length and offset.

    All that is ever shown of step k are the blocks A_{k+j, k}, j = 0..b: where they repeat from
    step to step between two spans, the spans are the same.
    """
    m = rows.block
    changed = np.zeros(rows.steps + 1)
    for lag in range(rows.reach + 1):
        own = np.zeros((rows.steps, m, m))
        own[: rows.steps - lag] = rows.blocks[lag, lag:]
        changed[1:-1] += (own[1:] != own[:-1]).any(axis=(1, 2))
    count = np.cumsum(changed)  # changes up to and with step k
    new = np.ones(len(firsts), dtype=bool)
    alike = ((ends - firsts)[1:] == (ends - firsts)[:-1]) & (firsts[1:] % m == firsts[:-1] % m)
    between = count[(ends[1:] - 1) // m] - count[firsts[:-1] // m]
    new[1:] = ~(alike & (between == 0))
    return new


def _alike(*keys: Index) -> Iterator[Index]:
    """The numbers of the spans that share all keys."""
    _, group = np.unique(np.stack(keys), axis=1, return_inverse=True)
    for k in range(group.max() + 1):
        yield np.flatnonzero(group == k)


def require_short(lengths: Index | int) -> None:
    """Refuse spans of which no eigenvalue can be had."""
    longest = int(np.max(lengths))
    if longest > LONGEST:
        raise InvalidInput(
            f"a block of {longest} measurements is too long for its largest eigenvalue; blocks of "
            f"up to {LONGEST} measurements are converted."
        )
