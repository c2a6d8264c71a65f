"""The largest eigenvalue of a level on spans (first, end) of adjacent measurements."""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import EPS, Array, Index
from privest.errors import InvalidInput
from privest.linalg import PSD, BandedRows, Blocks, DenseRows, IndependentRows, Rows

LONGEST = 2**14  # measurements of one span: beyond, its eigenvalues take minutes


def largest_of_spans(level: PSD, firsts: Index, ends: Index) -> float:
    """max over spans of λ_max(S_span), S as blocks along the diagonal."""
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
    """max over spans of λ_max(S̄_span), S̄ = AᵀA of a stream."""
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
    """The eigenvalues of the spans that can be the worst: one of equal ones, row sums above best.

    No eigenvalue is above the largest row sum of sizes on its span (Gershgorin).
    """
    require_short(ends - firsts)
    m, band = rows.block, _band(rows)
    order = np.lexsort((firsts, ends - firsts, firsts % m))  # equal spans lie side by side
    firsts, ends = firsts[order], ends[order]
    # How often a column differs from that of the step before: spans between are the same.
    changes = np.cumsum(np.append(np.zeros(m), (band[:, m:] != band[:, :-m]).any(axis=0)))
    length = ends - firsts
    alike = (length[1:] == length[:-1]) & (firsts[1:] % m == firsts[:-1] % m)
    from_next_step = np.minimum(firsts[:-1] + m, len(changes)) - 1
    alike &= changes[ends[1:] - 1] == changes[from_next_step]
    new = np.append(True, ~alike)
    firsts, ends = firsts[new], ends[new]
    sums = np.abs(band).sum(axis=0)
    for below in range(1, len(band)):
        sums[below:] += np.abs(band[below, :-below])
    cuts = np.stack([firsts, ends], axis=1).ravel()
    rounding = 1.0 + 8.0 * EPS * len(band)
    bounds = rounding * np.maximum.reduceat(np.append(sums, 0.0), cuts)[::2]
    best = 0.0
    for k in np.argsort(-bounds):
        if bounds[k] <= best:
            break
        part = band[: ends[k] - firsts[k], firsts[k] : ends[k]]
        last = part.shape[1] - 1
        found = scipy.linalg.eigvals_banded(part, lower=True, select="i", select_range=(last, last))
        best = max(best, float(found[0]))
    return best


def _band(rows: BandedRows) -> Array:
    """S̄ in LAPACK's lower band storage: band[d, j] = S̄[j + d, j]."""
    blocks, reach, m = rows.blocks, rows.reach, rows.block
    band = np.zeros(((reach + 1) * m, rows.steps * m))
    for lag in range(reach + 1):  # S̄_{k+lag, k} = Σ_i A_{k+lag+i, k+lag}ᵀ A_{k+lag+i, k}
        total = np.zeros((rows.steps, m, m))
        for later in range(lag, min(reach, rows.steps - 1) + 1):
            left, right = blocks[later - lag, later:], blocks[later, later:]
            total[: rows.steps - later] += left.swapaxes(-1, -2) @ right
        for row, column in np.ndindex(m, m):
            below = lag * m + row - column
            if below >= 0:
                band[below, column::m] = total[:, row, column]
    return band


def require_short(lengths: Index | int) -> None:
    longest = int(np.max(lengths))
    if longest > LONGEST:
        raise InvalidInput(
            f"a block of {longest} measurements is too long for its largest eigenvalue; blocks of "
            f"up to {LONGEST} measurements are converted."
        )
