"""The steps of a stream as whitened rows [G, ζ] = C⁻¹[A H̄, z̃], C Cᵀ = A Σ̄ Aᵀ + I, as they come."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privest.arrays import AnyArray, Array, Flags, Index
from privest.errors import InvalidInput
from privest.linalg import PSD, Blocks, Diagonal
from privest.linalg.appending import BandedAppend, DenseAppend
from privest.noise import JointNoise
from privest.privacy import StreamLevel
from privest.privacy.parts import hidden_entries
from privest.reading import state_array
from privest.release import Release, missing_entries


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one release; `given`: the noise is that of all its values."""

    release: Release
    level: StreamLevel
    law: JointNoise
    given: bool

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return self.level.sizes_between(self.release.start, self.stop)

    @property
    def stop(self) -> int:
        return self.release.start + self.release.steps

    @property
    def missing(self) -> Flags:
        if self.absent is None:
            return np.zeros(self.release.steps, dtype=bool)
        starts = np.cumsum([0, *self.sizes[:-1]])
        return np.asarray(np.logical_and.reduceat(self.absent, starts))

    @cached_property
    def absent(self) -> Flags | None:
        """Which measurements are missing; None: none is."""
        found = missing_entries(self.release, self.sizes)
        return None if found is None else hidden_entries(self.level, found, self.sizes)

    @property
    def unit(self) -> float:
        """1/√v, v the variance of the noise: z̃/√v is a release with unit noise, at level S/v."""
        return 1.0 / math.sqrt(self.release.unit_variance)

    @cached_property
    def values(self) -> Array:
        """z̃ in units of its noise, 0 where it is missing."""
        shown = self.release.values
        if self.unit != 1.0:
            shown = self.unit * shown
        return shown if self.absent is None else np.where(self.absent, 0.0, shown)

    @cached_property
    def covariance(self) -> PSD:
        return self._matrix(self.law.covariance)

    @property
    def floor(self) -> PSD:
        return self._matrix(self.law.inverse_information)

    @property
    def mean(self) -> Array | float:
        if self.given or self.law.size is None:
            return self.law.expectation(len(self.release.values))
        mean = np.broadcast_to(self.law.expectation(self.law.size), self.law.size)
        return np.tile(mean, self.release.steps) if mean.any() else 0.0

    def _matrix(self, of: Callable[[int], PSD]) -> PSD:
        total, steps, size = len(self.release.values), self.release.steps, self.law.size
        if not self.given:
            if size is None:
                return of(total)
            one = of(size)
            if one.pointwise is not None:
                return Diagonal(np.tile(one.diagonal(), steps))
            return Blocks(np.broadcast_to(one.dense(), (steps, *one.dense().shape)))
        if size not in (None, total):
            raise InvalidInput(
                f"The noise has {size} components; this release has {total} measurements."
            )
        sigma = of(total)
        if isinstance(sigma, Blocks):
            ends = np.cumsum(self.sizes).tolist()
            if not set(np.cumsum(sigma.sizes).tolist()).issuperset(ends):
                return _step_blocks(sigma.dense(), ends, self.sizes)
        return sigma


def _step_blocks(sigma: Array, ends: list[int], sizes: tuple[int, ...]) -> Blocks:
    blocks = [sigma[end - m : end, end - m : end] for end, m in zip(ends, sizes)]
    if np.count_nonzero(sigma) != sum(np.count_nonzero(block) for block in blocks):
        raise InvalidInput(
            "The noise ties steps together: PrivateRLS needs steps with independent noise."
        )
    return Blocks(blocks)


class StepRows:
    """What later steps need of earlier ones: nothing for U = 0, else the last b steps, or all."""

    def __init__(self, level: StreamLevel, columns: int, widest: int) -> None:
        self.level = level
        self.measurements = 0
        # Missing measurements that later rows look back to: steps of the window, or all (dense).
        self._window: Flags = np.zeros(0, dtype=bool)
        self._absent: Index = np.zeros(0, dtype=np.intp)
        self._rows: BandedAppend | DenseAppend | None = None
        if level.form == "dense":
            self._rows = DenseAppend(widest, columns)
        elif level.block is not None:
            self._rows = BandedAppend(level.reach, level.block, columns)
            self._window = np.zeros(level.reach, dtype=bool)

    def whiten(self, steps: Steps, H: Array, *, natural: bool) -> tuple[Array, Array | None]:
        """[G, ζ] of these steps and, if wanted, their size had nothing cancelled."""
        right = np.empty((len(H), H.shape[1] + 1))
        right[:, :-1], right[:, -1] = H, -np.asarray(steps.mean)
        shown = np.zeros_like(right)
        shown[:, -1] = steps.values
        if self._rows is None:
            return self._changing(steps, right, shown)
        if isinstance(self._rows, DenseAppend):
            rows, halves, hidden = self._dense(steps)
            result = self._rows.extend(rows, halves, right, shown, natural=natural)
            self._absent = hidden
            return result
        blocks = self.level.blocks(steps.release.start, steps.stop)
        if steps.absent is not None and self.level.form == "independent":
            shown_entries = ~steps.absent.reshape(1, steps.release.steps, -1)
            blocks = blocks * shown_entries[..., None] * shown_entries[..., None, :]
        if steps.unit != 1.0:
            blocks = steps.unit * blocks
        flags = np.concatenate([self._window, steps.missing])
        if flags.any():
            blocks = _without(blocks, flags)
        sigma, m = steps.covariance, steps.sizes[0]
        stack = sigma.blocks(steps.sizes).groups[0][1] if m > 1 else sigma.diagonal()[:, None, None]
        result = self._rows.extend(blocks, stack, right, shown, natural=natural)
        self._window = flags[len(flags) - self.level.reach :]
        return result

    def _dense(self, steps: Steps) -> tuple[Array, Array | list[Array], Index]:
        rows, hidden = self.level.dense_rows(steps.release.start, steps.stop), self._absent
        if steps.unit != 1.0:
            rows = steps.unit * rows
        if steps.absent is not None:
            hidden = np.concatenate([hidden, np.flatnonzero(steps.absent) + self.measurements])
        if len(hidden):
            rows = rows.copy()
            rows[:, hidden] = 0.0
            rows[hidden[hidden >= self.measurements] - self.measurements] = 0.0
        sigma = steps.covariance
        if self.level.block == 1 and sigma.pointwise is not None:
            return rows, np.sqrt(sigma.diagonal()), hidden
        return rows, sigma.blocks(steps.sizes).lowers(), hidden

    def _changing(self, steps: Steps, right: Array, shown: Array) -> tuple[Array, Array]:
        """U = 0 and m_k that changes: every step by itself."""
        parts, at = [], 0
        every = np.zeros(len(right), dtype=bool) if steps.absent is None else steps.absent
        own = zip(steps.sizes, steps.covariance.blocks(steps.sizes).matrices)
        for k, (size, sigma) in enumerate(own, start=steps.release.start):
            one = slice(at, at + size)
            kept = ~every[one]
            blocks = steps.unit * self.level.blocks(k, k + 1) * kept[:, None] * kept
            alone = BandedAppend(0, size, right.shape[1])
            parts.append(alone.extend(blocks, sigma[None], right[one], shown[one]))
            at += size
        white, natural = zip(*parts)
        return np.concatenate(white), np.concatenate(natural)

    def mark(self) -> tuple[object, Flags, Index]:
        rows = None if self._rows is None else self._rows.mark()
        return rows, self._window, self._absent

    def rollback(self, mark: tuple[object, Flags, Index]) -> None:
        rows, self._window, self._absent = mark
        if self._rows is not None:
            self._rows.rollback(rows)

    def state(self) -> dict[str, AnyArray]:
        own: dict[str, AnyArray] = {"window": self._window, "absent": self._absent}
        if self._rows is not None:
            own |= {f"rows.{name}": array for name, array in self._rows.state().items()}
        return own

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Restore a state, after `measurements`; InvalidInput for one of other sizes."""
        window = state_array(state, "window", (len(self._window),), "b")
        absent = state_array(state, "absent", (None,), "i")
        if (np.diff(absent, append=self.measurements) <= 0).any():
            raise InvalidInput("the state 'absent' must name measurements so far, in their order.")
        if isinstance(self._rows, DenseAppend):
            state_array(state, "rows.right", (self.measurements, None))
        if self._rows is not None:
            self._rows.restore(under(state, "rows."))
        self._window, self._absent = window, absent


def under(state: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    return {name[len(prefix) :]: a for name, a in state.items() if name.startswith(prefix)}


def _without(blocks: Array, hidden: Flags) -> Array:
    """Blocks with zeros for missing steps; `hidden`: flags of earlier steps, then of these."""
    kept = blocks.copy()
    count, reach = blocks.shape[1], len(blocks) - 1
    for lag in range(reach + 1):
        first = reach - lag
        kept[lag, hidden[first : first + count]] = 0.0
    kept[:, hidden[reach:]] = 0.0
    return kept
