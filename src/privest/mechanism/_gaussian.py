"""The optimal mechanism: Gaussian noise that carries exactly the information S (Theorem 2).

On all readings at once, and in sequence for streams of any length (phase 1 of `algo:PP_RLS`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_count
from privest.errors import InvalidInput
from privest.mechanism._affine import RunningMechanism
from privest.mechanism._vector import Information, Mechanism, repeated
from privest.mechanism.source import Source, as_source
from privest.privacy import Move, PrivacyLevel, SequentialLevel, as_level, as_stream_level
from privest.reading import state_array, state_count
from privest.release import StreamRelease


class GaussianMechanism(Mechanism):
    """z̃ = Lᵀy + e, e ~ N(0, I_r), S = L Lᵀ of any rank r ≥ 1.

        ln p = −½‖z̃ − Lᵀy‖² − (r/2) ln 2π ,   score L(z̃ − Lᵀy) ,   I_z(y) = S for every y

    Attained by: the bound of `coro:ppcr` is, with Gaussian w. The paper's release z = Sy + d,
    d ~ N(0, S), is z = L z̃ (`paper_release`) and shows the same; for singular S it has no
    density, z̃ has one. Unbiased: E z̃ = Lᵀy. No finite ε; exactly μ-GDP (`mu`).
    Structure is kept: s·I on a million readings is one number.

    >>> mechanism = GaussianMechanism.calibrated([[4.0, 2.0], [2.0, 1.0]], 2)
    >>> mechanism.outputs  # rank one: S = (2, 1)ᵀ(2, 1)
    1
    >>> abs(mechanism.score([6.0], [1.0, 1.0])).tolist()  # (2, 1)·(6 − 3) up to sign: of L
    [6.0, 3.0]
    >>> mechanism.information([1.0, 1.0]).matrix.tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """

    def __init__(self, level: PrivacyLevel | ArrayLike, readings: int) -> None:
        self.level = as_level(level)
        self.readings = as_count(readings, "readings", least=1)
        self._S = self.level.for_size(self.readings)
        if self._S.rank == 0:
            raise InvalidInput("at level 0 nothing may be released: there is no mechanism.")
        self._kept = self._S.informative()
        self.outputs = int(self._kept.sum())

    @classmethod
    def calibrated(cls, level: PrivacyLevel | ArrayLike, readings: int) -> Self:
        """The mechanism with I_z(y) = S."""
        return cls(level, readings)

    def simulate(
        self, y: ArrayLike, rng: np.random.Generator | Source, trials: int | None = None
    ) -> Array:
        return as_source(rng).add_noise(repeated(self._shown(y), trials))

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        constant = 0.5 * self.outputs * math.log(2.0 * math.pi)
        return np.asarray(-0.5 * (self._rest(z, y) ** 2).sum(axis=-1) - constant)

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        return self._times_factor(self._rest(z, y))

    def information(self, y: ArrayLike) -> Information:
        self._readings(y)
        return Information(self._S.dense(), 0.0)

    def worst_information(self) -> Array:
        return self._S.dense()

    def mu(self, move: float | Move) -> float:
        """μ: the release is exactly μ-GDP when one reading moves by at most `move`."""
        return self.level.to_mu(move=move)

    def paper_release(self, z: ArrayLike) -> Array:
        """z = L z̃ = Sy + d, d ~ N(0, S): the paper's form of a release z̃."""
        return self._times_factor(self._outputs(z))

    @property
    def parameters(self) -> dict[str, Any]:
        return {"level": self.level, "rank": self.outputs}

    def __repr__(self) -> str:
        return f"GaussianMechanism({self.level!r}, {self.readings} readings)"

    def _shown(self, y: ArrayLike) -> Array:
        """Lᵀy without the zero rows, (..., r)."""
        given = self._readings(y)
        columns = given.reshape(-1, self.readings).T
        shown = self._S.factor_rows(columns)[self._kept]
        return np.asarray(shown.T.reshape(*given.shape[:-1], self.outputs))

    def _times_factor(self, x: Array) -> Array:
        """L x, (..., m)."""
        full = np.zeros((*x.shape[:-1], self.readings))
        full[..., self._kept] = x
        columns = full.reshape(-1, self.readings).T
        return np.asarray(self._S.times_factor(columns).T.reshape(full.shape))

    def _rest(self, z: ArrayLike, y: ArrayLike) -> Array:
        return self._outputs(z) - self._shown(y)


class StreamMechanism:
    """The data holder's side of a stream: sees the readings, gives releases.

        z̃_k = A_k Ȳ_k + e_k ,   e_k ~ N(0, I) ,   A_k = [ℓ_k⁺U_kᵀ, ℓ_kᵀ] ,   S_k = ℓ_kℓ_kᵀ

    Guarantees: I_{Z̄_k}(Ȳ_k) = S̄_k at every step (`eq:barS`); a missing reading (NaN or masked)
    is a step with S_k = 0 and is left out of all later steps too. Which ones are missing is
    public.
    Keeps: nothing for U = 0, the last b readings where releases look back b steps, all of them
    for a dense level. Ends with an error, not a release, when the level has no further step.
    Attained by: equals the paper's z_k = U_kᵀȲ_{k−1} + S_k y_k + d_k through z_k = ℓ_k z̃_k.

    >>> from privest.privacy import EndlessLevel
    >>> mechanism = StreamMechanism(EndlessLevel(1.0, lags=[0.5]))
    >>> mechanism.simulate([0.3, 0.1], np.random.default_rng(1))
    StreamRelease(steps 0..1, 2 values, simulated)
    >>> mechanism.simulate(float("nan"), np.random.default_rng(1)).missing.tolist()
    [True]
    """

    def __init__(self, level: SequentialLevel | PrivacyLevel | ArrayLike) -> None:
        self.level = as_stream_level(level)
        self.steps = 0
        banded = self.level.form == "banded"
        # The readings that later releases look back to.
        self._past: Array = np.zeros(self.level.reach * (self.level.block or 0) if banded else 0)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> StreamRelease:
        """The release of the next reading or readings, with noise of a simulation generator.

        y: a number or a vector of m_k (one step), or several steps one after another (a vector,
        or one row a step). NaN or masked: missing; a vector reading of which a part is missing
        counts as missing.
        """
        source = as_source(rng)
        values, missing, sizes = self._readings(y)
        start, stop = self.steps, self.steps + len(sizes)
        shown, past = self._shown(values, start, stop)
        shown = source.add_noise(shown, at=start, sizes=sizes)
        if missing is not None:
            shown[np.repeat(missing, sizes)] = np.nan
        self._past, self.steps = past, stop
        return StreamRelease(
            start, len(sizes), shown, missing, self.level.fingerprint, source.simulated
        )

    def _shown(self, values: Array, start: int, stop: int) -> tuple[Array, Array]:
        """A_kȲ_k of these steps, and the readings to remember after them."""
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

    def _readings(self, y: ArrayLike) -> tuple[Array, Flags | None, tuple[int, ...]]:
        """Readings with 0 where they are missing, which steps are missing, and their sizes."""
        values, absent = _split_missing(y)
        sizes = self._sizes(values)
        flat = values.ravel()
        if absent is None:
            return flat, None, sizes
        starts = np.cumsum([0, *sizes[:-1]])
        missing = np.asarray(np.logical_or.reduceat(absent.ravel(), starts))
        return np.where(np.repeat(missing, sizes), 0.0, flat), missing, sizes

    def _sizes(self, values: Array) -> tuple[int, ...]:
        """The m_k of the steps that these readings fill, exactly."""
        level, start = self.level, self.steps
        if level.steps == start:
            raise InvalidInput(
                f"The level ends after {start} steps: there is no level for another reading."
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
                f"The next step has {level.sizes_between(start, start + 1)[0]} readings; "
                f"{values.size} readings do not end with a step."
            )
        return level.sizes_between(start, stop)

    def _count(self, values: Array, block: int) -> int:
        """How many steps of `block` readings these are."""
        count, rest = divmod(values.size, block)
        if not count or rest or values.ndim > 2 or values.shape[1:] not in ((), (block,)):
            raise InvalidInput(
                f"Readings of this stream have {block} entries; received shape {values.shape}."
            )
        left = count if self.level.steps is None else self.level.steps - self.steps
        if count > left:
            raise InvalidInput(f"The level has {left} more steps; received {count} readings.")
        return count

    def as_mechanism(self, steps: int | None = None) -> RunningMechanism:
        """The first `steps` steps as one mechanism, for an audit: each draw is a stream of its own.

        All steps of the level by default. It claims A of these steps, I_{Z̄_k}(Ȳ_k) = AᵀA = S̄_k.
        Reads nothing of this stream.
        """
        level, fresh = self.level, type(self)
        steps = level.steps if steps is None else steps
        if steps is None:
            raise InvalidInput("the level has no last step: say how many steps to audit, steps=20.")
        steps = as_count(steps, "steps", least=1)
        if level.steps is not None and steps > level.steps:
            raise InvalidInput(f"the level has {level.steps} steps; asked for {steps}.")

        def draw(y: Array, rng: np.random.Generator | Source) -> Array:
            return fresh(level).simulate(y, rng).values

        size = sum(level.sizes_between(0, steps))
        shown = [StreamMechanism(level)._shown(unit, 0, steps)[0] for unit in np.eye(size)]
        return RunningMechanism(np.stack(shown, axis=1), draw, f"{steps} steps of {self!r}")

    def state(self) -> dict[str, Array]:
        """What the next steps need: sensitive where releases look back."""
        return {"steps": np.array(self.steps), "past": self._past}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take up a state again. Raises InvalidInput for one that is not of this level."""
        steps, level = state_count(state, "steps"), self.level
        before = level.readings_before(steps)
        size = before if level.form == "dense" else len(self._past)
        past = state_array(state, "past", (size,))
        self.steps, self._past = steps, past

    def __repr__(self) -> str:
        return f"StreamMechanism({self.level!r}, at step {self.steps})"


def _split_missing(y: ArrayLike) -> tuple[Array, Flags | None]:
    """The readings, and where they are missing (None: nowhere)."""
    try:
        raw = y if isinstance(y, np.ndarray) else np.asarray(y)
    except ValueError:
        raise InvalidInput("readings must be numbers in rows of one length.") from None
    if raw.dtype.kind not in "biuf":
        raise InvalidInput(f"readings must be real numbers; received an array of {raw.dtype}.")
    values = raw.astype(np.float64, copy=False)
    if isinstance(values, np.ma.MaskedArray):
        values = values.filled(np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(values.sum()):  # one pass when all is well
            return values, None
    absent = np.isnan(values)
    known = as_array(np.where(absent, 0.0, values), "the readings")
    return known, absent if absent.any() else None
