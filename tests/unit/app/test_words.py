"""Messages as the screens say them: over all that the library has, and by example."""

import ast
import re
from pathlib import Path

import pytest

import privest
from privest.app import _words
from privest.app._words import screen_words, sentence

ROOMS = ("workflow",)
CODED = re.compile(r"(?<!\w)--[a-z]|raise_budget|privest ledger (?!export)")
SOURCE = Path(privest.__file__).parent


def texts(path):
    """Every text in a module that is no docstring; what is filled in is “…”."""
    inner = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):  # parents come first
        if isinstance(node, ast.JoinedStr):
            inner |= {id(one) for one in ast.walk(node)}
            yield "".join(
                one.value if isinstance(one, ast.Constant) else "…" for one in node.values
            )
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        elif isinstance(node, ast.Constant) and id(node) not in inner:
            yield str(node.value)


def messages(room):
    found = [text for path in sorted((SOURCE / room).glob("*.py")) for text in texts(path)]
    return [text for text in found if CODED.search(text) and " " in text.strip()]


@pytest.mark.parametrize("room", ROOMS)
def test_no_message_of_the_library_says_an_option_on_a_page(room):
    found = messages(room)
    assert found
    for text in found:
        assert not CODED.search(screen_words(text)), screen_words(text)


def test_the_fields_are_there_under_these_names():
    app = SOURCE / "app"
    shown = " ".join(one.read_text(encoding="utf-8") for one in (app / "templates").glob("*.html"))
    shown += " ".join(one.read_text(encoding="utf-8") for one in app.glob("_*_form.py"))
    quoted = [name for words in _words.FIELDS.values() for name in re.findall("“(.*?)”", words)]
    quoted += [n for _, words in _words.TURNS for n in re.findall(r"“(\w.*?)”", words)]
    for name in quoted:
        assert name in shown or name == "auto", name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "p.csv, column 'y', row 78: a value is missing. Fill the gaps, or leave out such rows: "
            'missing = "drop", --missing drop (they are counted).',
            "p.csv, column 'y', row 78: a value is missing. Fill the gaps, or leave out such rows: "
            "“leave them out, and count them”, on the data screen.",
        ),
        (
            "raise the budget (privest ledger budget) and say --again.",
            "have the budget raised on the command line, which is recorded, and tick “Release them "
            "once more”.",
        ),
        ("say --never-heard-of it", "say “never heard of” it"),
        ("a-- b, --x, 2--3, --Names", "a-- b, --x, 2--3, --Names"),
    ],
)
def test_by_example(text, said):
    assert screen_words(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a release is being made.", "A release is being made."),
        ("there is none.", "There is none."),
        ("people.csv has no rows.", "people.csv has no rows."),
        ("'ldl' has a gap.", "'ldl' has a gap."),
        ("“budget” is missing.", "“budget” is missing."),
        ("ε needs a range.", "ε needs a range."),
        ("z is noisy.", "z is noisy."),
        ("shadow: no table.", "shadow: no table."),
        ("/tmp/a exists.", "/tmp/a exists."),
        ("", ""),
    ],
)
def test_a_message_begins_with_a_capital_letter_and_a_name_as_it_is(text, said):
    assert sentence(text) == said
