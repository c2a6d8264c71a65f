"""Σ_BPPCR of a dynamic model: what any estimate of the states must at least err, at every k."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, Flags
from privest.dynamics._dense import dense_pass
from privest.dynamics._information import information_blocks
from privest.dynamics._observed import Level, asked, observed, unprotected
from privest.dynamics._sweep import Marginals, forward, marginals
from privest.dynamics._system import StateSpace
from privest.privacy import SequentialLevel
from privest.records import standard_errors


@dataclass(frozen=True, eq=False)
class DynamicBound(Marginals):
    """The floor under the error of every estimate of x_k from the releases.

    predicted, filtered, smoothed   marginals of Σ_BPPCR (K, n, n) for horizons k−1, k and K−1.
    classical                       the same from the readings themselves: without privacy.
    prior_information               [J_Y]_kk (K, m, m): known of y_k from the system alone, given
                                    all other readings.
    total_level                     [S]_kk = [J_Y]_kk + [S̄]_kk (K, m, m): the diagonal blocks of the
                                    level in BI_Z(Y) ≤ S that the releases amount to.
    """

    system: StateSpace
    level: SequentialLevel
    missing: Flags

    DERIVED = ("standard_error",)

    @cached_property
    def classical(self) -> Marginals:
        seen = unprotected(self.system, len(self.filtered), self.missing)
        return marginals(forward(seen), seen.states)

    @cached_property
    def prior_information(self) -> Array:
        return information_blocks(self.system, len(self.filtered))

    @cached_property
    def total_level(self) -> Array:
        return self.prior_information + released_blocks(
            self.level, len(self.filtered), self.missing, self.system.readings
        )

    @property
    def standard_error(self) -> Array:
        """√diag of the filtered bound, (K, n)."""
        return standard_errors(self.filtered)

    @property
    def classical_error(self) -> Array:
        """√diag of the filtered bound without privacy, (K, n)."""
        return standard_errors(self.classical.filtered)

    def __repr__(self) -> str:
        last = np.trace(self.filtered[-1])
        return (
            f"DynamicBound({len(self.filtered)} steps, {self.system.states} states, filtered "
            f"trace at the last step {last:.4g})"
        )


def bound(
    system: StateSpace, level: Level, steps: int | None = None, *, missing: ArrayLike | None = None
) -> DynamicBound:
    """How well can the states of a dynamic model be known from releases of its readings?

        Σ_BPPCR = P − PHᵀ Aᵀ (A (HPHᵀ + R) Aᵀ + I)⁻¹ A H P ,    S = J_Y + AᵀA

    Symbols: `level` is what the releases add to the prior, S − J_Y = AᵀA: a number s (L_kL_kᵀ = s·I
    at every step), an m×m matrix, an array (K, m, m), or a stream level. For a total S on Y (which
    counts what the system alone reveals) take `total_level(system, S, steps)`.
    `missing` (K,): steps that show nothing.
    Guarantees: smoothed = diagonal blocks of Σ_BPPCR for the horizon K−1; filtered[k] = the last
    block of the bound for horizon k. Attained by StreamMechanism with `filter_releases`, `smooth`.
    Numerics: no inverse of any covariance (see `_sweep`); Q and cov0 may be singular, A unstable.
    O(K (n + bm)³), constant levels of constant systems only until the limit is reached; a dense
    level (Km)³.
    Source: `eq:state_space`, Σ_BPPCR; docs/dynamics.md.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> b = bound(walk, 2.0, steps=2)  # a release adds noise of variance 1/2: y + N(0, 1) in all
    >>> b.filtered.ravel().round(12).tolist()  # 1/(1 + 1), then 1/(1 + 1/1.5)
    [0.5, 0.6]
    >>> b.smoothed.ravel().round(12).tolist()
    [0.4, 0.6]
    """
    wanted, count, absent = asked(system, level, steps, missing)
    if wanted.form == "dense":
        parts, _ = dense_pass(system, wanted, count, absent)
    else:
        parts = marginals(forward(observed(system, wanted, count, absent)), system.states)
    return DynamicBound(
        parts.predicted, parts.filtered, parts.smoothed, system, wanted, absent
    )  # fmt: skip


def released_blocks(level: SequentialLevel, steps: int, missing: Flags, m: int) -> Array:
    """[AᵀA]_kk (K, m, m): what all releases say of y_k; nothing where it is missing."""
    if level.form == "dense":
        rows = np.array(level.dense_rows(0, steps))
        rows[np.repeat(missing, m)] = 0.0
        parts = rows.reshape(steps * m, steps, m)
        total = np.einsum("aki,akj->kij", parts, parts)
    else:
        blocks = np.where(missing[:, None, None], 0.0, level.blocks(0, steps))
        total = np.zeros((steps, m, m))
        for lag in range(min(level.reach, steps - 1) + 1):
            own = blocks[lag, lag:]
            total[: steps - lag] += own.swapaxes(-1, -2) @ own
    return np.where(missing[:, None, None], 0.0, total)
