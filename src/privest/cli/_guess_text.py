"""A plan where nobody states the noise variance of the readings: what is known all the same."""

from __future__ import annotations

from rich.table import Table

from privest.cli._console import new_table, shown
from privest.report import level_words
from privest.workflow import Plan


def guess_table(found: Plan) -> Table:
    """What privacy alone adds, exactly, and errors for three noise variances about that of it."""
    table = new_table(
        "Standard errors to expect (twice that is ± for 95 %)",
        "coefficient",
        "by privacy alone",
        *(f"σ² = {guess.noise_variance:.3g}" for guess in found.guesses),
    )
    for j, name in enumerate(found.names):
        errors = [found.privacy_error[j], *(one.standard_error[j] for one in found.guesses)]
        table.add_row(shown(name), *(f"{error:.4g}" for error in errors))
    return table


def guess_sentences(found: Plan) -> list[str]:
    """What the columns are, and that nothing else is needed."""
    ratios = ", ".join(
        f"{one.standard_error[0] / one.classical_error[0]:.3g}" for one in found.guesses
    )
    lines = [
        "The noise variance σ² of the readings (how much they vary where all features are equal) "
        "is not stated. The release will show it, and errors and intervals come from there. What "
        f"privacy adds is exact; the other columns are errors at {level_words(found.level)} if σ² "
        "is a third of the variance of the noise that is added to a reading, equal to it, or three "
        f"times it. They are then {ratios} times those without privacy."
    ]
    if found.rows <= len(found.names):
        lines.append(
            "There are as many coefficients as rows: nothing will be left over to see the noise "
            "by, and the estimate will have no errors. Take fewer features, or state σ²."
        )
    return lines
