"""An audit of code that releases for real, as a black box: checks can break a claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privest.arrays import EPS, Array, ArrayLike
from privest.audit._attack import PAIRS, Task, learnt
from privest.audit._density import by_density
from privest.audit._sampler import compared
from privest.audit._terms import LIMIT, Look
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Mechanism
from privest.mechanism.running import RunningMechanism
from privest.records import Record

Release = Callable[[Array], ArrayLike]
Outcome = Literal["passed", "failed", "undecided"]
SPECIAL = {
    "infinity": math.inf, "-infinity": -math.inf, "NaN": math.nan,
    **{repr(value): value for value in (1e308, -1e308, 1e20, -1e20, 5e-324, -0.0)},
}  # fmt: skip
LEVELS = (1e-20, 1e20)  # of the first measurement: squares of what is estimated stay doubles
AGAIN = 8  # calls that must not all be the same
TRIALS = 2000  # of the attacker
DEVIATIONS = 5.0  # an attacker is called better than the level allows beyond so many errors
WHOLE = 2.0**53
SMALLEST_GRID = 1e-6  # of the spread of the outputs: finer ones are those of doubles
ROUNDINGS = 8  # of an output: n·unit, an offset, and the distance of two outputs


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
        checks += [_fresh(box), _grid(box, level, look.samples)]
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
    if _all_same(outputs):
        return "comes out without noise: every call gives the same"
    return None


def _all_same(outputs: list[Array]) -> bool:
    return len({z.tobytes() for z in outputs}) == 1


def _fresh(box: _Box) -> Check:
    claim, examined = "noise is fresh", f"{AGAIN} calls with the same measurements, none later"
    if _all_same([box.once(0.0) for _ in range(AGAIN)]):
        said = "every call gives the same: an attacker who knows the code can take the noise off"
        return Check(claim, "failed", said, examined)
    return Check(claim, "passed", f"{AGAIN} calls differ", examined)


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

    A grid that moves with the measurement reveals its digits. Outputs lie on it to rounding.
    Whole numbers have the step 1, however far apart they are.
    """
    steps, shared = [], True
    for i in range(every[0].shape[1]):
        if all(_are_whole(z[:, i]) for z in every):
            steps.append(1.0)
            continue
        column = np.unique(every[0][:, i])
        gaps = np.diff(column)
        wide = column[-1] - column[0]
        step = float(gaps.min()) if gaps.size else 0.0
        if not step > SMALLEST_GRID * wide:
            return 0.0, False
        # Averaged over the longest distance, a whole number of steps.
        step = wide / round(wide / step)
        size = np.abs(column).max()
        for z in (z[:, i] for z in every):
            n = (z - column[0]) / step
            rounding = ROUNDINGS * EPS * ((np.abs(z) + size) / step + np.abs(n) * size / wide)
            shared = shared and bool((np.abs(n - np.round(n)) <= rounding).all())
        steps.append(step)
    return min(steps), shared


def _are_whole(z: Array) -> bool:
    """Whether these are whole numbers that doubles hold exactly, and not all doubles are whole."""
    return bool(((z == np.trunc(z)) & (np.abs(z) < WHOLE)).all())


def _claimed(real: RunningMechanism, S: PSD, look: Look) -> Check:
    found = by_density(real, S, look)
    assert found is not None
    found = compared(real, S, found, look)
    kept = found.claimed <= LIMIT and found.sampler == "not broken"
    outcome: Outcome = "failed" if found.least > LIMIT else "passed" if kept else "undecided"
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
