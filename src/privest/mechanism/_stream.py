"""The optimal mechanism in sequence, for streams of any length (phase 1 of `algo:PP_RLS`)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, Flags, as_count
from privest.errors import InvalidInput
from privest.mechanism.inputs import marked, real_numbers, split_missing
from privest.mechanism.rows import as_range
from privest.mechanism.running import RunningMechanism
from privest.mechanism.source import Payer, Source, as_source, paid
from privest.mechanism.stream_terms import begun, clip_between, shown_series, stream_terms
from privest.privacy import (
    Adjacency,
    PrivacyLevel,
    Statement,
    StreamLevel,
    as_stream_level,
    grid_statement,
)
from privest.privacy.parts import hidden_entries
from privest.reading import state_array, state_count
from privest.release import Release, missing_in


class StreamMechanism:
    """The data owner's side of a stream: sees the measurements, gives releases.

        z̃_k = A_k Ȳ_k + e_k ,   e_k ~ N(0, I) ,   A_k = [ℓ_k⁺U_kᵀ, ℓ_kᵀ] ,   S_k = ℓ_kℓ_kᵀ

    I_{Z̄_k}(Ȳ_k) = S̄_k at every step (`eq:barS`); the paper's z_k is ℓ_k z̃_k. A missing
    measurement (NaN or masked; which ones is public) is a step with S_k = 0, left out of all later
    steps too. A vector with missing parts shows the others where U = 0 and S_k is diagonal;
    a level that mixes measurements shows nothing of such a step. Keeps the last b measurements
    where releases look back b steps, all of them for a dense level. A copy that goes on reveals the
    same measurements again with other noise.

    >>> from privest.privacy import StreamLevel
    >>> mechanism = StreamMechanism(StreamLevel.constant(1.0, lags=[0.5]))
    >>> mechanism.simulate([0.3, 0.1], np.random.default_rng(1))
    Release(steps 0..1, 2 values, simulated)
    >>> mechanism.simulate(float("nan"), np.random.default_rng(1)).missing.tolist()
    [True]
    """

    steps: int

    def __init__(
        self,
        level: StreamLevel | PrivacyLevel | ArrayLike,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        self.level: StreamLevel = as_stream_level(level)
        self.range: tuple[float, float] | None = as_range(range)
        self.steps = 0
        self._past = begun(self.level)  # the measurements that later releases look back to
        self._turn = threading.Lock()
        self._require_range()

    def _require_range(self) -> None:
        """Refuse a range that the grid cannot hold at some step, before the first."""
        last = self.level.reach + 1 if self.level.steps is None else self.level.steps
        clip_between(self.level, self.range, self._past, 0, last)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Release:
        """The release of the next measurements, with noise of a simulation generator.

        y: one step (a number or m_k of them), or several (a vector, or one row a step). NaN or
        masked: missing. Many series, y (series, K, m): each is a stream of its own from step 0, and
        this mechanism's stream does not move.
        """
        source = as_source(rng)
        given = real_numbers(y)
        if given.ndim == 3:
            self._require_series(given)
            every, hidden = self._series(given, finite=True)
            noisy = source.add_noise(
                shown_series(self.level, every), fingerprint=self.level.fingerprint
            )
            noisy[hidden] = np.nan
            return self._of_series(noisy, source)
        sizes = self._sizes(given)
        values, absent = self._measurements(given, sizes, finite=True)
        shown, past = self._shown(values, self.steps, self.steps + len(sizes))
        return self._released(source, sizes, lambda: shown, lambda: (absent, past))

    def release(
        self, y: ArrayLike, source: Source | None = None, *, account: Payer | None = None
    ) -> Release:
        """The release of the next measurements, with protected noise; it has no seed.

        I_{Z̄_k}(Ȳ_k) ≤ S̄_k, literally for one number a measurement, else for S̄_k = AᵀA with the
        doubles A; values are multiples of 2⁻¹⁰. No value is rejected: beyond the range it is
        clipped, NaN or masked is missing. y as in `simulate`.
        `account` (`Ledger.account`) pays before anything leaves, and sends the same steps again.
        """
        protected, given = paid(account, self.level, source), real_numbers(y)
        if given.ndim == 3:
            return self._release_series(given, protected)
        with self._turn:
            return self._next(given, protected)

    def _release_series(self, given: Array, protected: Source) -> Release:
        self._require_series(given)
        level, past = self.level, begun(self.level)
        series, steps, m = given.shape
        clip = clip_between(level, self.range, past, 0, steps)

        def shown() -> lattice.Exactly:
            values, absent = self._series(given, finite=False)
            flat, hidden = values.reshape(series, -1), absent.reshape(series, -1)
            before = np.broadcast_to(past, (series, len(past)))
            terms = stream_terms(level, before, flat, 0, steps)[0]
            return marked(lattice.sum_of_products(terms), hidden)

        noisy = protected.add_noise(
            shown, shape=(series, steps * m), clip=clip, fingerprint=level.fingerprint
        )
        return self._of_series(noisy.reshape(given.shape), protected)

    def _require_series(self, given: Array) -> None:
        level, (_, steps, m) = self.level, given.shape
        if level.block is None or m != level.block or given.size == 0:
            raise InvalidInput(
                "Many series are (series, steps, m) at a level with steps of one size, here "
                f"{level.block or 'none'}; received shape {given.shape}."
            )
        if level.steps is not None and steps > level.steps:
            raise InvalidInput(f"The level has {level.steps} steps; received {steps}.")

    def _series(self, given: Array, *, finite: bool) -> tuple[Array, Flags]:
        values, absent = split_missing(given, finite=finite)
        if absent is None:
            return values, np.zeros(given.shape, dtype=bool)
        sizes = (given.shape[2],) * given.shape[1]
        flat = absent.reshape(len(given), -1)
        hidden = hidden_entries(self.level, flat, sizes).reshape(given.shape)
        return np.where(hidden, 0.0, values), hidden

    def _of_series(self, noisy: Array, source: Source) -> Release:
        absent = np.isnan(noisy)
        return Release(
            0, noisy.shape[1], noisy, absent if absent.any() else None, self.level.fingerprint,
            source.simulated, source.grid, self.level,
        )  # fmt: skip

    def _next(self, given: Array, protected: Source) -> Release:
        sizes = self._sizes(given)
        start, stop = self.steps, self.steps + len(sizes)
        kept: list[tuple[Flags | None, Array]] = []

        def shown() -> lattice.Exactly:
            values, absent = self._measurements(given, sizes, finite=False)
            terms, past = stream_terms(self.level, self._past, values, start, stop)
            kept.append((absent, lattice.finite(past)))
            return marked(lattice.sum_of_products(terms), absent)

        def facts() -> tuple[Flags | None, Array]:
            if not kept:  # a source that sends what it has sent before need not ask
                shown()
            return kept[0]

        return self._released(protected, sizes, shown, facts)

    def _released(
        self,
        source: Source,
        sizes: tuple[int, ...],
        shown: Callable[[], Array | lattice.Exactly],
        facts: Callable[[], tuple[Flags | None, Array]],
    ) -> Release:
        """Noise on what is shown; `facts`: where nothing is, and the measurements to keep."""
        start, count = self.steps, sum(sizes)
        clip = clip_between(self.level, self.range, self._past, start, start + len(sizes))
        values = source.add_noise(
            shown, shape=(count,), at=start, sizes=sizes, clip=clip,
            fingerprint=self.level.fingerprint,
        )  # fmt: skip
        absent, past = facts()
        if not source.simulated:  # what was missing when it was released
            absent = np.isnan(values)
        elif absent is not None:
            values[absent] = np.nan
        missing = None if absent is None else missing_in(absent, sizes)
        self._past, self.steps = past, start + len(sizes)
        return Release(
            start, len(sizes), values, missing, self.level.fingerprint, source.simulated,
            source.grid, self.level,
        )  # fmt: skip

    def _shown(self, values: Array, start: int, stop: int) -> tuple[Array, Array]:
        """A_kȲ_k of these steps, and the measurements to keep after them."""
        level = self.level
        own = level.pointwise(start, stop)
        if own is not None:
            return np.sqrt(own) * values, self._past
        sizes = level.sizes_between(start, stop)
        ends = list(itertools.accumulate(sizes, initial=0))
        if level.form == "dense":
            rows, before = level.dense_rows(start, stop), len(self._past)
            past = np.concatenate([self._past, values])
            # Step by step, each product of its own size: the same bits in whatever blocks.
            parts = [
                rows[a:b, : before + b] @ past[: before + b] for a, b in itertools.pairwise(ends)
            ]
            return np.concatenate(parts), past
        if level.block is None:  # U = 0, sizes change
            parts = [
                level.blocks(k, k + 1)[0, 0] @ values[a:b]
                for k, (a, b) in enumerate(itertools.pairwise(ends), start=start)
            ]
            return np.concatenate(parts), self._past
        rows = level.blocks(start, stop)
        every = np.concatenate([self._past, values]).reshape(-1, level.block, 1)
        count = stop - start
        shown = np.zeros((count, level.block, 1))
        for lag in range(level.reach + 1):
            first = level.reach - lag
            shown += rows[lag] @ every[first : first + count]
        return shown.ravel(), every[count:].ravel().copy()

    def _measurements(
        self, given: Array, sizes: tuple[int, ...], *, finite: bool
    ) -> tuple[Array, Flags | None]:
        """Measurements, 0 where nothing is revealed, and flags of those places."""
        values, absent = split_missing(given, finite=finite)
        flat = values.ravel()
        if absent is None:
            return flat, None
        hidden = hidden_entries(self.level, absent.ravel(), sizes)
        return np.where(hidden, 0.0, flat), hidden

    def _sizes(self, values: Array) -> tuple[int, ...]:
        """The m_k of the steps that these measurements fill."""
        level, start = self.level, self.steps
        if level.steps == start:
            raise InvalidInput(
                f"The level ends after {start} steps: there is no level for another measurement."
            )
        if level.block is not None:
            return level.sizes_between(start, start + self._count(values, level.block))
        assert level.steps is not None
        stop, total = start, 0
        while total < values.size and stop < level.steps:
            total += level.sizes_between(stop, stop + 1)[0]
            stop += 1
        if total != values.size or values.ndim > 1 or not total:
            raise InvalidInput(
                f"The next step has {level.sizes_between(start, start + 1)[0]} measurements; "
                f"{values.size} measurements do not end with a step."
            )
        return level.sizes_between(start, stop)

    def _count(self, values: Array, block: int) -> int:
        count, rest = divmod(values.size, block)
        if not count or rest or values.ndim > 2 or values.shape[1:] not in ((), (block,)):
            raise InvalidInput(
                f"Measurements of this stream have {block} entries; received shape {values.shape}."
            )
        left = count if self.level.steps is None else self.level.steps - self.steps
        if count > left:
            raise InvalidInput(f"The level has {left} more steps; received {count} measurements.")
        return count

    def statement(
        self, sensitivity: float | Adjacency | None = None, *, delta: float = 1e-6
    ) -> Statement:
        """The promise of all releases of the stream together (`privacy.grid_statement`).

        With a range it holds for every change of one measurement; `sensitivity` is a condition.
        """
        widths, level = None, self.level
        if self.range is not None:
            first, last = (0, level.steps) if level.steps else (level.reach, level.reach + 1)
            clip = clip_between(level, self.range, begun(level), first, last)
            assert clip is not None
            widths = clip[1] - clip[0]
        return grid_statement(
            level, sensitivity=sensitivity, range=self.range, widths=widths, delta=delta
        )

    def as_mechanism(self, steps: int | None = None) -> RunningMechanism:
        """The first `steps` steps (all by default) as one mechanism, for an audit.

        Each draw is a stream of its own. It claims A of these steps, I_{Z̄_k}(Ȳ_k) = AᵀA = S̄_k.
        """
        level, fresh, span = self.level, type(self), self.range
        steps = level.steps if steps is None else steps
        if steps is None:
            raise InvalidInput("the level has no last step: say how many steps to audit, steps=20.")
        steps = as_count(steps, "steps", least=1)
        if level.steps is not None and steps > level.steps:
            raise InvalidInput(f"the level has {level.steps} steps; asked for {steps}.")

        def draw(y: Array, rng: np.random.Generator | Source) -> Array:
            return fresh(level).simulate(y, rng).values

        def released(y: Array, source: Source | None) -> Array:
            return fresh(level, range=span).release(y, source).values

        size = sum(level.sizes_between(0, steps))
        shown = [StreamMechanism(level)._shown(unit, 0, steps)[0] for unit in np.eye(size)]
        name = f"{steps} steps of {self!r}"
        return RunningMechanism(np.stack(shown, axis=1), draw, name, released)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_turn"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _turn=threading.Lock())

    def state(self) -> dict[str, Array]:
        """The state that the next steps need: sensitive where releases look back."""
        return {"steps": np.array(self.steps), "past": self._past}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take up a state again; InvalidInput for one that is not of this level."""
        steps, level = state_count(state, "steps"), self.level
        before = level.measurements_before(steps)
        size = before if level.form == "dense" else len(self._past)
        past = state_array(state, "past", (size,), squares=False)
        self.steps, self._past = steps, past

    def __repr__(self) -> str:
        return f"StreamMechanism({self.level!r}, at step {self.steps})"
