"""How sure a sandwich of single rows is of itself: Bell and McCaffrey's degrees of freedom.

With rows x_k = √w_k·h_k, A = (XᵀX)⁻¹, leverages l_k = x_kᵀAx_k and d_k = x_kᵀAe_j/√(1 − l_k), HC2
of coefficient j is the quadratic form Σ d_k²e_k² of the residuals, and

    B_pq = d_p d_q (δ_pq − x_pᵀAx_q) ,   df_j = (tr B)²/tr B²

are the degrees of freedom of Student's t that fit it (Satterthwaite's, where rows scatter alike
once they are whitened by w). No matrix of rows by rows is needed:

    tr B = Σ d_k²(1 − l_k) = A_jj ,  tr B² = Σ d_k⁴(1 − 2l_k) + tr ASAS ,  S = Σ d_k²x_kx_kᵀ

They are those of `_cluster` with every row a group of its own, without its (n, n) matrix a row. A
category that m of many rows have: HC2 is the mean square of its m readings about their mean, over
m, and df = m − 1: the interval is the exact one of Student.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from privest.arrays import Array
from privest.estimator.inference._sandwich import WeightedRows
from privest.records import standard_errors

CHUNK = 4096  # rows looked at together


def row_freedom(blocks: Iterable[WeightedRows], inverse: Array) -> Array:
    """Bell-McCaffrey degrees of freedom of HC2, (n,), one a coefficient.

    One pass, O(K n³) time, memory of a block and of n³ numbers. No row may stand alone: its d_k
    does not exist (`SecondPass.alone`).
    """
    scale = standard_errors(inverse)  # in units of which A has ones: d⁴ is far from underflow
    unit = inverse / scale / scale[:, None]
    n = len(unit)
    trace, squares, spread = np.zeros(n), np.zeros(n), np.zeros((n, n, n))
    for X in _whitened(blocks, scale):
        plain = X @ unit
        leverage = np.einsum("ij,ij->i", plain, X)
        part = plain.T**2 / (1 - leverage)  # d_k², a row of them for every coefficient
        trace += part @ (1 - leverage)
        squares += part**2 @ (1 - 2 * leverage)
        for j in range(n):
            spread[j] += X.T @ (X * part[j][:, None])
    turned = unit @ spread
    return np.asarray(trace**2 / (squares + np.einsum("jab,jba->j", turned, turned)))


def _whitened(blocks: Iterable[WeightedRows], scale: Array) -> Iterator[Array]:
    """Rows √w_k·h_k, in units of `scale`."""
    for part in blocks:
        size = np.sqrt(np.broadcast_to(np.asarray(part.weight, float), part.z.shape))
        for at in range(0, len(part.z), CHUNK):
            piece = slice(at, at + CHUNK)
            yield part.H[piece] * scale * size[piece, None]
