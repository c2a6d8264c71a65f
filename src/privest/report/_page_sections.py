"""The report in words, for a reader who knows neither Fisher information nor least squares.

Short and true: what was found, what privacy cost, what is promised, what is not (docs/promise.md),
how to repeat it. Nothing here reads a measurement: every number is a release, or a function of
public inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, as_positive
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.privacy import Range
from privest.records import quantile
from privest.report._digits import at_least, at_most, plural, rounded, short, span
from privest.report._page import Commands, Note, Part, Section, TableBlock
from privest.report._pictures import (
    errors_of,
    intervals_picture,
    pair_picture,
    trail_picture,
)
from privest.report._streams import Trail
from privest.report._tradeoff import Curve, tradeoff_picture


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """What a report tells: one private linear regression at the level S = s·I.

    response        what was measured; noise_variance: σ² of a reading given its features.
    result          the private estimate, with its covariance and the one without privacy.
    level, rows     s and K; `dropped` rows were left out, for missing values.
    doubt           what the estimate says against itself, if anything.
    epsilon, delta, move: together or not at all; of the Gaussian release when one reading moves by
                    at most `move`.
    limits, clipped the public range of the readings, and the share that it clipped, by the fit.
    pair            the result of two coefficients; with it, curve and trail, the ellipses, the
                    trade-off and the stream are told as well.
    """

    response: str
    result: Result
    level: float
    rows: int
    noise_variance: float
    simulated: bool
    commands: Sequence[str]
    dropped: int = 0
    doubt: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    move: float | None = None
    limits: Range | None = None
    clipped: float | None = None
    curve: Curve | None = None
    pair: Result | None = None
    trail: Trail | None = None

    def __post_init__(self) -> None:
        as_positive(self.level, "level")
        as_positive(self.noise_variance, "noise_variance")
        if self.rows < 1:
            raise InvalidInput(f"rows must be at least 1; received {self.rows}.")
        if len({x is None for x in (self.epsilon, self.delta, self.move)}) > 1:
            raise InvalidInput("epsilon, delta and move belong together: give all three or none.")
        if len(self.commands) == 0:
            raise InvalidInput("commands must hold at least one line: how to repeat this report.")

    @property
    def ratios(self) -> Array:
        """(n,): standard errors with privacy over those without."""
        private, plain = errors_of(self.result)
        return np.asarray(private / plain)


def story(facts: Facts) -> list[Section]:
    """The sections of the report."""
    more: list[Section] = []
    if facts.pair is not None:
        more.append(Section("Two coefficients together", (_PAIR, pair_picture(facts.pair))))
    if facts.trail is not None:
        picture = trail_picture(facts.trail, facts.result.names)
        more.append(Section("How the estimates settled", (_TRAIL, picture)))
    return [
        Section("In short", _in_short(facts)),
        Section("What was found", _found(facts)),
        Section("What privacy cost", _cost(facts)),
        *more,
        Section("What is promised", _promised(facts)),
        Section("What is not promised", _not_promised(facts.simulated)),
        Section("Repeat it", (_REPEAT, Commands(tuple(facts.commands)))),
    ]


_PAIR = (
    "Errors of two coefficients may go together: if one is guessed too high, the other is then "
    "likely too low. Intervals one by one do not show that; the ellipse does."
)
_TRAIL = (
    "The readings were released one after another. An analyst who sees only the releases gets "
    "these estimates as they come in."
)
_REPEAT = (
    "These commands made this page. The second one is for the data holder, and once: every further "
    "release of the same readings, with new noise, spends their privacy again, and a release that "
    "exists is not written over."
)


def _in_short(facts: Facts) -> tuple[Part, ...]:
    left = (
        f" ({plural(facts.dropped, 'row')} with missing values left out)" if facts.dropped else ""
    )
    lines: list[Part] = [
        f"This page reports how “{facts.response}” depends on other quantities, estimated from "
        f"{plural(facts.rows, 'row')} of data{left}. The readings themselves were not handed over: "
        "noise was added first, as much as a chosen privacy level asks for, and the estimates were "
        "computed from what came out.",
        "The chosen level promises that nobody who sees the release can work out a single reading, "
        "by a method that is right on average, with a typical error below "
        f"{at_least(1 / np.sqrt(facts.level))}. In return the errors of the estimates are "
        f"{span(facts.ratios)} what they would be without privacy.",
    ]
    if facts.doubt is not None:
        lines.append(Note(facts.doubt, "warning"))
    if facts.simulated:
        lines.append(
            Note(
                "The noise is simulated: this is a trial. It gives no protection: use this page to "
                "plan and to learn, and do not publish the release itself.",
                "warning",
            )
        )
    return tuple(lines)


def _found(facts: Facts) -> tuple[Part, ...]:
    response, result = facts.response, facts.result
    private, plain = errors_of(result)
    q = quantile(CONFIDENCE, result.degrees_of_freedom)
    table = TableBlock(
        ("coefficient", "private estimate", "standard error", "95 % interval", "error, no privacy"),
        [
            (
                name,
                rounded(v, e),
                rounded(e, e),
                f"{rounded(v - q * e, e)} to {rounded(v + q * e, e)}",
                rounded(e0, e0),
            )
            for name, v, e, e0 in zip(result.names, result.estimate, private, plain)
        ],
        caption=f"Coefficients for “{response}”, from the release of {plural(facts.rows, 'row')}.",
    )
    return (
        f"A coefficient says by how much “{response}” changes when one quantity grows by one unit "
        "and the others stay as they are. (An intercept, if there is one, is the value when all "
        "others are zero.) The standard error is the typical distance of an estimate from the "
        "truth. If the model is right, 95 of 100 such intervals hold the true coefficient; an "
        "interval that holds zero leaves open which way the effect goes.",
        table,
        intervals_picture(result),
    )


def _cost(facts: Facts) -> tuple[Part, ...]:
    ratios = facts.ratios
    left = facts.rows / ratios**2  # variances go down as 1/rows
    low, high = (f"{x:,.0f}" if x >= 10 else f"{x:.2g}" for x in (left.min(), left.max()))
    many = low if low == high else f"{low} to {high}"
    parts: list[Part] = [
        f"With privacy the standard errors are {span(ratios)} those without. Seen the other way: "
        f"{plural(facts.rows, 'row')} with privacy tell about as much as {many} such rows would "
        "without.",
        "Both kinds of error follow from the features, the noise variance and the privacy level, "
        "never from the readings, so showing them gives nothing away."
        if facts.clipped is None
        else "Errors follow from public inputs and from the release, never from the readings "
        "themselves, so showing them gives nothing away.",
    ]
    if facts.clipped is not None and facts.limits is not None:
        parts.append(
            f"Readings below {short(facts.limits.low)} or above {short(facts.limits.high)} were "
            "released as if they lay at that end of the range, which is public; by the fit that is "
            f"{short(100 * facts.clipped)} % of them. The estimates allow for it, and their errors "
            "hold what it costs."
        )
    if facts.curve is not None:
        curve = facts.curve.through(facts.level, errors_of(facts.result)[0])
        parts.append(tradeoff_picture(curve, facts.level))
    return tuple(parts)


def _promised(facts: Facts) -> tuple[Part, ...]:
    """The promise of the level S = s·I; σ² is the noise variance of a reading.

    Unbiased adversary: standard deviation ≥ 1/√s. One who knows features and coefficients, hence
    y ~ N(hθ, σ²): root mean-square error ≥ 1/√(s + 1/σ²) (van Trees; the Gaussian release attains
    it), against σ without the release.
    """
    s, variance = facts.level, facts.noise_variance
    floor, scatter = 1 / np.sqrt(s), np.sqrt(variance)
    informed = 1 / np.sqrt(s + 1 / variance)
    table = TableBlock(
        ("who guesses", "without the release", "with it, at best"),
        [
            ("one who relies on the release alone", "no guess", f"± {at_least(floor)}"),
            (
                "one who also knows features and true coefficients",
                f"± {short(scatter)}",
                f"± {at_least(informed)}",
            ),
        ],
        caption=(
            "Typical error (root of the mean square) of guesses of one reading, in its own units. "
            "Second row: if readings scatter around the model by a normal law."
        ),
    )
    parts: list[Part] = [
        f"The privacy level is s = {short(s)}. It limits how sharply the release can point at any "
        f"one reading (“{facts.response}” of one row). Take any method of guessing it from the "
        "release that is right on average, whatever the readings are. Its typical error (its "
        f"standard deviation) is at least 1/√s = {at_least(floor)}, however clever the method and "
        "however much computing it has.",
        f"For comparison: rows with the same features differ by chance, with a standard deviation "
        f"of {short(scatter)}. {_verdict(floor, scatter)}",
        "Somebody with knowledge from elsewhere starts from that knowledge, and the release adds "
        "to it. The table shows how much.",
        table,
    ]
    if facts.epsilon is not None and facts.delta is not None and facts.move is not None:
        parts.append(_differential(facts.epsilon, facts.delta, facts.move))
    return tuple(parts)


def _differential(epsilon: float, delta: float, move: float) -> str:
    power = int(np.ceil(epsilon / np.log(10.0)))
    factor = at_most(np.exp(epsilon)) if power <= 7 else f"a 1 with {power:,} zeros"
    return (
        f"In the language of differential privacy: if one reading is changed by at most "
        f"{short(move)}, then the probability of anything that can be seen in the release "
        f"changes by a factor of at most {factor} (that is e^ε with ε = {at_most(epsilon)}), "
        f"apart from a probability of δ = {short(delta)} (one in {1 / delta:,.0f}). A factor "
        "close to 1 is a strong promise, one of many thousands a weak one. It holds for exact "
        "Gaussian noise and for a change of that size; it is not about whether a row is in "
        "the data at all."
    )


def _verdict(floor: float, scatter: float) -> str:
    ratio = floor / scatter
    if ratio >= 1:
        return (
            f"The promised error is {short(ratio)} times that: the release alone says less about "
            "one reading than its features and the true model do."
        )
    return (
        f"The promised error is only {short(ratio)} times that: the release alone can say more "
        "about one reading than its features and the true model do. A smaller s promises more."
    )


def _not_promised(simulated: bool) -> tuple[Part, ...]:
    """The limits of the promise."""
    drawn: Part = (
        "The header says that the noise is exact, on a grid, from the entropy of the operating "
        "system. This page cannot see how it was drawn: the promise is as good as that source and "
        "the machine that drew it. How long the release took is not part of the promise."
    )
    if simulated:
        drawn = Note(
            "No protection: the noise of this trial is simulated by an ordinary, seedable random "
            "generator in floating point. Whoever knows the seed can take it off, and rounding "
            "gives something away besides. The promise above describes exact noise; this release "
            "does not have it.",
            "warning",
        )
    return (
        drawn,
        "The features and the noise variance are public inputs: they are not protected at all, and "
        "they must not have been fitted on the private readings. So is which rows are there, and "
        "which readings are missing.",
        "The promise bounds guesses that are right on average. It does not make anybody forget: a "
        "person who knows that readings lie in a narrow range has a good guess before any release.",
        "What the estimates say about everybody may say something about one person too, also about "
        "one who is not in the data. No privacy level prevents that; it limits what the release "
        "says about a reading beyond it.",
        "Every further release of the same readings adds up: two releases with independent noise "
        "at level s count as one at 2s. The same noise used twice can give the readings away.",
        "Errors and intervals hold if the model is right: a straight-line relation, and noise of "
        "the stated variance.",
    )
