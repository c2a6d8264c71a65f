"""JSON and TOML as plain values: shallow, of few items, every name once."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from typing import Any

from privest.errors import InvalidInput
from privest.reading._files import require_letters
from privest.reading._limits import DEEPEST, MOST_ITEMS

# tomllib keeps every beginning of a dotted key: 50 kB of a.a.a… become 2.7 GB.
NUMBERS: frozenset[type] = frozenset({float, int, bool, type(None)})
NUMBERS_AND_TEXTS = NUMBERS | {str}
_PART = r"""(?:[\w-]++|"[^"\n]*"|'[^'\n]*')"""
DOTTED = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST}}}")


def parse_json(text: str, where: str = "the input", *, any_number: bool = False) -> Any:  # noqa: ANN401 - whatever JSON holds
    """JSON as its standard has it: no NaN, no infinity, no name twice, no half letters.

    `any_number`: NaN, Infinity and integers of any length too, for readings, which are not refused
    because of their value.

    >>> parse_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parse_json('{"a": 1, "a": 2}', "z.json")
    Traceback (most recent call last):
    privest.errors.InvalidInput: z.json is not JSON: the name 'a' is there twice.
    """
    try:
        found = (_ANY_NUMBER if any_number else _JSON).decode(text)
    except _Refused as refused:
        raise InvalidInput(f"{where} is not JSON: {refused}.") from None
    except (ValueError, RecursionError):  # ValueError: also a number of more than 4300 digits
        raise InvalidInput(f"{where} is not JSON.") from None
    # Without such an escape every letter of a decoded text is whole.
    _require_plain(found, where, NUMBERS if "\\u" in text else NUMBERS_AND_TEXTS)
    return found


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """A TOML document."""
    if DOTTED.search(text):
        raise _too_deep(where)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{where} is not TOML: {_first_line(error)}.") from None
    except RecursionError:
        raise _too_deep(where) from None
    except (ValueError, OverflowError):  # more than 4300 digits; a date that does not exist
        raise InvalidInput(f"{where} is not TOML: a number or a date has no meaning.") from None
    _require_plain(found, where)
    return found


class _Refused(Exception):
    """A document that its parser would take."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"the name {twice[:60]!r} is there twice")
    return found


def _no_constant(word: str) -> float:
    raise _Refused(f"{word} is no number of JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
_ANY_NUMBER = json.JSONDecoder(object_pairs_hook=_once, parse_int=float)


def _require_plain(document: object, where: str, flat: frozenset[type] = NUMBERS) -> None:
    """Refuse what is nested deep, has too many items, or texts that cannot be written again.

    Level by level, not one within another: a deep document costs what a flat one does. `flat`: the
    types that need no look by themselves; most lists, and rows of JSON lines, have no others.
    """
    level, items = [document], 0
    for _ in range(DEEPEST + 1):
        inside: list[Any] = []
        for part in level:
            if isinstance(part, str):
                require_letters(part, where)
            elif isinstance(part, list | dict):
                items += len(part)
                every = part if isinstance(part, list) else [*part.keys(), *part.values()]
                if not flat.issuperset(map(type, every)):
                    inside += every
            elif not isinstance(part, float | int | None | datetime.date | datetime.time):
                raise InvalidInput(f"{where} holds {type(part).__name__}, not texts and numbers.")
        if items > MOST_ITEMS:
            raise InvalidInput(f"{where} has more than {MOST_ITEMS} items.")
        if not inside:
            return
        level = inside
    raise _too_deep(where)


def _too_deep(where: str) -> InvalidInput:
    return InvalidInput(f"{where} is nested more than {DEEPEST} deep.")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]
