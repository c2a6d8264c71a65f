"""What a privacy level promises and what it does not, in plain words (see docs/promise.md)."""

from __future__ import annotations

import math

from privest.report._digits import at_least, at_most, short
from privest.report._page import Note, Part, TableBlock


def promised(
    s: float,
    variance: float,
    response: str,
    epsilon: float | None,
    delta: float | None,
    move: float | None,
) -> tuple[Part, ...]:
    """The promise of the level S = s·I; σ² = `variance` is the noise variance of a reading.

    Unbiased adversary: standard deviation ≥ 1/√s. One who knows features and coefficients, hence
    y ~ N(hθ, σ²): root mean-square error ≥ 1/√(s + 1/σ²) (van Trees; the Gaussian release attains
    it), against σ without the release.
    """
    floor, scatter = 1 / math.sqrt(s), math.sqrt(variance)
    informed = 1 / math.sqrt(s + 1 / variance)
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
        f"one reading (“{response}” of one row). Take any method of guessing it from the release "
        "that is right on average, whatever the readings are. Its typical error (its standard "
        f"deviation) is at least 1/√s = {at_least(floor)}, however clever the method and however "
        "much computing it has.",
        f"For comparison: rows with the same features differ by chance, with a standard deviation "
        f"of {short(scatter)}. {_verdict(floor, scatter)}",
        "Somebody with knowledge from elsewhere starts from that knowledge, and the release adds "
        "to it. The table shows how much.",
        table,
    ]
    if epsilon is not None and delta is not None and move is not None:
        power = math.ceil(epsilon / math.log(10.0))
        factor = at_most(math.exp(epsilon)) if power <= 7 else f"a 1 with {power:,} zeros"
        parts.append(
            f"In the language of differential privacy: if one reading is changed by at most "
            f"{short(move)}, then the probability of anything that can be seen in the release "
            f"changes by a factor of at most {factor} (that is e^ε with ε = {at_most(epsilon)}), "
            f"apart from a probability of δ = {short(delta)} (one in {1 / delta:,.0f}). A factor "
            "close to 1 is a strong promise, one of many thousands a weak one. It holds for exact "
            "Gaussian noise and for a change of that size; it is not about whether a row is in "
            "the data at all."
        )
    return tuple(parts)


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


def not_promised(simulated: bool) -> tuple[Part, ...]:
    """The limits of the promise."""
    first: tuple[Part, ...] = (
        (
            Note(
                "No protection yet: in this version the noise is simulated by an ordinary, "
                "seedable random generator in floating point. Whoever knows the seed can take it "
                "off, and rounding gives something away besides. The promise above describes "
                "exact noise; this release does not have it.",
                "warning",
            ),
        )
        if simulated
        else (
            "This page cannot see how the noise was drawn: the promise is as good as the source "
            "of random numbers that the release used.",
        )
    )
    return (
        *first,
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
