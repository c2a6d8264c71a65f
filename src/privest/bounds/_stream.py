"""The bound and the estimate at every step of a stream (`algo:recursive_PI`, `algo:PP_RLS`).

The paper's recursions update k×k matrices step by step. Here one factorisation of V = A Σ̄ Aᵀ + I
gives everything: PI_k, Σ_PPCR,k and θ̂_k are cumulative sums of whitened rows (docs/theory.md 6).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array
from privest.bounds._bound import Bound, unknown
from privest.bounds._classical import in_range, local_model, precision_rows, require_size
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg import PSD, InformationRoot, pointwise_weight, require_range, root_of_rows
from privest.linalg import compiled as machine
from privest.linalg.cumulative import (
    Kernel,
    StoredColumns,
    every_step,
    information,
    numpy_kernel,
)
from privest.linalg.sequential import BandedRows, DenseRows, Rows
from privest.linalg.tolerances import rank_tolerance
from privest.model import LinearModel
from privest.privacy import PrivacyLevel, StreamLevel, as_stream_level


class StreamBound(Bound):
    """PI_k and Σ_PPCR,k for all steps k = 0..K−1.

    first    the first k at which θ is identifiable, or None if it never is.
    rows     whitened rows C⁻¹A H̄, (M, n); their Gram matrix over the first steps is PI_k.
    """

    def __init__(self, white: _Whitened) -> None:
        self._white, self.names = white, white.model.names
        self.steps, self.first = len(white.level.sizes), white.first()

    def __len__(self) -> int:
        return self.steps

    @property
    def rows(self) -> Array:
        return self._white.rows

    @property
    def identifiable(self) -> Flags:
        """(K,): from `first` on."""
        return np.arange(self.steps) >= (self.steps if self.first is None else self.first)

    @cached_property
    def information(self) -> Array:
        return self._white.information()

    @cached_property
    def covariance(self) -> Array:
        return self._whole(np.zeros(0) if self.first is None else self.found)

    @cached_property
    def found(self) -> Array:
        """Σ_PPCR,k for k = first..K−1, (K − first, n, n); NotIdentifiable where there is none."""
        found = self._white.every_step(self.require_first())[0]
        return require_range(found, "the variances of the parameters")

    @cached_property
    def classical(self) -> Array:
        if self.first is None:
            return self._whole(np.zeros(0))
        return self._whole(self._white.classical(self.first))

    def _whole(self, found: Array) -> Array:
        """From step 0 on: infinite before `first`."""
        n = len(self.names)
        result = np.empty((self.steps, n, n))
        result[: self.steps - len(found)] = unknown(n)
        result[self.steps - len(found) :] = found if len(found) else 0.0
        return result

    def __getitem__(self, step: int) -> Bound:
        """The bound after step k; NotIdentifiable, with the hidden directions, before `first`."""
        k = range(self.steps)[step]
        if self.first is None or k < self.first:
            hidden = self._white.root(k).hidden
            raise NotIdentifiable(
                f"After step {k} θ is not yet identifiable: {hidden.shape[1]} of {len(hidden)} "
                "directions are hidden.",
                hidden,
            )
        return StepBound(self, k)

    def require_first(self) -> int:
        """`first`, or NotIdentifiable."""
        if self.first is None:
            hidden = self._white.root(self.steps - 1).hidden
            raise NotIdentifiable(
                f"θ is not identifiable at any step of this stream: {hidden.shape[1]} of "
                f"{len(hidden)} directions stay hidden.",
                hidden,
            )
        return self.first

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return super().to_dict() | {"steps": self.steps, "first": self.first}

    def __repr__(self) -> str:
        when = "never" if self.first is None else f"from step {self.first}"
        return f"Bound({self.steps} steps, identifiable {when})"


class StepBound(Bound):
    """The bound after step k of a stream."""

    def __init__(self, stream: StreamBound, step: int) -> None:
        self.names, self._stream, self.step = stream.names, stream, step

    @property
    def covariance(self) -> Array:
        return np.asarray(self._stream.found[self.step - self._stream.require_first()])

    @property
    def information(self) -> Array:
        return np.asarray(self._stream.information[self.step])

    @property
    def classical(self) -> Array:
        return np.asarray(self._stream.classical[self.step])

    @property
    def identifiable(self) -> bool:
        return True


def stream_bound(
    model: LinearModel, level: StreamLevel, *, compiled: bool | None = None
) -> StreamBound:
    """The bound after each step of a stream.

        PI_k = Σ_{j ≤ k} G_jᵀG_j ,   G = C⁻¹A H̄ ,   V = A Σ̄ Aᵀ + I = C Cᵀ ,   S̄_K = AᵀA

    `compiled`: machine code by numba; None uses it where it is installed and the stream long.
    Guarantees: Σ_PPCR,k = PI_k⁻¹ is the floor for every mechanism with I_{Z̄_k}(Ȳ_k) ≤ S̄_k
    (`thm:PPF_recur`); attained by the sequential Gaussian mechanism with RLS (`thm:opt`).
    Numerics: U = 0 O(M), banded O(M b²), dense M³/3 flops; relative error about eps times the
    condition of the root of PI_k, whatever K.
    Source: `algo:recursive_PI`, `algo:recursive_PPCR`, `coro:PPCR_recur`.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0], [1.0]], noise=Gaussian(cov=1.0))
    >>> stream_bound(model, StreamLevel([1.0, 1.0])).covariance.ravel().round(12).tolist()
    [2.0, 1.0]
    """
    own = _level_of(level, model)
    return StreamBound(_Whitened(model, own, model.inverse_information, None, compiled))


def stream_estimates(
    model: LinearModel, level: StreamLevel | PrivacyLevel | ArrayLike, releases: ArrayLike, *,
    compiled: bool | None = None,
) -> tuple[Array, StreamBound]:  # fmt: skip
    """θ̂_k for k = first..K−1, (K − first, n), from the releases z̃ (M,), and their covariances.

    The estimates of `algo:PP_RLS`: θ̂_k = PI_k⁻¹ Σ_{j ≤ k} G_jᵀ(C⁻¹z̃)_j, with cov w for Σ̄. The
    second value holds what they attain: for Gaussian noise the bound (`thm:opt`), else a covariance
    above it.
    """
    # (NaN, a measurement that is missing: PrivateRLS leaves it and what shows it later out.)
    given = as_array(releases, "the releases (PrivateRLS takes missing ones)", ndim=1)
    own = _level_of(level, model)
    if len(given) != own.measurements:
        raise InvalidInput(
            f"the releases must have {own.measurements} entries; received {len(given)}."
        )
    white = _Whitened(model, own, model.covariance, given, compiled)
    bound = StreamBound(white)
    covariances, estimates = white.every_step(bound.require_first())
    assert estimates is not None
    vars(bound)["found"] = covariances  # the same pass gives both
    return estimates, bound


def _level_of(given: StreamLevel | PrivacyLevel | ArrayLike, model: LinearModel) -> StreamLevel:
    """The level of all measurements of the model."""
    level = as_stream_level(given, steps=local_model(model).readings)
    if level.steps is None:
        return level.first(max(model.readings // (level.block or 1), 1))
    return level


def _rows_for(model: LinearModel, level: StreamLevel) -> Rows:
    if model.readings != level.measurements:
        raise InvalidInput(
            f"The model has {model.readings} measurements; the stream level has "
            f"{level.measurements}."
        )
    rows = level.rows
    if isinstance(rows, BandedRows) and rows.couples(model.inverse_information):
        return DenseRows(rows.dense(), rows.block)  # noise that ties steps together fills the band
    return rows


def _centred(release: Array, model: LinearModel, rows: Rows) -> Array:
    """z̃ − A E w: without the mean of the noise."""
    mean = model.noise.expectation(model.readings)
    if not np.any(mean):
        return release
    column = np.broadcast_to(mean, model.readings)[:, None]
    return np.asarray(release - rows.times(column)[:, 0])


class _Whitened:
    """The whitened rows of a stream, and the ranks of its first k steps.

    For a rank each column is compared with √(Σ_j [S̄]_jj h_j²), what it would be if nothing
    cancelled, so that rounding is not taken for information.
    """

    def __init__(
        self, model: LinearModel, level: StreamLevel, covariance: PSD, release: Array | None,
        compiled: bool | None,
    ) -> None:  # fmt: skip
        self.model, self.level, self.n = in_range(model), level, model.parameters
        require_size(level.rows.level_diagonal(), "the level")
        rows = _rows_for(model, level)
        use = machine.wanted(compiled, level.measurements)
        self.kernel: Kernel = machine.kernel if use else numpy_kernel
        if release is not None:
            release = _centred(release, model, rows)
        self.columns = rows.columns(covariance, model.matrix, release, compiled=use)
        # m_k ≥ 1, so that as many steps as measurements means one per step.
        self.ends = None if level.steps == level.measurements else np.cumsum(level.sizes)
        widest = 1 if self.ends is None else max(level.sizes)
        self.tolerance = rank_tolerance(max(self.n, widest))

    @property
    def rows(self) -> Array:
        return self._first_rows(self.columns.measurements)

    def _first_rows(self, count: int) -> Array:
        return self.columns.part(0, count)[: self.n].T

    def information(self) -> Array:
        return information(self.columns, self.ends, self.n)

    def every_step(self, first: int) -> tuple[Array, Array | None]:
        return every_step(self.columns, self.ends, self.n, first, self.kernel)

    def classical(self, first: int) -> Array:
        """Σ_CR,k for k = first..K−1."""
        rows = precision_rows(self.model.matrix, self.model.inverse_information)
        return every_step(StoredColumns(rows.T), self.ends, self.n, first, self.kernel)[0]

    @cached_property
    def _diagonals(self) -> tuple[Array, Array]:
        return self.level.rows.level_diagonal(), self.model.inverse_information.diagonal()

    def root(self, step: int) -> InformationRoot:
        """R after this step."""
        end = step + 1 if self.ends is None else int(self.ends[step])
        shown, noise = self._diagonals
        weight = pointwise_weight(shown[:end], noise[:end])
        scale = np.sqrt(weight @ self.model.matrix[:end] ** 2)
        return root_of_rows(self._first_rows(end), scale, self.tolerance)

    def first(self) -> int | None:
        """The first step after which the rows have full column rank: gallop, then bisect."""
        low, high, reach = -1, len(self.level.sizes) - 1, self.n
        while self.root(probe := min(low + reach, high)).rank < self.n:
            if probe == high:
                return None
            low, reach = probe, 2 * reach
        high = probe
        while high - low > 1:
            middle = (low + high) // 2
            if self.root(middle).rank == self.n:
                high = middle
            else:
                low = middle
        return high
