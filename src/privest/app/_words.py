"""What the library says, as the screens say it.

Its messages speak to whoever types commands or Python. Who sits before a page has fields in place
of options: here, and only here, the one becomes the other.
"""

from __future__ import annotations

import re

RAISED = "the budget raised on the command line, which is recorded"
# Whole turns, first: what an option is said with.
TURNS: tuple[tuple[str, str], ...] = (
    (r"raise the budget \((?:privest ledger budget|raise_budget)\), which is recorded",
     f"have {RAISED}"),
    (r"raise the budget \(privest ledger budget\) and say --again",
     f"have {RAISED}, and tick “Release them once more”"),
    (r"change it with (?:privest ledger budget|raise_budget)(?:, which is recorded)?",
     "it is changed on the command line, which is recorded"),
    (r"\(privest ledger \w+\)", "(on the command line)"),
    (r"missing = \"drop\", --missing drop \(they are counted\)",
     "“leave them out, and count them”, on the data screen"),
    (r"range = \[low, high\] under \[privacy\], or --range low,high", "“Lowest” and “Highest”"),
    (r"categories, or --category \S+=a,b,…", "“Public categories”, on the data screen."),
    (r"categories \(\[categories\], --category \S+=a,b\)", "“Public categories”"),
    (r"\((?:missing_codes|separator|encoding), (--[a-z-]+)\)", r"(\1)"),
    (r"\(decimal = \",\", --decimal ,\)", "(“In numbers”)"),
    (r"\(thousands = \",\", --thousands ,\)", "(“Between thousands”)"),
    (r"state --separator '[^']*'", "choose it under “Between columns”"),
    (r"\(--most-rows (\d+|…)\)", r"(“Most rows of a person”: \1)"),
    (r"--range \S+?=LOW,HIGH|--range low,high", "“Lowest” and “Highest”"),
    (r"; on the command line --level, --epsilon, --standard-error, --tolerance", ""),
    (r"--standard-error \w+=[\d.]+(?:,\w+=[\d.]+)*", "--standard-error"),
    (r"(L|l)eave --person out", r"\1et no column be one that “says whose row it is”"),
    (r"Leave out --errors", "Choose “auto” under “How errors are made”"),
    (r"--errors (\w+)", r"“\1” under “How errors are made”"),
    (r"--law (\w+)", r"the law “\1”"),
    (r"say --overwrite", "choose another name"),
    (r", or has new rows only \(--continue\)|, or --continue on new rows", ""),
    (r"`privest (\w+)`", r"privest \1 (on the command line)"),
)  # fmt: skip
# What is left, by option: the name that the thing has on a screen.
FIELDS = {
    "again": "“Release them once more”",
    "budget": "“Budget of a new account”",
    "category": "“Public categories”",
    "decimal": "“In numbers”",
    "delta": "“δ”",
    "encoding": "“Alphabet”",
    "epsilon": "“ε”",
    "errors": "“How errors are made”",
    "features": "the public columns",
    "ledger": "the ledger",
    "level": "“Privacy level s”",
    "missing": "“Rows with a missing value”",
    "missing-code": "“Other codes for missing values”",
    "most-rows": "“Most rows of a person”",
    "move": "a stated difference (on the command line)",
    "noise-variance": "“Variance of the readings”",
    "person": "“says whose row it is”",
    "range": "“Lowest” and “Highest”",
    "reference": "“a public file of the same kind”",
    "seed": "“Seed”",
    "separator": "“Between columns”",
    "simulate": "“A trial”",
    "standard-error": "“Accuracy first”",
    "thousands": "“Between thousands”",
    "subject": "“name of their account”",
}
# These have no field here: the words of the option itself are the best there are.
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])")
FOUND = [(re.compile(pattern), words) for pattern, words in TURNS]


def screen_words(text: str) -> str:
    """A message of the library with the names that things have on the screens.

    >>> screen_words("State a guess (--noise-variance), or a reference set (--reference).")
    'State a guess (“Variance of the readings”), or a reference set (“a public file of the same kind”).'
    """  # noqa: E501 - what it says
    for pattern, words in FOUND:
        text = pattern.sub(words, text)
    return OPTION.sub(lambda found: FIELDS.get(found[1], f"“{found[1].replace('-', ' ')}”"), text)


def sentence(text: str) -> str:
    """A message that stands by itself begins with a capital letter; a name stays as it is.

    >>> sentence("the plan was changed."), sentence("people.csv has no rows."), sentence("ε is 1.")
    ('The plan was changed.', 'people.csv has no rows.', 'ε is 1.')
    """
    words = re.match(r"(?:a|[a-z][a-z'’-]+)(?=[\s,;)]|$)", text)
    return text if words is None else text[0].upper() + text[1:]
