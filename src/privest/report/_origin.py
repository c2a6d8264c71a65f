"""Where the numbers of a report come from: rows, noise, errors, the release and its ledger."""

from __future__ import annotations

from privest.report._digits import plural, short
from privest.report._facts import Facts, Outcome, Provenance
from privest.report._page import Note, Part, TableBlock


def origin(facts: Facts) -> tuple[Part, ...]:
    """Rows used and left out, the noise variance, how errors were made, what does not fit."""
    parts: list[Part] = [_rows(facts)]
    parts += [text for text in (facts.people, facts.weights) if text is not None]
    several = len(facts.outcomes) > 1
    for one in facts.outcomes:
        name = f"“{one.response}”: " if several else ""
        parts += [name + text for text in (_noise(one), _errors(one), *_range(one))]
        if one.doubt is not None:
            parts.append(Note(name + one.doubt, "warning"))
    if all(one.doubt is None for one in facts.outcomes):
        parts.append(
            "Nothing was found against it: the release scatters about the model as its noise "
            "variance and its level say. (That cannot show every mistake of a model.)"
            if any(one.noise_variance is not None for one in facts.outcomes)
            else "Nothing was found against it: the release does not scatter less than its level "
            "says. How much more it may scatter nobody stated."
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


def _noise(one: Outcome) -> str:
    """Where σ² is from."""
    if one.noise_variance is None:
        text = "The scatter of the readings was taken from the release itself"
        if one.found_variance is None:
            return f"{text}: nobody had to state it, and it costs no privacy."
        value, low, high = one.found_variance
        return (
            f"{text}, at no cost of privacy: a noise variance of {short(value)} (95 % interval "
            f"{short(low)} to {short(high)})."
        )
    where = (
        "as the data holder stated it"
        if one.reference_rows is None
        else f"from a public reference set of {plural(one.reference_rows, 'row')}"
    )
    return (
        f"The noise variance of a reading given its features is {short(one.noise_variance)}, "
        + (f"{where}; it was not taken from the private readings.")
    )


def _errors(one: Outcome) -> str:
    how = one.result.method
    if how is None:
        return "Standard errors are those of least squares with this noise and that of the release."
    return f"Standard errors: {how}."


def _range(one: Outcome) -> list[str]:
    if one.limits is None:
        return []
    ends = f"Readings below {short(one.limits.low)} or above {short(one.limits.high)}"
    after = "" if one.transform == "none" else f" (after {one.transform})"
    text = f"{ends}{after} were released as if they lay at that end of the range, which is public"
    if one.clipped is None:
        return [f"{text}; the fit says that this changes nothing here."]
    return [
        f"{text}; by the fit that is {short(100 * one.clipped)} % of them. The estimates allow for "
        "it, and their errors hold what it costs."
    ]


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
