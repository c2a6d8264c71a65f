"""Calls of a sampler: low digits, later calls, other batch sizes, the global random state.

fl(y + noise) cannot be every double, so some outputs have no noise that leads to them from another
measurement y': its low digits reveal y. I_z(y) ≤ S implies, for every event, a Hellinger distance
of its probabilities at y and y' of at most (y − y')ᵀS(y − y')/4 (lattice/PROOF.md §7). Events
surely further apart prove that the level is exceeded.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privest.arrays import Array, Flags
from privest.audit._draws import EACH, FALSE_ALARM, POWER, chance_distance
from privest.audit._terms import (
    ASPECTS,
    BATCHES,
    DENSITY,
    DIGITS,
    DRAWS,
    EVERYWHERE,
    GLOBAL,
    LATER,
    Finding,
    Look,
    Sampler,
    as_sampler,
)
from privest.linalg import PSD
from privest.mechanism import Componentwise, Mechanism
from privest.mechanism.affine import RunningMechanism

# Draws of the first call; calls of one draw each after all others; the same where draws are slow.
FIRST, CALLS = 2000, 1200
SLOW_CALLS, SHARE = 100, 100  # and at most one call per so many samples
SIZES = (7, 64)  # draws of other calls
COLUMNS, MEASUREMENTS = 8, 4  # outputs and measurements that are looked at
AT_ITSELF = 1e-12  # of the width of the draws: closer to a measurement than chance allows
STATES = (0, 0, 1, 42)  # of the global generators; the first twice, with the same generator
# In units of 1/√S: a measurement on no grid; from there to others, one of them beyond 0.
OFF, MOVES = 0.3711, (0.3, -0.6)
LOW_DIGITS = (4, 8, 20, 32)  # last digits of outputs
POWERS = (10, 20, 30, 40)  # multiples of 2^−k: how many digits a number has


class Calls:
    """Calls of a sampler before and after all others that a certificate makes."""

    def __init__(self, given: Mechanism | Sampler, S: PSD, look: Look) -> None:
        self.given, self.draw, self.S = given, as_sampler(given), S.dense()
        sizes = np.diagonal(self.S)
        unit = np.where(sizes > 0, 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0)), 0.0)
        base = look.places[0] if look.places.size else np.zeros(len(unit))
        if look.domain is not None:
            low, high = look.domain.T
            base, unit = low + 0.5 * (high - low), np.minimum(unit, 0.4 * (high - low))
        self.y, self.unit, self.rng = base + OFF * unit, unit, np.random.default_rng(17)
        channels = given.channels if isinstance(given, Componentwise) else ()
        self.slow = isinstance(given, RunningMechanism)
        self.slow |= any(channel.costly_draws for channel in channels)
        self.sizes = SIZES[: 1 if self.slow else 2]
        most = min(SLOW_CALLS, look.samples // SHARE) if self.slow else min(CALLS, look.samples)
        self.calls = max(most, 2)
        numeric = [getattr(channel, "draws_from_density", False) for channel in channels]
        self.first = None  # drawn by numbers: no sampler of its own
        if not (numeric and all(numeric)):
            self.first = self._drawn(self.y, 3 * self.calls if self.slow else FIRST)

    def _drawn(self, y: Array, n: int) -> Array | None:
        try:
            z = self.draw(y, self.rng, n)
        except Exception:  # a user's code
            return None
        return z if np.isfinite(z).all() else None

    def after(self, found: Finding, limit: float) -> Finding:
        """The finding with what was and was not examined, and with what is wrong with calls."""
        searched = found.sampler != "audited itself" and found.method != "runs of the code"
        seen = {
            DENSITY: searched,
            DRAWS: found.sampler != "not examined",
            EVERYWHERE: searched and not found.where,
        } | found.looked
        if self.first is not None and not found.least > limit:
            found = self._later(self._digits(found, seen), seen)
            found = self._global(found, seen)
        return replace(found, examined=tuple(part for part in ASPECTS if seen.get(part)))

    def _digits(self, found: Finding, seen: dict[str, bool]) -> Finding:
        assert self.first is not None
        those = np.flatnonzero(self.unit)[: 1 if self.slow else MEASUREMENTS]
        for j, move in itertools.product(those, MOVES):
            there = self.y.copy()
            there[j] += move * self.unit[j]
            other = self._drawn(there, len(self.first))
            if other is None:
                return found
            told = told_apart(list(_patterns(self.first, other)), len(self.first), 1 - EACH)
            margin = 4 * told.apart / (self.S[j, j] * (move * self.unit[j]) ** 2)
            if margin > max(1.0, found.least):
                seen[DIGITS] = True
                said = f"Digits of the draws reveal measurement {j}: {told.event}."
                return replace(
                    found, margin=margin, error=0.0, least=margin, worst_y=self.y, method="draws",
                    reasons=(*found.reasons, said), refuted=True,
                )  # fmt: skip
        seen[DIGITS] = True
        return found

    def _later(self, found: Finding, seen: dict[str, bool]) -> Finding:
        assert self.first is not None
        calls = self.calls
        kinds = {"single calls": [1] * calls}
        kinds |= {f"calls of {size} draws": [size] * (calls // size + 1) for size in self.sizes}
        for kind, sizes in kinds.items():
            parts = [part for size in sizes if (part := self._drawn(self.y, size)) is not None]
            if len(parts) < len(sizes):
                return found
            wrong = self._wrong(np.concatenate(parts))
            if wrong is not None:
                seen[LATER if set(sizes) == {1} else BATCHES] = True
                said = f"{kind.capitalize()} are not drawn as the first: {wrong}."
                return replace(found, reasons=(*found.reasons, said), refuted=True)
        seen[LATER] = seen[BATCHES] = True
        off = chance_distance(calls) + chance_distance(calls, 1 - POWER)
        said = (
            f"{calls} single calls and calls of {' and '.join(map(str, self.sizes))} draws are "
            f"drawn as the first: a share of {off:.2g} drawn differently would have been seen."
        )
        return replace(found, reasons=(*found.reasons, said))

    def _wrong(self, z: Array) -> str | None:
        assert self.first is not None
        matrix, shown = getattr(self.given, "matrix", None), [self.y]
        if matrix is not None and len(matrix) == z.shape[1]:
            shown.append(matrix @ self.y)
        wide = max(float(np.ptp(self.first)), 1e-300)
        for values in shown:
            itself = _close(z, values, wide).any(axis=1)
            if itself.any() and not _close(self.first, values, wide).any():
                return f"call {int(np.argmax(itself)) + 1} of them returns a measurement itself"
        for i in range(min(z.shape[1], COLUMNS)):
            p = scipy.stats.ks_2samp(z[:, i], self.first[:, i], method="asymp").pvalue
            if p < FALSE_ALARM:
                return f"the distribution of output {i} is another one"
        return None

    def _global(self, found: Finding, seen: dict[str, bool]) -> Finding:
        """The same generator in several states of the global ones: the same draws."""
        kept, draws = (np.random.get_state(), random.getstate()), []  # noqa: NPY002
        try:
            for state in STATES:
                np.random.seed(state)  # noqa: NPY002 - what a user's code may use
                random.seed(state)
                draws.append(self.draw(self.y, np.random.default_rng(7), SIZES[0]))
        except Exception:  # a user's code
            return found
        finally:
            np.random.set_state(kept[0])  # noqa: NPY002
            random.setstate(kept[1])
        if not np.array_equal(draws[0], draws[1]):
            return found  # it draws from elsewhere, or counts its calls
        seen[GLOBAL] = True
        if all(np.array_equal(draws[0], other) for other in draws[2:]):
            return found
        said = "Its draws depend on the global random state, not on its generator alone."
        return replace(found, reasons=(*found.reasons, said), refuted=True)


def _close(z: Array, values: Array, wide: float) -> Flags:
    return np.asarray(np.abs(z[:, :, None] - values[:COLUMNS]).min(axis=2) <= AT_ITSELF * wide)


# --- low digits of outputs ------------------------------------------------------------------------


Event = tuple[str, Flags, Flags]  # what, and which outputs of each of two measurements show it


class Told(NamedTuple):
    """How far events tell two measurements apart.

    impossible  the largest share of outputs with a mark that the other measurement never gives
    apart       a lower bound of the squared Hellinger distance of the most telling event
    """

    impossible: float
    apart: float
    event: str


def told_apart(pairs: list[Event], count: int, confidence: float) -> Told:
    level = share_level(pairs, confidence)
    best, impossible = Told(0.0, 0.0, "none"), 0.0
    for event, marks, others in pairs:
        apart = _hellinger(share_interval(marks, level), share_interval(others, level))
        if apart > 0 and not (marks.any() and others.any()):
            impossible = max(impossible, float(marks.mean()), float(others.mean()))
        if apart > best.apart:
            best = best._replace(apart=apart, event=event)
    return best._replace(impossible=impossible)


def share_level(pairs: list[Event], confidence: float) -> float:
    """The error probability of one end of an interval: two shares, two sides of each event."""
    return (1 - confidence) / (4 * len(pairs))


def seen_share(count: int, level: float) -> float:
    """The least share of outputs that is told from none."""
    most = share_interval(np.zeros(count, dtype=bool), level)[1]
    ranks = np.arange(1, count + 1)
    lows = scipy.stats.beta.ppf(level, ranks, count - ranks + 1)
    return float((np.searchsorted(lows, most) + 1) / count)


def events(one: Array, other: Array, shown: list[tuple[float, float]]) -> list[Event]:
    """All events of outputs (n, q); `shown`: what may have been added noise to, of each."""
    found: list[Event] = []
    with np.errstate(over="ignore", invalid="ignore"):
        for u, which in ((u, i) for pair in shown for u, i in zip(pair, ("first", "second"))):
            marks, others = ((u + (z - u) != z).any(axis=1) for z in (one, other))
            said = f"no noise in doubles leads from the {which} measurement to the output"
            found.append((said, marks, others))
        for k in POWERS:
            marks, others = (
                (np.ldexp(z, k) == np.floor(np.ldexp(z, k))).all(axis=1) for z in (one, other)
            )
            found.append((f"the output is a multiple of 2^-{k}", marks, others))
    return [*found, *_patterns(one, other)]


def _patterns(one: Array, other: Array) -> Iterator[Event]:
    """Low binary digits that the first halves of the outputs show more often at one measurement.

    Judged on the second halves.
    """
    half = len(one) // 2
    for i, digits in itertools.product(range(min(one.shape[1], COLUMNS)), LOW_DIGITS):
        a, b = (_last(z[:, i], digits) for z in (one, other))
        values, counts = np.unique(a[:half], return_counts=True)
        elsewhere = b[:half][np.isin(b[:half], values)]
        beside = np.bincount(np.searchsorted(values, elsewhere), minlength=len(values))
        often = values[counts > 1 + beside]
        yield (
            f"the last {digits} binary digits of output {i} have learnt patterns",
            np.isin(a[half:], often),
            np.isin(b[half:], often),
        )


def _last(z: Array, digits: int) -> NDArray[np.uint64]:
    return np.ascontiguousarray(z).view(np.uint64) & np.uint64(2**digits - 1)


def share_interval(marks: Flags, level: float) -> tuple[float, float]:
    """Clopper and Pearson's interval."""
    k, n = int(marks.sum()), marks.size
    low = 0.0 if k == 0 else float(scipy.stats.beta.ppf(level, k, n - k + 1))
    high = 1.0 if k == n else float(scipy.stats.beta.ppf(1 - level, k + 1, n - k))
    return low, high


def _hellinger(p: tuple[float, float], q: tuple[float, float]) -> float:
    """The least Σ(√p − √q)² of an event and its opposite over two intervals."""
    if p[0] <= q[1] and q[0] <= p[1]:
        return 0.0
    a, b = (p[0], q[1]) if p[0] > q[1] else (p[1], q[0])
    return 2 - 2 * (math.sqrt(a * b) + math.sqrt((1 - a) * (1 - b)))
