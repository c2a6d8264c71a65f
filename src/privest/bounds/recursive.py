"""The bound and the estimate at every step of a stream (`algo:recursive_PI`, `algo:PP_RLS`).

The paper's recursions update k×k matrices step by step. Here one factorisation of V = A Σ̄ Aᵀ + I
gives everything: PI_k, Σ_PPCR,k and θ̂_k are cumulative sums of whitened rows (docs/theory.md 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg import InformationRoot, pointwise_weight, root_of_rows
from privest.linalg.cumulative import cumulative_gram, inverses, solutions
from privest.linalg.sequential import BandedRows, DenseRows, Rows
from privest.linalg.stacked import rank_tolerance
from privest.model import LinearModel
from privest.privacy.stream import StreamLevel


@dataclass(frozen=True, eq=False)
class StreamBound:
    """PI_k and Σ_PPCR,k for all steps k = 0..K−1.

    information   (K, n, n): PI_k, also before θ is identifiable.
    first         the first k at which θ is identifiable, or None if it never is.
    rows          whitened rows C⁻¹A H̄, (M, n); their Gram matrix over the first steps is PI_k.
    """

    information: Array
    first: int | None
    rows: Array
    _prefixes: _Prefixes

    @cached_property
    def _bounds(self) -> Array:
        return inverses(self.information[self.require_first() :])

    @property
    def ppcrlb(self) -> Array:
        """Σ_PPCR,k for k = first..K−1, (K − first, n, n)."""
        return self._bounds

    def at(self, step: int) -> Array:
        """Σ_PPCR,k; raises NotIdentifiable, with the hidden directions, before `first`."""
        k = range(len(self.information))[step]
        if self.first is None or k < self.first:
            hidden = self._prefixes.root(k).hidden
            raise NotIdentifiable(
                f"After step {k} θ is not yet identifiable: {hidden.shape[1]} of {len(hidden)} "
                "directions are hidden.",
                hidden,
            )
        return np.asarray(self._bounds[k - self.first])

    def require_first(self) -> int:
        """`first`, or NotIdentifiable."""
        if self.first is None:
            hidden = self._prefixes.root(len(self.information) - 1).hidden
            raise NotIdentifiable(
                f"θ is not identifiable at any step of this stream: {hidden.shape[1]} of "
                f"{len(hidden)} directions stay hidden.",
                hidden,
            )
        return self.first

    def __repr__(self) -> str:
        when = "never" if self.first is None else f"from step {self.first}"
        return f"StreamBound({len(self.information)} steps, identifiable {when})"


def stream_bound(model: LinearModel, level: StreamLevel) -> StreamBound:
    """What accuracy is possible after each step of a stream?

        PI_k = Σ_{j ≤ k} G_jᵀG_j ,   G = C⁻¹A H̄ ,   V = A Σ̄ Aᵀ + I = C Cᵀ ,   S̄_K = AᵀA

    Symbols: `model` has the rows of all steps stacked (M, n) and their noise; `level` says which
    rows belong to which step.
    Guarantees: Σ_PPCR,k = PI_k⁻¹ is the floor for every mechanism with I_{Z̄_k}(Ȳ_k) ≤ S̄_k
    (`thm:PPF_recur`); attained by the sequential Gaussian mechanism with RLS (`thm:opt`).
    Numerics: U = 0 O(M), banded O(M b²), dense M³/3 flops. The first identifiable step is found by
    a rank test of the whitened rows, not by counting readings.
    Source: `algo:recursive_PI`, `algo:recursive_PPCR`, `coro:PPCR_recur`.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0], [1.0]], noise=Gaussian(cov=1.0))
    >>> stream_bound(model, StreamLevel([1.0, 1.0])).ppcrlb.ravel().round(12).tolist()
    [2.0, 1.0]
    """
    rows = _rows_for(model, level)
    whitened = rows.whiten(model.inverse_information, rows.times(model.matrix))
    return _bound(whitened, model, level)


def stream_estimates(
    model: LinearModel, level: StreamLevel, releases: ArrayLike
) -> tuple[Array, StreamBound]:
    """θ̂_k for k = first..K−1, (K − first, n), from the releases z̃ (M,), and their covariances.

    The estimates of `algo:PP_RLS`: θ̂_k = PI_k⁻¹ Σ_{j ≤ k} G_jᵀ(C⁻¹z̃)_j, with cov w for Σ̄. The
    second value holds what they attain: for Gaussian noise the bound itself (`thm:opt`), for any
    other noise a covariance above it, the floor being `stream_bound(model, level)`.
    """
    given = as_array(releases, "the releases", ndim=1)
    if len(given) != level.readings:
        raise InvalidInput(
            f"the releases must have {level.readings} entries; received {len(given)}."
        )
    rows = _rows_for(model, level)
    right = np.concatenate([rows.times(model.matrix), given[:, None]], axis=1)
    whitened = rows.whiten(model.covariance, right)
    bound = _bound(whitened[:, :-1], model, level)
    first = bound.require_first()
    sums = _by_step(whitened[:, :-1], level, whitened[:, -1:])[:, :, 0]
    return solutions(bound.information[first:], sums[first:]), bound


def _rows_for(model: LinearModel, level: StreamLevel) -> Rows:
    if model.readings != level.readings:
        raise InvalidInput(
            f"The model has {model.readings} readings; the stream level has {level.readings}."
        )
    rows = level.rows
    if isinstance(rows, BandedRows) and rows.couples(model.inverse_information):
        return DenseRows(rows.dense(), rows.block)  # noise that ties steps together fills the band
    return rows


def _bound(whitened: Array, model: LinearModel, level: StreamLevel) -> StreamBound:
    prefixes = _Prefixes(whitened, model, level)
    return StreamBound(_by_step(whitened, level), prefixes.first(), whitened, prefixes)


def _by_step(rows: Array, level: StreamLevel, right: Array | None = None) -> Array:
    """Cumulative sums over steps of rowsᵀ·right."""
    if len(set(level.sizes)) == 1:
        m = level.sizes[0]
        other = None if right is None else right.reshape(level.steps, m, -1)
        return cumulative_gram(rows.reshape(level.steps, m, -1), other)
    other = None if right is None else right[:, None, :]
    return np.asarray(cumulative_gram(rows[:, None, :], other)[np.cumsum(level.sizes) - 1])


class _Prefixes:
    """Ranks of the first k steps: each column is compared with √(Σ_j [S̄]_jj h_j²), what it would
    be if nothing cancelled, so that rounding is not taken for information.
    """

    def __init__(self, rows: Array, model: LinearModel, level: StreamLevel) -> None:
        self.rows = rows
        self.ends = np.cumsum(level.sizes)
        shown, noise = level.rows.level_diagonal(), model.inverse_information.diagonal()
        weight = np.reshape(pointwise_weight(shown, noise), (-1, 1))
        self.scale = np.sqrt(np.cumsum(weight * model.matrix**2, axis=0))
        self.tolerance = rank_tolerance(max(rows.shape[1], *set(level.sizes)))

    def root(self, step: int) -> InformationRoot:
        end = int(self.ends[step])
        return root_of_rows(self.rows[:end], self.scale[end - 1], self.tolerance)

    def first(self) -> int | None:
        """The first step after which the rows have full column rank: gallop, then bisect."""
        n = self.rows.shape[1]
        last = len(self.ends) - 1
        if self.root(last).rank < n:
            return None
        low, high, reach = -1, last, 1
        while low + reach < high:
            if self.root(low + reach).rank == n:
                high = low + reach
                break
            low, reach = low + reach, 2 * reach
        while high - low > 1:
            middle = (low + high) // 2
            if self.root(middle).rank == n:
                high = middle
            else:
                low = middle
        return high
