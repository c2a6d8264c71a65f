"""Where the numbers of a report come from: rows, noise, errors, the release and its ledger."""

from __future__ import annotations

from privest.report._digits import freedom_text, plural, short
from privest.report._facts import Facts, Outcome, Provenance
from privest.report._page import Note, Part, TableBlock


def origin(facts: Facts) -> tuple[Part, ...]:
    """Rows used and left out, the noise variance, how errors were made, what does not fit."""
    parts: list[Part] = [_rows(facts)]
    parts += [text for text in (facts.people, facts.weights) if text is not None]
    several = len(facts.outcomes) > 1
    for one in facts.outcomes:
        name = f"“{one.response}”: " if several else ""
        said = (
            _noise(one),
            _errors(one),
            one.ranged if one.bounded else None,
            one.remark,
            one.checked,
        )
        parts += [name + text for text in said if text is not None]
        parts += [Note(name + text, "warning") for text in one.doubts]
    if not any(one.doubts for one in facts.outcomes):
        parts.append(
            "No warning came up. That does not show that the model is right: a check sees only "
            "some of what may be wrong."
        )
    return tuple(parts)


def _rows(facts: Facts) -> str:
    if not facts.dropped:
        return f"{plural(facts.rows, 'row')}; none was left out."
    return (
        f"{plural(facts.rows, 'row')}. {plural(facts.dropped, 'row')} left out because a reading "
        "or a feature was missing. If they are missing for a reason that has to do with the "
        "readings, what was found may not hold for them; that they are missing is public."
    )


def _noise(one: Outcome) -> str | None:
    """Where σ² is from; a count has none of its own."""
    if one.family == "binomial":
        return "How answers scatter follows from how likely a yes is: nobody had to state it."
    if one.family != "gaussian":
        return None
    if one.noise_variance is None:
        found = "." if one.found_variance is None else f". {one.found_variance}"
        return (
            "How much the readings scatter nobody had to state: it was taken from the release "
            f"itself, which costs no privacy{found}"
        )
    where = (
        "as the data holder stated it"
        if one.reference_rows is None
        else f"from a public reference set of {plural(one.reference_rows, 'row')}"
    )
    found = "" if one.found_variance is None else f" {one.found_variance}"
    return (
        f"The noise variance of a reading given its features is {short(one.noise_variance)}, "
        f"{where}; it was not taken from the private readings.{found}"
    )


# What the short names of ways to make errors mean.
WAYS = {
    "HC3": "right also where some rows scatter more than others",
    "HC2": "right also where some rows scatter more than others",
    "CR2": "right also where the rows of a person go together",
    "Student": "exact for rows that scatter alike",
}


def _errors(one: Outcome) -> str:
    how, freedom = one.result.method, one.result.degrees_of_freedom
    if how is None:
        return "Standard errors are those of least squares with this noise and that of the release."
    why = next((f": {meaning}" for name, meaning in WAYS.items() if name in how), "")
    return f"Standard errors: {how}{freedom_text(freedom)}{why}."


def identity(told: Provenance) -> TableBlock:
    """Which release, and what made the page."""
    return TableBlock(
        ("what", "which"),
        [
            ("table", told.table),
            ("checksum of the header (SHA-256)", told.checksum),
            ("checksum of the table (SHA-256)", told.sha256),
            ("ledger", told.ledger),
            ("made with", f"privest {told.version}"),
            ("page of", told.date),
        ],
        facts=True,
    )
