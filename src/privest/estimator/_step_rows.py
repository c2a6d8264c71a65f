"""The steps of a stream as whitened rows [G, ζ] = C⁻¹[A H̄, z̃], C Cᵀ = A Σ̄ Aᵀ + I, as they come.

Also the noise of the steps of one release: the law of one step, or one given for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from privest.arrays import AnyArray, Array, Flags, Index
from privest.errors import InvalidInput
from privest.linalg import PSD, Blocks, Diagonal
from privest.linalg._appending import BandedAppend, DenseAppend
from privest.noise import JointNoise
from privest.privacy import SequentialLevel
from privest.release import StreamRelease


class StepRows:
    """What later steps need of earlier ones: nothing for U = 0, else the last b steps, or all.

    Missing readings count as never shown, in their own step and in all that look back to them.
    """

    def __init__(self, level: SequentialLevel, columns: int, widest: int) -> None:
        self.level = level
        self.readings = 0
        # Missing readings that later rows look back to: steps of the window, or all (dense).
        self._window: Flags = np.zeros(0, dtype=bool)
        self._absent: Index = np.zeros(0, dtype=np.intp)
        self._rows: BandedAppend | DenseAppend | None = None
        if level.form == "dense":
            self._rows = DenseAppend(widest, columns)
        elif level.block is not None:
            self._rows = BandedAppend(level.reach, level.block, columns)
            self._window = np.zeros(level.reach, dtype=bool)

    def whiten(
        self, release: StreamRelease, H: Array, law: JointNoise, given: bool, *, natural: bool
    ) -> tuple[Array, Array | None]:
        """[G, ζ] of these steps and, if wanted, their size had nothing cancelled.

        `given`: the law is that of the whole release, not of one step.
        """
        sizes = self.level.sizes_between(release.start, release.start + release.steps)
        right = np.empty((len(H), H.shape[1] + 1))
        right[:, :-1], right[:, -1] = H, -np.asarray(step_mean(law, given, release))
        shown = np.zeros_like(right)
        shown[:, -1] = shown_values(release, self.level)
        sigma = step_covariance(law.covariance, law, given, release, self.level)
        if isinstance(self._rows, DenseAppend):
            return self._dense(self._rows, release, sizes, sigma, right, shown, natural)
        missing = release.missing if release.missing is not None else np.zeros(len(sizes), bool)
        if self._rows is None:
            return self._changing(release.start, sizes, missing, sigma, right, shown)
        blocks = self.level.blocks(release.start, release.start + release.steps)
        flags = np.concatenate([self._window, missing])
        if flags.any():
            blocks = _without(blocks, flags)
        m = sizes[0]
        stack = sigma.blocks(sizes).groups[0][1] if m > 1 else sigma.diagonal()[:, None, None]
        result = self._rows.extend(blocks, stack, right, shown, natural=natural)
        self._window = flags[len(flags) - self.level.reach :]
        return result

    def _dense(
        self,
        append: DenseAppend,
        release: StreamRelease,
        sizes: tuple[int, ...],
        sigma: PSD,
        right: Array,
        shown: Array,
        natural: bool,
    ) -> tuple[Array, Array | None]:
        """A level that looks back to every reading."""
        rows = self.level.dense_rows(release.start, release.start + release.steps)
        hidden = self._absent
        if release.missing is not None:
            fresh = np.flatnonzero(np.repeat(release.missing, sizes)) + self.readings
            hidden = np.concatenate([hidden, fresh])
        if len(hidden):
            rows = rows.copy()
            rows[:, hidden] = 0.0
            rows[hidden[hidden >= self.readings] - self.readings] = 0.0
        scalar = self.level.block == 1 and sigma.pointwise is not None
        halves = np.sqrt(sigma.diagonal()) if scalar else sigma.blocks(sizes).lowers()
        result = append.extend(rows, halves, right, shown, natural=natural)
        self._absent = hidden
        return result

    def _changing(
        self,
        start: int,
        sizes: tuple[int, ...],
        missing: Flags,
        sigma: PSD,
        right: Array,
        shown: Array,
    ) -> tuple[Array, Array]:
        """U = 0 and m_k that changes: every step by itself."""
        parts, at = [], 0
        for k, (size, absent, own) in enumerate(
            zip(sizes, missing, sigma.blocks(sizes).matrices), start=start
        ):
            blocks = self.level.blocks(k, k + 1) * (0.0 if absent else 1.0)
            one = slice(at, at + size)
            alone = BandedAppend(0, size, right.shape[1])
            parts.append(alone.extend(blocks, own[None], right[one], shown[one]))
            at += size
        white, natural = zip(*parts)
        return np.concatenate(white), np.concatenate(natural)

    # --- put down and taken up ------------------------------------------------------------------

    def mark(self) -> tuple[object, Flags, Index]:
        """Something to go back to with `rollback`."""
        rows = None if self._rows is None else self._rows.mark()
        return rows, self._window, self._absent

    def rollback(self, mark: tuple[object, Flags, Index]) -> None:
        """Forget the steps since the mark."""
        rows, self._window, self._absent = mark
        if self._rows is not None:
            self._rows.rollback(rows)

    def state(self) -> dict[str, AnyArray]:
        """What the next steps need, as arrays."""
        own: dict[str, AnyArray] = {"window": self._window, "absent": self._absent}
        if self._rows is not None:
            own |= {f"rows.{name}": array for name, array in self._rows.state().items()}
        return own

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Take up a state again."""
        self._window, self._absent = state["window"].copy(), state["absent"].copy()
        if self._rows is not None:
            self._rows.restore(under(state, "rows."))


def under(state: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    """The part of a state whose names begin with `prefix`, without it."""
    return {name[len(prefix) :]: a for name, a in state.items() if name.startswith(prefix)}


def absent_readings(release: StreamRelease, level: SequentialLevel) -> Flags:
    """Which readings of a release are missing, one flag a reading."""
    assert release.missing is not None
    return np.repeat(
        release.missing, level.sizes_between(release.start, release.start + release.steps)
    )


def shown_values(release: StreamRelease, level: SequentialLevel) -> Array:
    """z̃ with 0 in place of what is missing."""
    if release.missing is None:
        return release.values
    return np.where(absent_readings(release, level), 0.0, release.values)


def _without(blocks: Array, hidden: Flags) -> Array:
    """Rows of missing steps and what later steps take from them, set to zero.

    `hidden` has the flags of the steps before these, then of these.
    """
    kept = blocks.copy()
    count, reach = blocks.shape[1], len(blocks) - 1
    for lag in range(reach + 1):
        first = reach - lag
        kept[lag, hidden[first : first + count]] = 0.0
    kept[:, hidden[reach:]] = 0.0
    return kept


# --- the noise of some steps ----------------------------------------------------------------------


def step_covariance(
    matrix: Callable[[int], PSD],
    law: JointNoise,
    given: bool,
    release: StreamRelease,
    level: SequentialLevel,
) -> PSD:
    """Σ of these steps, which must not tie steps together.

    `matrix` is the law's `covariance`, or its `inverse_information`.
    """
    total, steps = len(release.values), release.steps
    if not given:
        if law.size is None:
            return matrix(total)
        one = matrix(law.size)
        if one.pointwise is not None:
            return Diagonal(np.tile(one.diagonal(), steps))
        return Blocks(np.broadcast_to(one.dense(), (steps, *one.dense().shape)))
    if law.size not in (None, total):
        raise InvalidInput(
            f"The noise has {law.size} components; this release has {total} readings."
        )
    sigma = matrix(total)
    if isinstance(sigma, Blocks):
        sizes = level.sizes_between(release.start, release.start + steps)
        ends = np.cumsum(sizes).tolist()
        if not set(np.cumsum(sigma.sizes).tolist()).issuperset(ends):
            return _step_blocks(sigma.dense(), ends, sizes)
    return sigma


def step_mean(law: JointNoise, given: bool, release: StreamRelease) -> Array | float:
    """E w of these steps."""
    if given or law.size is None:
        return law.expectation(len(release.values))
    mean = np.broadcast_to(law.expectation(law.size), law.size)
    return np.tile(mean, release.steps) if mean.any() else 0.0


def _step_blocks(sigma: Array, ends: list[int], sizes: tuple[int, ...]) -> Blocks:
    """The diagonal blocks of a matrix that has nothing outside them."""
    blocks = [sigma[end - m : end, end - m : end] for end, m in zip(ends, sizes)]
    if np.count_nonzero(sigma) != sum(np.count_nonzero(block) for block in blocks):
        raise InvalidInput(
            "The noise ties steps together. PrivateRLS needs noise that is independent between "
            "steps; use bounds.stream_estimates on the whole stream."
        )
    return Blocks(blocks)
