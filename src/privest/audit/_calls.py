"""Calls of a sampler: low digits, later calls, other batch sizes, the global random state.

A density says nothing of these. A certificate rests on one fixed list of points (`ASPECTS`), each
examined or not.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.audit._draws import EACH, FALSE_ALARM, POWER, chance_distance
from privest.audit._finding import MORE, PAIRS, Finding, Look, Sampler, as_sampler
from privest.audit._low_digits import told_by_patterns
from privest.linalg import PSD
from privest.mechanism import Componentwise, Mechanism, RunningMechanism

# Draws of the first call; calls of one draw each after all others; the same where draws are slow.
FIRST, CALLS = 2000, 1200
SLOW_CALLS, SHARE = 100, 100  # and one call for so many samples at most
SIZES = (7, 64)  # draws of other calls
COLUMNS, READINGS = 8, 4  # outputs and readings that are looked at
AT_ITSELF = 1e-12  # of the width of the draws: closer to what is shown than chance allows
STATES = (0, 0, 1, 42)  # of the global generators; the first twice, with the same generator
# Of 1/√S: a reading that lies on no grid; from there to others, one of them beyond 0.
OFF, MOVES = 0.3711, (0.3, -0.6)

DENSITY = "the density, at the inputs stated"
DRAWS = "draws, next to the density where there is one"
DIGITS = "patterns of low binary digits, at three readings near one another"
LATER = "single calls in a row, next to the first call"
BATCHES = "calls for different numbers of draws"
GLOBAL = "dependence on the global random state"
EVERYWHERE = "every reading, by the form of the density"
BEYOND = (
    "calls after those", "low digits in a code, or at other readings",
    "other states of the process", "the time of calls",
)  # fmt: skip
ASPECTS = (DENSITY, DRAWS, DIGITS, LATER, BATCHES, GLOBAL, PAIRS, MORE, EVERYWHERE, *BEYOND)


class Calls:
    """Calls of a sampler before and after all others that a certificate makes."""

    def __init__(self, given: Mechanism | Sampler, S: PSD, look: Look) -> None:
        self.given, self.draw, self.S = given, as_sampler(given), S.dense()
        sizes = np.diagonal(self.S)
        unit = np.where(sizes > 0, 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0)), 0.0)
        base = np.zeros(len(unit)) if not look.places.size else look.places[0]
        if look.domain is not None:
            low, high = look.domain.T
            base, unit = low + 0.5 * (high - low), np.minimum(unit, 0.4 * (high - low))
        self.y, self.unit, self.rng = base + OFF * unit, unit, np.random.default_rng(17)
        channels = given.channels if isinstance(given, Componentwise) else ()
        slow = any(channel.costly_draws for channel in channels)
        self.slow = slow or isinstance(given, RunningMechanism)
        most = SLOW_CALLS if self.slow else CALLS
        self.sizes = SIZES[:1] if self.slow else SIZES
        self.calls = max(min(most, look.samples // SHARE if self.slow else look.samples), 2)
        numeric = [getattr(channel, "draws_from_density", False) for channel in channels]
        self.first = None  # drawn by numbers: no sampler of its own
        if not (numeric and all(numeric)):
            self.first = self._drawn(self.y, 3 * self.calls if self.slow else FIRST)

    def _drawn(self, y: Array, n: int) -> Array | None:
        """Draws; None where the sampler does not take y."""
        try:
            z = self.draw(y, self.rng, n)
        except Exception:  # the code of others
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
        """Patterns of low digits at y, and with one reading moved a little."""
        assert self.first is not None
        readings = np.flatnonzero(self.unit)[: 1 if self.slow else READINGS]
        for j, move in itertools.product(readings, MOVES):
            there = self.y.copy()
            there[j] += move * self.unit[j]
            other = self._drawn(there, len(self.first))
            if other is None:
                return found
            told = told_by_patterns(self.first, other, 1 - EACH)
            margin = 4 * told.apart / (self.S[j, j] * (move * self.unit[j]) ** 2)
            if margin > max(1.0, found.least):
                seen[DIGITS] = True
                said = f"Digits of the draws show reading {j}: {told.event}."
                return replace(
                    found, margin=margin, error=0.0, least=margin, worst_y=self.y, method="draws",
                    reasons=(*found.reasons, said), refuted=True,
                )  # fmt: skip
        seen[DIGITS] = True
        return found

    def _later(self, found: Finding, seen: dict[str, bool]) -> Finding:
        """Single calls and calls of other sizes, each next to the first call."""
        assert self.first is not None
        calls = self.calls
        kinds = {"single calls": [1] * calls}
        kinds |= {f"calls of {size} draws": [size] * (calls // size + 1) for size in self.sizes}
        for kind, sizes in kinds.items():
            parts = [self._drawn(self.y, size) for size in sizes]
            if any(part is None for part in parts):
                return found
            z = np.concatenate([part for part in parts if part is not None])
            wrong = self._wrong(z)
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
        shown = [self.y, *self._matrix(z.shape[1])]
        wide = max(float(np.ptp(self.first)), 1e-300)
        for values in shown:
            itself = _close(z, values, wide).any(axis=1)
            if itself.any() and not _close(self.first, values, wide).any():
                return f"call {int(np.argmax(itself)) + 1} of them shows a reading itself"
        for i in range(min(z.shape[1], COLUMNS)):
            p = scipy.stats.ks_2samp(z[:, i], self.first[:, i], method="asymp").pvalue
            if p < FALSE_ALARM:
                return f"the distribution of output {i} is another one"
        return None

    def _matrix(self, outputs: int) -> list[Array]:
        """What is shown of y before noise, where the mechanism says it."""
        matrix = getattr(self.given, "matrix", None)
        return [matrix @ self.y] if matrix is not None and len(matrix) == outputs else []

    def _global(self, found: Finding, seen: dict[str, bool]) -> Finding:
        """The same generator in several states of the global ones: the same draws."""
        kept, draws = (np.random.get_state(), random.getstate()), []  # noqa: NPY002
        try:
            for state in STATES:
                np.random.seed(state)  # noqa: NPY002 - what the code of others may use
                random.seed(state)
                draws.append(self.draw(self.y, np.random.default_rng(7), SIZES[0]))
        except Exception:  # the code of others
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
    """Whether outputs are one of the values, to rounding."""
    return np.asarray(np.abs(z[:, :, None] - values[:COLUMNS]).min(axis=2) <= AT_ITSELF * wide)


NOT_RELEASED = (GLOBAL, MORE, *BEYOND)  # what an audit of releases never examines


def excess_text(power: float) -> str:
    """What the draws would have shown, as an excess over the level."""
    if not math.isfinite(power):
        return (
            "No power is stated: how small an excess over the level the draws would have shown is "
            "not known."
        )
    if power <= 0:
        return (
            f"Draws that show more than the level would have been found with probability {POWER:g}."
        )
    return (
        f"Draws that show {power:.1%} more than the level would have been found with probability "
        f"{POWER:g}; a smaller excess may not have been."
    )
