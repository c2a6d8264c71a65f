"""An audit of code that releases for real, as a black box: readings in, numbers out.

Nothing is known of how it works. Each check says what it examined, with how many runs, and what it
would have seen; what was not examined is not said to be well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_confidence, as_count
from privest.audit._attack import PAIRS, Task, learnt
from privest.audit._calls import NOT_RELEASED
from privest.audit._certificate import certify
from privest.audit._low_digits import common_grid, share_interval, told_apart
from privest.errors import InvalidInput
from privest.mechanism import RunningMechanism
from privest.privacy import PrivacyLevel, as_level
from privest.records import Record

Release = Callable[[Array], ArrayLike]
Outcome = Literal["passed", "failed", "undecided"]
SPECIAL = {
    "infinity": math.inf, "-infinity": -math.inf, "NaN": math.nan,
    **{repr(value): value for value in (1e308, -1e308, 1e20, -1e20, 5e-324, -0.0)},
}  # fmt: skip
LEVELS = (1e-20, 1e20)  # of the first reading: squares of what is measured stay doubles
AGAIN = 8  # calls that must not all be the same
NEAR = 0.1  # of 1/√S_11: neighbours that the level keeps together
TRIALS = 2000  # of the attacker
DEVIATIONS = 5.0  # an attacker is called better than the level allows beyond so many errors


@dataclass(frozen=True)
class Check(Record):
    """One claim of a release: how it came out, what was found, and what was examined."""

    claim: str
    outcome: Outcome
    found: str
    examined: str


@dataclass(frozen=True)
class ReleaseAudit(Record):
    """What an audit of a release found.

    bool(audit): no claim failed where it was examined. `impossible`: the share of outputs of one
    reading that a neighbouring reading cannot have led to, as far as low digits tell.
    """

    releaser: str
    readings: int
    samples: int
    confidence: float
    impossible: float
    checks: tuple[Check, ...]

    @property
    def not_examined(self) -> tuple[str, ...]:
        """What an audit of releases says nothing of: always the same list."""
        return NOT_RELEASED

    @property
    def failed(self) -> tuple[Check, ...]:
        """The claims that do not hold."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    def __bool__(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        head = f"{self.releaser}: "
        head += (
            f"FAILED, {len(self.failed)} of {len(self.checks)} claims do not hold."
            if self.failed
            else "no claim failed where it was examined."
        )
        lines = [
            f"  {check.outcome.upper():9} {check.claim}: {check.found} [{check.examined}]"
            for check in self.checks
        ]
        return "\n".join([head, *lines, f"  Not examined: {'; '.join(self.not_examined)}."])


def audit_release(
    release: Release | RunningMechanism,
    level: PrivacyLevel | ArrayLike,
    *,
    readings: int | None = None,
    rng: np.random.Generator | None = None,
    many: Release | None = None,
    restarted: Callable[[], Release] | None = None,
    mu: float | None = None,
    ends: tuple[float, float] | None = None,
    information: bool = True,
    samples: int = 10_000,
    confidence: float = 0.999,
    name: str | None = None,
) -> ReleaseAudit:
    """Run code that releases for real, and try to break what it claims.

    `release(y)` takes readings (m,), m = `readings`, and returns numbers (q,); it may be a
    `RunningMechanism`, whose real path is run and whose claims are tested too. `level`: what it
    claims, I_z(y) ≤ S, in the units of y. `restarted()` gives the code as after a restart.
    `many(rows)`: the same for rows of readings (n, m) at once, (n, q), where calls are slow.
    `rng` chooses where to look (None: a fixed one); the code's noise is its own.

    values     ±∞, NaN and huge readings come out as others do: no error, noise on them
    fresh      calls with the same readings differ, after a restart too
    grid       outputs lie on one grid, whatever the readings are
    low digits no event of the low digits tells neighbours apart more than the level allows
    level      `certify`: lower bounds of the information, or tests of the noise that is claimed
    attackers  no attacker who learns from 8000 pairs beats the van Trees bound of the level
    ends       with `mu` and `ends`: the first reading at one end is told from the other by no test
               better than two normal laws μ apart (Gaussian differential privacy)

    `not_examined` lists what is not. Runs: about 350,000 for the level, which `information=False`
    leaves out; 12,000 of the attacker; 11·`samples` for the rest.

    >>> naive = naive_release(1.0)
    >>> found = audit_release(naive, 1.0, many=naive, samples=1000)
    >>> bool(found), found.impossible > 0.1
    (False, True)
    """
    if isinstance(release, RunningMechanism):
        readings = release.readings
    elif not callable(release):
        raise InvalidInput(
            "audit the function that releases, y to numbers, with all other values fixed: not a "
            f"{type(release).__name__}."
        )
    if (mu is None) != (ends is None):
        raise InvalidInput("mu is about two values: give both mu and ends, or neither.")
    box = _Box(release, as_count(1 if readings is None else readings, "readings", least=1), many)
    count, sure = as_count(samples, "samples", least=1000), as_confidence(confidence)
    rng = np.random.default_rng(13) if rng is None else rng
    S = as_level(level).dense(box.readings)
    if not S[0, 0] > 0:
        raise InvalidInput("the first reading is at level 0: nothing is released of it to audit.")
    if not LEVELS[0] <= S[0, 0] <= LEVELS[1]:
        raise InvalidInput(
            f"an audit measures levels from {LEVELS[0]:g} to {LEVELS[1]:g}; received {S[0, 0]:g}. "
            "State the readings, and the level, in other units."
        )
    checks = [_values(box)]
    impossible = 0.0
    if box.works:
        checks.append(_fresh(box, restarted))
        impossible, told = _low_digits(box, S, count, sure)
        checks += [_grid(box, S, count), told]
        if information:
            checks.append(_level(box, S, count, sure, rng))
        checks.append(_attackers(box, S, rng))
        if mu is not None and ends is not None:
            checks.append(_ends(box, mu, ends, count, sure))
    stated = name or getattr(release, "name", None) or repr(release)
    return ReleaseAudit(stated, box.readings, count, sure, impossible, tuple(checks))


def naive_release(level: float) -> Callable[[Array], Array]:
    """y + e/√s with numpy's normal numbers e: what an audit must not let pass. No protection."""
    generator = np.random.default_rng()

    def release(y: Array) -> Array:
        return np.asarray(y + generator.standard_normal(np.shape(y)) / math.sqrt(level))

    return release


class _Box:
    """The code, run once for every release."""

    def __init__(
        self, release: Release | RunningMechanism, readings: int, many: Release | None = None
    ) -> None:
        self.mechanism = release.real() if isinstance(release, RunningMechanism) else None
        self.release = release.release if isinstance(release, RunningMechanism) else release
        self.readings, self.many = readings, many
        self.works = True

    def once(self, y: Array) -> Array:
        found = np.asarray(self.release(y.copy()), dtype=np.float64)
        return found.reshape(-1)

    def draw(self, y: Array, rng: object, n: int) -> Array:
        """As `certify` takes a sampler; the generator is not the code's."""
        return self.rows(np.broadcast_to(y, (n, self.readings)))

    def rows(self, given: Array) -> Array:
        """The outputs (n, q) of rows of readings (n, m)."""
        if self.many is None:
            return np.stack([self.once(y) for y in given])
        return np.asarray(self.many(given), dtype=np.float64).reshape(len(given), -1)

    def at(self, value: float) -> Array:
        """Readings 0, the first of them this value."""
        y = np.zeros(self.readings)
        y[0] = value
        return y


def _values(box: _Box) -> Check:
    claim, examined = "no value is refused", f"first reading {', '.join(SPECIAL)}"
    try:
        usual = box.once(box.at(0.0)).shape
    except Exception as error:
        box.works = False
        return Check(claim, "failed", f"a reading of 0 raises {type(error).__name__}", examined)
    for name, value in SPECIAL.items():
        try:
            outputs = [box.once(box.at(value)) for _ in range(AGAIN)]
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


def _fresh(box: _Box, restarted: Callable[[], Release] | None) -> Check:
    claim = "noise is fresh"
    y = box.at(0.0)
    first = [box.once(y) for _ in range(AGAIN)]
    examined = f"{AGAIN} calls with the same readings"
    if all(np.array_equal(z, first[0]) for z in first):
        said = "every call gives the same: whoever knows the code can take the noise off"
        return Check(claim, "failed", said, examined)
    if restarted is None:
        said = f"{AGAIN} calls differ"
        return Check(claim, "passed", said, f"{examined}, none later; no restart was tried")
    runs = []
    for _ in range(2):
        box_again = _Box(restarted(), box.readings)
        runs.append(np.stack([box_again.once(y) for _ in range(AGAIN)]))
    examined += ", twice after a fresh start"
    if np.array_equal(runs[0], runs[1]):
        said = "a restart repeats the same numbers: the noise has a seed"
        return Check(claim, "failed", said, examined)
    return Check(claim, "passed", f"{AGAIN} calls differ, after a restart too", examined)


def _gains(S: Array) -> list[float]:
    """What a release may multiply the first reading by before it adds noise."""
    return [1.0, math.sqrt(S[0, 0])]


def _low_digits(box: _Box, S: Array, count: int, confidence: float) -> tuple[float, Check]:
    far = 1 / math.sqrt(S[0, 0])
    at_0, at_near, at_far = (box.draw(box.at(v), None, count) for v in (0.0, NEAR * far, far))
    shown = {v: [(0.0, gain * v) for gain in _gains(S)] for v in (NEAR * far, far)}
    near = told_apart(at_0, at_near, shown[NEAR * far], confidence)
    impossible = max(near.impossible, told_apart(at_0, at_far, shown[far], confidence).impossible)
    allowed = NEAR**2 / 4
    claim = "low digits tell nothing"
    examined = (
        f"{count} outputs each at 0 and at {NEAR:g} and 1 deviations of the level; a mark of "
        f"{near.seen:.1g} of the outputs would be seen; digits of y + noise, multiples of powers "
        "of two"
    )
    share = f"{impossible:.1%} of the outputs are impossible for a neighbouring reading"
    if near.apart > allowed:
        said = (
            f"{share}; {near.event}: Hellinger distance at least {near.apart:.2g}, the level "
            f"allows {allowed:.2g}"
        )
        return impossible, Check(claim, "failed", said, examined)
    if impossible > 0:
        return impossible, Check(claim, "undecided", share, examined)
    return impossible, Check(claim, "passed", share, examined)


def _grid(box: _Box, S: Array, count: int) -> Check:
    size = 1 / math.sqrt(S[0, 0])
    values = (0.0, size / 3, 7.7 * size, -1000.1 * size)
    each = max(count // 4, 1000)
    step, shared = common_grid([box.draw(box.at(v), None, each) for v in values])
    claim, examined = (
        "one grid for all readings",
        f"{each} outputs at each of {len(values)} readings",
    )
    if step == 0.0:
        said = "no grid is seen: the low digits are those of floating-point arithmetic"
        return Check(claim, "failed", said, examined)
    if not shared:
        said = f"the grid of steps {step:.4g} moves with the reading, and shows its digits"
        return Check(claim, "failed", said, examined)
    return Check(claim, "passed", f"all outputs lie whole steps of {step:.6g} apart", examined)


def _level(
    box: _Box, S: Array, count: int, confidence: float, rng: np.random.Generator
) -> Check:  # fmt: skip
    if box.mechanism is not None:
        found = certify(box.mechanism, S, samples=2 * count, rng=rng, confidence=confidence)
    else:
        found = certify(
            lambda y, rng, n: box.draw(y, rng, n), S, search=np.zeros((1, box.readings)),
            samples=max(count // 4, 1000), rng=rng, confidence=confidence,
        )  # fmt: skip
    outcome: Outcome = {"holds": "passed", "violated": "failed", "undecided": "undecided"}[
        found.verdict
    ]  # type: ignore[assignment]
    said = f"information {found.margin:.3g} of the level" + (
        f" ± {found.error:.1g}" if math.isfinite(found.error) and found.error > 0 else ""
    )
    if found.verdict == "undecided":
        said += "; no violation was found, and draws alone exclude none"
    draws = "" if box.mechanism is not None else f"{max(count // 4, 1000)} draws a place. "
    return Check("the level holds", outcome, said, draws + " ".join(found.reasons))


def _attackers(box: _Box, S: Array, rng: np.random.Generator) -> Check:
    variance = 1 / S[0, 0]
    floor = float(np.linalg.inv(S + np.eye(len(S)) / variance)[0, 0])
    task = Task(np.zeros(box.readings), None, (0.0, variance), TRIALS, rng)
    averaged = learnt(lambda rows, rng: box.rows(rows), task)[0].there
    assert averaged is not None
    mse, doubt = averaged.mse, averaged.mse_error
    said = (
        f"the first reading is guessed with a mean-square error of {mse:.3g} ± {doubt:.1g}; the "
        f"level allows none below {floor:.3g}"
    )
    outcome: Outcome = "failed" if mse + DEVIATIONS * doubt < floor else "passed"
    examined = f"learnt from {PAIRS} pairs, {TRIALS} trials, readings from a normal prior"
    return Check("attackers stay above the floor", outcome, said, examined)


def _ends(
    box: _Box, mu: float, ends: tuple[float, float], count: int, confidence: float
) -> Check:  # fmt: skip
    """A test learnt from half of the outputs, judged on the others: Φ⁻¹(p) − Φ⁻¹(q) ≤ μ.

    p and q: how often it says "the second end" there and at the first, by Clopper and Pearson.
    """
    learnt_from, judged = zip(*(np.split(box.draw(box.at(v), None, 2 * count), 2) for v in ends))
    spread = sum(np.atleast_2d(np.cov(z.T)) for z in learnt_from)
    gap = learnt_from[1].mean(axis=0) - learnt_from[0].mean(axis=0)
    # A little more spread: outputs without noise are told apart along the gap itself.
    little = 1e-12 * (np.trace(spread) + gap @ gap) + np.finfo(float).tiny
    toward = np.linalg.solve(spread + little * np.eye(len(gap)), gap)
    middle = float(np.mean([z.mean(axis=0) for z in learnt_from], axis=0) @ toward)
    level = (1 - confidence) / 2
    least, most = (share_interval(z @ toward > middle, level) for z in judged)
    proved = float(scipy.special.ndtri(most[0]) - scipy.special.ndtri(least[1]))
    said = f"a test proves μ ≥ {max(proved, 0.0):.3g}; {mu:.3g} is stated"
    examined = f"a linear test, learnt from and judged on {count} outputs at each end"
    outcome: Outcome = "failed" if proved > mu else "passed"
    return Check("the ends are as hard to tell apart as stated", outcome, said, examined)
