"""An audit of code that releases for real, as a black box: checks can break a claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from privest.arrays import Array, ArrayLike
from privest.audit._attack import PAIRS, Task, learnt
from privest.audit._calls import events, seen_share, share_level, told_apart
from privest.audit._information import by_running
from privest.audit._terms import Look
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Mechanism
from privest.mechanism.affine import RunningMechanism
from privest.records import Record

Release = Callable[[Array], ArrayLike]
Outcome = Literal["passed", "failed", "undecided"]
SPECIAL = {
    "infinity": math.inf, "-infinity": -math.inf, "NaN": math.nan,
    **{repr(value): value for value in (1e308, -1e308, 1e20, -1e20, 5e-324, -0.0)},
}  # fmt: skip
LEVELS = (1e-20, 1e20)  # of the first measurement: squares of what is estimated stay doubles
AGAIN = 8  # calls that must not all be the same
NEAR = 0.1  # in units of 1/√S_11: neighbours that the level keeps together
TRIALS = 2000  # of the attacker
DEVIATIONS = 5.0  # an attacker is called better than the level allows beyond so many errors
SMALLEST_GRID = 1e-6  # of the spread of the outputs: finer ones are those of doubles
OFF_GRID = 2.0**-12  # of a step: rounding of n·unit for n up to 2^40


@dataclass(frozen=True)
class Check(Record):
    """One claim of a release: how it came out, what was found, and what was examined."""

    claim: str
    outcome: Outcome
    found: str
    examined: str

    def __str__(self) -> str:
        return f"{self.outcome.upper():9} {self.claim}: {self.found} [{self.examined}]"


def release_checks(release: Release | Mechanism, S: PSD, look: Look) -> tuple[Check, ...]:
    """Run code that releases for real, and try to break what it claims.

    values      ±∞, NaN and huge values come out as others do: no error, noise on them
    fresh       calls with the same measurements differ
    grid        outputs lie on one grid, whatever the measurements are
    low digits  no event of the low digits tells neighbours apart more than the level allows
    level       for running code with a claim: its noise is the one claimed
    attackers   no attacker who learns from 8000 pairs beats the van Trees bound of the level
    """
    box = _Box(release, S.size)
    level = float(S.dense()[0, 0])
    if not LEVELS[0] <= level <= LEVELS[1]:
        raise InvalidInput(
            f"an audit takes levels from {LEVELS[0]:g} to {LEVELS[1]:g} of the first measurement; "
            f"received {level:g}. State measurements, and the level, in other units."
        )
    checks = [_values(box)]
    if box.works:
        checks += [_fresh(box), _grid(box, level, look.samples), _low_digits(box, level, look)]
        if isinstance(release, RunningMechanism):
            checks.append(_claimed(release.real(), S, look))
        checks.append(_attackers(box, S.dense(), look.any_rng))
    return tuple(checks)


class _Box:
    """The code, run once for every release."""

    def __init__(self, release: Release | Mechanism, measurements: int) -> None:
        self.release = release.release if isinstance(release, Mechanism) else release
        self.measurements, self.works = measurements, True

    def once(self, value: float) -> Array:
        return np.asarray(self.many(value, 1)[0])

    def many(self, value: float, count: int) -> Array:
        """Outputs (count, q) for a first measurement, the others 0."""
        y = np.zeros((count, self.measurements))
        y[:, 0] = value
        return self.rows(y)

    def rows(self, given: Array) -> Array:
        found = np.asarray(self.release(given.copy()), dtype=np.float64)
        if found.ndim == 0 or len(found) != len(given):
            raise InvalidInput(
                f"the code must return one release per row, ({len(given)}, q); it returned shape "
                f"{found.shape}."
            )
        return found.reshape(len(given), -1)


def _values(box: _Box) -> Check:
    claim, examined = "no value is refused", f"first measurement {', '.join(SPECIAL)}"
    try:
        usual = box.once(0.0).shape
    except Exception as error:
        box.works = False
        return Check(claim, "failed", f"a value of 0 raises {type(error).__name__}", examined)
    for name, value in SPECIAL.items():
        try:
            outputs = [box.once(value) for _ in range(AGAIN)]
        except Exception as error:
            said = f"{name} raises {type(error).__name__}: that is an output without noise"
            return Check(claim, "failed", said, examined)
        wrong = _wrong_output(outputs, usual, value)
        if wrong is not None:
            return Check(claim, "failed", f"{name} {wrong}", examined)
    return Check(claim, "passed", "outputs of the usual shape, with noise", examined)


def _wrong_output(outputs: list[Array], usual: tuple[int, ...], value: float) -> str | None:
    if math.isnan(value):  # missing, which is public
        return None
    if any(z.shape != usual for z in outputs):
        return "changes how many numbers come out"
    if not all(np.isfinite(z).all() for z in outputs):
        return "comes out as infinite or NaN: it is seen without noise"
    if all(np.array_equal(z, outputs[0]) for z in outputs):
        return "comes out without noise: every call gives the same"
    return None


def _fresh(box: _Box) -> Check:
    claim, examined = "noise is fresh", f"{AGAIN} calls with the same measurements, none later"
    first = [box.once(0.0) for _ in range(AGAIN)]
    if all(np.array_equal(z, first[0]) for z in first):
        said = "every call gives the same: an attacker who knows the code can take the noise off"
        return Check(claim, "failed", said, examined)
    return Check(claim, "passed", f"{AGAIN} calls differ", examined)


def _low_digits(box: _Box, level: float, look: Look) -> Check:
    far, count = 1 / math.sqrt(level), look.samples
    at_0, at_near, at_far = (box.many(v, count) for v in (0.0, NEAR * far, far))
    # What a release may multiply the measurement by before it adds noise.
    gains = (1.0, math.sqrt(level))
    near, away = (
        events(at_0, z, [(0.0, gain * v) for gain in gains])
        for z, v in ((at_near, NEAR * far), (at_far, far))
    )
    told = told_apart(near, count, look.confidence)
    impossible = max(told.impossible, told_apart(away, count, look.confidence).impossible)
    allowed, claim = NEAR**2 / 4, "low digits tell nothing"
    seen = seen_share(count, share_level(near, look.confidence))
    examined = (
        f"{count} outputs each at 0 and at {NEAR:g} and 1 deviations of the level; a mark of "
        f"{seen:.1g} of the outputs would be seen; digits of y + noise, multiples of powers of two"
    )
    share = f"{impossible:.1%} of the outputs are impossible for a neighbouring measurement"
    if told.apart > allowed:
        said = (
            f"{share}; {told.event}: Hellinger distance at least {told.apart:.2g}, the level "
            f"allows {allowed:.2g}"
        )
        return Check(claim, "failed", said, examined)
    return Check(claim, "undecided" if impossible > 0 else "passed", share, examined)


def _grid(box: _Box, level: float, count: int) -> Check:
    size, each = 1 / math.sqrt(level), max(count // 4, 1000)
    values = (0.0, size / 3, 7.7 * size, -1000.1 * size)
    step, shared = common_grid([box.many(v, each) for v in values])
    claim = "one grid for all measurements"
    examined = f"{each} outputs at each of {len(values)} measurements"
    if step == 0.0:
        said = "no grid is seen: the low digits are those of floating-point arithmetic"
        return Check(claim, "failed", said, examined)
    if not shared:
        said = f"the grid of steps {step:.4g} moves with the measurement, and reveals its digits"
        return Check(claim, "failed", said, examined)
    return Check(claim, "passed", f"all outputs lie whole steps of {step:.6g} apart", examined)


def common_grid(every: list[Array]) -> tuple[float, bool]:
    """The step of the grid of the first outputs (0: none is seen), and whether all share it.

    A grid that moves with the measurement reveals its digits.
    """
    steps, shared = [], True
    for i in range(every[0].shape[1]):
        column = np.unique(every[0][:, i])
        gaps = np.diff(column)
        wide = column[-1] - column[0]
        step = float(gaps.min()) if gaps.size else 0.0
        if not step > SMALLEST_GRID * wide:
            return 0.0, False
        # Averaged over the longest distance, a whole number of steps.
        step = wide / round(wide / step)
        parts = [(z[:, i] - column[0]) / step for z in every]
        shared = shared and max(np.abs(x - np.round(x)).max() for x in parts) < OFF_GRID
        steps.append(step)
    return min(steps), shared


def _claimed(real: RunningMechanism, S: PSD, look: Look) -> Check:
    found = by_running(real, S, replace(look, generator=look.any_rng))
    kept = found.claimed <= 1 and not found.refuted
    outcome: Outcome = "failed" if found.least > 1 else "passed" if kept else "undecided"
    said = f"information {found.margin:.3g} of the level, by its claim and its noise"
    return Check("the level holds", outcome, said, " ".join(found.reasons))


def _attackers(box: _Box, S: Array, rng: np.random.Generator) -> Check:
    variance = 1 / S[0, 0]
    floor = float(np.linalg.inv(S + np.eye(len(S)) / variance)[0, 0])
    task = Task(np.zeros(box.measurements), None, (0.0, variance), TRIALS, rng)
    averaged = learnt(lambda rows, rng: box.rows(rows), task)[0].there
    assert averaged is not None
    mse, doubt = averaged.mse, averaged.mse_error
    said = (
        f"the first measurement is guessed with a mean-square error of {mse:.3g}, s.e. "
        f"{doubt:.1g}; the level allows none below {floor:.3g}"
    )
    outcome: Outcome = "failed" if mse + DEVIATIONS * doubt < floor else "passed"
    examined = f"learnt from {PAIRS} pairs, {TRIALS} trials, measurements from a normal prior"
    return Check("attackers stay above the floor", outcome, said, examined)
