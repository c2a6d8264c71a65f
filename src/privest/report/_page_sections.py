"""The report in words, for a reader who knows neither Fisher information nor least squares.

Short and true, what matters first: what was found, what it cost, what one person is exposed to,
where the numbers come from, what is not promised (docs/promise.md), how to repeat it. Nothing here
reads a measurement: every number is a release, or a function of public inputs.
"""

from __future__ import annotations

import numpy as np

from privest.report._coefficients import Coefficient, coefficients, open_errors
from privest.report._digits import (
    at_least,
    at_most,
    out_of,
    per_cent,
    plural,
    rounded,
    short,
    times,
)
from privest.report._exposure import exposure
from privest.report._facts import Facts, Outcome
from privest.report._finding import finding
from privest.report._origin import identity, origin
from privest.report._page import Commands, Note, Part, Section, TableBlock
from privest.report._pictures import intervals_picture, pair_picture, trail_picture
from privest.report._tradeoff import tradeoff_picture

SAME = 1.005  # errors that differ by less are the same to a reader


def story(facts: Facts) -> list[Section]:
    """The sections of the report."""
    return [*found(facts), *further(facts)]


def further(facts: Facts) -> list[Section]:
    """All but what was found."""
    more: list[Section] = []
    if facts.pair is not None:
        more.append(Section("Two coefficients together", (_PAIR, pair_picture(facts.pair))))
    if facts.trail is not None:
        picture = trail_picture(facts.trail, facts.outcomes[0].result.names)
        more.append(Section("How the estimates settled", (_TRAIL, picture)))
    if facts.levels:
        more.insert(0, Section("Privacy levels of the rows", (facts.levels,)))
    which = () if facts.provenance is None else (identity(facts.provenance),)
    said = _MADE if facts.simulated else f"{_MADE} {_REPEAT}"
    repeat = (said, Commands(tuple(facts.commands))) if facts.commands else ()
    return [
        Section("What it cost", _cost(facts)),
        Section("What one person is exposed to", _exposed(facts)),
        Section("Where the numbers come from", origin(facts)),
        *more,
        Section("What is not promised", _not_promised(facts.simulated)),
        *_last(which, repeat),
    ]


def _last(which: tuple[Part, ...], repeat: tuple[Part, ...]) -> list[Section]:
    """Which release it is and how to repeat it, as far as that is known."""
    said = [name for name, known in (("Which release this is", which), ("how to repeat it", repeat))
            if known]  # fmt: skip
    heading = ", and ".join(said)
    return [Section(heading[0].upper() + heading[1:], which + repeat)] if said else []


_PAIR = (
    "Errors of two coefficients may go together: if one is guessed too high, the other is then "
    "likely too low. Intervals one by one do not show that; the ellipse does."
)
_TRAIL = (
    "What an analyst would conclude who has only the first rows of the release, as more of them "
    "come in."
)
_MADE = "These commands made this page."
_REPEAT = (
    "The second one is for the data holder, and once: every further "
    "release of the same readings, with new noise, spends their privacy again, and a release that "
    "exists is not written over."
)


def found(facts: Facts) -> list[Section]:
    """One section a column; warnings stand in the first, where nobody can miss them."""
    sections = []
    for k, one in enumerate(facts.outcomes):
        parts: list[Part] = [finding(one, facts.confidence)]
        if k == 0:
            parts += _cautions(facts)
            if facts.joint is not None:
                parts.append(facts.joint)
            parts.append(_short(facts))
        if one.bounded:
            told = coefficients(one.result, one.scale, facts.confidence)
            parts.append(_table(one, told, facts))
            if k == 0:
                read = _READ.get(one.scale, _READ["none"])
                parts.append(read.format(many=out_of(facts.confidence)))
            parts.append(intervals_picture(told, one.scale, facts.confidence))
        heading = "What was found"
        sections.append(
            Section(
                heading if len(facts.outcomes) == 1 else f"{heading}: {one.response}", tuple(parts)
            )
        )
    return sections


def _cautions(facts: Facts) -> list[Part]:
    """What a reader must know before the numbers."""
    said: list[Part] = [Note(text, "warning") for one in facts.outcomes for text in one.doubts]
    if facts.simulated:
        said.append(
            Note(
                "The noise is simulated: this is a trial. It gives no protection: use this page to "
                "plan and to learn, and do not publish the release itself.",
                "warning",
            )
        )
    return said


def _short(facts: Facts) -> str:
    left = f" ({plural(facts.dropped, 'row')} left out)" if facts.dropped else ""
    whose = "" if facts.persons is None else f" of {facts.persons:,} people"
    return (
        f"It was estimated from {plural(facts.rows, 'row')}{whose}{left} that were released with "
        "noise; the readings themselves were not handed over."
    )


_READ = {
    "none": (
        "A coefficient says by how much the response changes when one quantity grows by one unit "
        "and the others stay as they are. (An intercept, if there is one, is the value when all "
        "others are zero.) The standard error is the typical distance of an estimate from the "
        "truth. If the model is right, {many} such intervals hold the true coefficient; an "
        "interval that holds zero leaves open which way the effect goes."
    ),
    "log": (
        "The response was modelled as its logarithm, so that effects are per cent: by how many per "
        "cent it changes when one quantity grows by one unit and the others stay as they are. (The "
        "intercept is a logarithm.) The standard error is that of the coefficient, a logarithm. If "
        "the model is right, {many} such intervals hold the truth; one that holds zero leaves "
        "open which way the effect goes."
    ),
    "binomial": (
        "The response is a yes or a no, and effects are those on its odds, in per cent, when one "
        "quantity grows by one unit and the others stay as they are. (The intercept and the "
        "standard errors are logarithms of odds.) If the model is right, {many} such intervals "
        "hold the truth; one that holds zero leaves open which way the effect goes."
    ),
    "poisson": (
        "The response is a count, and effects are in per cent of its expected number, when one "
        "quantity grows by one unit and the others stay as they are. (The intercept and the "
        "standard errors are logarithms.) If the model is right, {many} such intervals hold the "
        "truth; one that holds zero leaves open which way the effect goes."
    ),
}


def _table(one: Outcome, found: list[Coefficient], facts: Facts) -> TableBlock:
    """The digits of the figure and of the sentence."""
    plain = open_errors(one.result)
    wide = f"{per_cent(facts.confidence)} interval"
    header = ["coefficient", "estimate", wide, "standard error"]
    rows = [
        [c.name, c.value_text, c.interval_text, rounded(c.error, c.error)]
        + ([] if plain is None else [rounded(float(plain[j]), float(plain[j]))])
        for j, c in enumerate(found)
    ]
    return TableBlock(
        tuple(header if plain is None else [*header, "error, no privacy"]),
        [tuple(row) for row in rows],
        caption=f"“{one.response}”, from the release of {plural(facts.rows, 'row')}.",
    )


def _cost(facts: Facts) -> tuple[Part, ...]:
    parts: list[Part] = []
    for one in facts.outcomes:
        name = f"“{one.response}”: " if len(facts.outcomes) > 1 else ""
        parts.append(name + _price(one, facts.rows))
    parts.append(
        "Errors follow from public inputs and from the release, so showing them gives nothing away."
    )
    if facts.curve is not None:
        parts.append(tradeoff_picture(facts.curve, facts.outcomes[0].level))
    return tuple(parts)


def _price(one: Outcome, rows: int) -> str:
    """Errors with privacy compared with those without; so many rows would do without."""
    ratios = one.ratios
    if not one.bounded:
        return "There are no errors to compare with those without privacy."
    if ratios is None:
        return f"The errors above hold the noise that was added for privacy.{_by_noise(one)}"
    low, high = float(ratios.min()), float(ratios.max())
    if high < SAME:
        return "With privacy the standard errors are practically those without."
    many = " to ".join(dict.fromkeys(_count(rows / max(r, 1.0) ** 2) for r in (high, low)))
    start = "about as large as" if low < SAME else f"{short(low)} times"
    said = f"{times(low, high)} those" if low >= SAME else f"{start} to {short(high)} times those"
    return (
        f"With privacy the standard errors are {said} without. Seen the other way: "
        f"{plural(rows, 'row')} with privacy tell about as much as {many} such rows would without."
    )


def _by_noise(one: Outcome) -> str:
    """What the noise of the release adds, where errors without it are not known."""
    floor = one.result.floor
    if floor is None:
        return " What they would be without it the release does not tell."
    share = np.minimum((floor / one.result.standard_error) ** 2, 1.0)
    ends = dict.fromkeys(f"{100 * x:.0f}" for x in (float(share.min()), float(share.max())))
    if "100" in ends:
        return " It hides how the readings themselves scatter: without it errors would be far less."
    return (
        f" It makes {' to '.join(ends)} % of the variance of the estimates; the rest is how the "
        "readings scatter, and would be there without privacy."
    )


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"


def _exposed(facts: Facts) -> tuple[Part, ...]:
    """By what an attacker can do; ε comes last, where it was asked for."""
    parts: list[Part] = []
    at = "privacy levels per row, the largest of them" if facts.levels else "privacy level"
    for one in facts.outcomes:
        parts.append(
            f"“{one.response}” was released at {at} s = {short(one.level)} (larger shows "
            "more). An attacker who sees the whole release, knows all of this page and has any "
            "amount of computing time can do this with it:"
            if len(parts) == 0
            else f"“{one.response}”: privacy level s = {short(one.level)}."
        )
        parts += exposure(one.attacked)
        if one.informed is not None:
            parts.append(
                "Who also knows how the columns go together, and sees all of them, knows it to "
                f"± {at_least(one.informed)}."
            )
        if one.epsilon is not None and one.delta is not None and one.move is not None:
            parts.append(_differential(one, one.epsilon, one.delta, one.move))
    if facts.record is not None:
        epsilon, delta = facts.record
        parts.append(
            f"All {len(facts.outcomes)} readings of a person together, each changed as far as was "
            f"said above: ε = {at_most(epsilon)} at δ = {short(delta)}. That is the promise for "
            "the whole person."
        )
    return tuple(parts)


def _differential(one: Outcome, epsilon: float, delta: float, move: float) -> str:
    what = "every reading of one person" if one.whole else "one reading"
    power = int(np.ceil(epsilon / np.log(10.0)))
    factor = at_most(np.exp(epsilon)) if power <= 7 else f"a 1 with {power:,} zeros"
    rest = f", apart from δ = {short(delta)} of probability" if delta else ""
    return (
        f"In the language of differential privacy: if {what} is changed by at most "
        f"{short(move)}, then the probability of anything that can be seen in the release "
        f"changes by a factor of at most {factor} (that is e^ε with ε = {at_most(epsilon)}){rest}. "
        "A factor close to 1 is a strong promise, one of many thousands says little, and then the "
        "sentences above say what an attacker can really do. It is not about whether a row is in "
        "the data at all."
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
        "The features and a stated noise variance are public inputs: they are not protected at "
        "all, and they must not have been fitted on the private readings. So is which rows are "
        "there, and which readings are missing.",
        "A release does not make anybody forget: a person who knows that readings lie in a narrow "
        "range has a good guess before it, and a better one after.",
        "What the estimates say about everybody may say something about one person too, also about "
        "one who is not in the data. No privacy level prevents that; it limits what the release "
        "says about a reading beyond it.",
        "Every further release of the same readings adds up: two releases with independent noise "
        "at level s count as one at 2s. The same noise used twice can give the readings away.",
        "Errors and intervals hold if the model is right: a relation of the stated form, and rows "
        "that were chosen without regard to the readings.",
    )
