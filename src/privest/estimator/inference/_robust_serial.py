"""Errors of Huber's estimate by blocks of time: for streams that remember, with wild readings.

With ψ and ς of `_robust` the scores of a block are g_b = κς Σ_{k in b} h_kψ(e_k/ς), which are zero
together, and near θ̂ they fall by M_b = Σ_{k in b} ψ′(e_k/ς)h_kh_kᵀ: rows that count in full. To
first order g_b(θ̂) = g_b(θ) − M_bAΣg_c(θ) with A = (ΣM_b)⁻¹, as of least squares, and so the errors
are those of `_cluster`,

    cov = A Σ g̃_bg̃_bᵀ A ,   g̃_b = C⁻ᵀ(I − CᵀM_bC)^{-½}Cᵀg_b ,   A = CCᵀ ,

with the same degrees of freedom. Blocks must be long against the memory of the noise; within them
it may be correlated, and readings may scatter more, or be wild more often, at some features than at
others: ψ′ is of the rows themselves. (With mean ψ′ in its place a feature at which readings scatter
six times as much is covered .53 of 95 %, so .96.)
"""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Flags
from privest.estimator.inference._robust import HuberFit
from privest.estimator.inference._serial import BlockSums, SerialErrors, serial_errors

PIECE = 65536  # rows at a time


def huber_serial_errors(H: Array, z: Array, shown: Flags, fit: HuberFit) -> SerialErrors:
    """Errors by blocks of θ̂ of `fit`, from rows H (K, n), z (K,) in their order in time.

    `shown`: which of them were used in the fit; the others keep their place in time. How long the
    noise remembers is found from κςψ: a wild reading has no more weight in it than another.
    """
    bent, full = BlockSums(H.shape[1]), BlockSums(H.shape[1])
    for at in range(0, len(H), PIECE):
        part = slice(at, at + PIECE)
        rows = np.where(shown[part, None], H[part], 0.0)
        means = rows @ fit.estimate
        scores, inside = fit.bent(np.where(shown[part], z[part] - means, 0.0))
        bent.add(np.column_stack([rows, means + scores]))
        full.add(np.column_stack([rows * inside[:, None], np.zeros(len(rows))]))
    return serial_errors(bent, fit.estimate, slopes=full.groups(fit.estimate)[0])
