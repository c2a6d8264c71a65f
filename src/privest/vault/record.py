"""Texts, numbers and JSON of signed files: written in one way, read with distrust.

Canonical JSON has keys in the order of their code points, no spaces, UTF-8, and no floats: whole
numbers below 2⁵³ are JSON integers, every other number is a text. `parse` gives plain values and
raises InvalidInput for all that a program of ours would not write.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Never

from privest.errors import InvalidInput

LARGEST_FILE = 1 << 26  # bytes: a document of 10⁶ estimates has fewer
DEEPEST = 32  # lists within lists; ours have 6
LARGEST_INTEGER = (1 << 53) - 1  # beyond it other readers of JSON round
LONGEST_NAME = 200  # characters of a subject, a line, a tag
MAJOR = 2
KNOWN_NEEDS: frozenset[str] = frozenset()  # what this version can do beyond 2.0

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,399})(\.[0-9]{1,40})?(e-?[1-9][0-9]?)?", re.ASCII)
VERSION = re.compile(r"([1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})", re.ASCII)
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
BRACKETS = re.compile(rb"[\[\]{}]")
TAIL = re.compile(rb', "hmac": "([0-9a-f]{64})"\}\}\n\Z')  # the end of every sealed document


# --- canonical JSON -------------------------------------------------------------------------------


def canonical(value: object) -> bytes:
    r"""The one spelling of a plain value as JSON. Floats are refused: they have no exact text.

    >>> canonical({"b": [1, "θ"], "a": None})
    b'{"a":null,"b":[1,"\xce\xb8"]}'
    """
    _require_plain(value, 0)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return _encoded(text)


def _require_plain(value: object, depth: int) -> None:
    if depth > DEEPEST:
        raise InvalidInput(f"a record has more than {DEEPEST} lists within lists.")
    if value is None or isinstance(value, str | bool):
        return
    if type(value) is int:
        if abs(value) > LARGEST_INTEGER:
            raise InvalidInput("a whole number beyond 2^53 is written as a text in a record.")
    elif isinstance(value, dict):
        for name, member in value.items():
            if not isinstance(name, str) or not name.isascii():
                raise InvalidInput("the names of a record's members are ASCII texts.")
            _require_plain(member, depth + 1)
    elif isinstance(value, list):
        for member in value:
            _require_plain(member, depth + 1)
    else:
        raise InvalidInput(f"a record holds no {type(value).__name__}: write numbers as texts.")


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput("a text has half a letter (a surrogate).") from None


def parse(data: bytes) -> Any:  # noqa: ANN401 - what JSON holds
    """The value of JSON bytes. Repeated names, floats, NaN, deep nesting are refused."""
    if len(data) > LARGEST_FILE:
        raise InvalidInput(f"the file has more than {LARGEST_FILE >> 20} MiB.")
    if data.count(b"[") + data.count(b"{") > DEEPEST:
        _require_shallow(data)  # before the parser, which recurses
    if b"\\u" in data:
        _require_whole_letters(data)
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_members,
            parse_float=_no_float,
            parse_int=_integer,
            parse_constant=_no_float,
        )
    except InvalidInput:
        raise
    except UnicodeDecodeError:
        raise InvalidInput("the file is not UTF-8 text.") from None
    except ValueError as error:
        raise InvalidInput(f"the file is not JSON: {error}.") from None


def _require_shallow(data: bytes) -> None:
    depth = 0
    for bracket in BRACKETS.findall(STRING.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise InvalidInput(f"the file has more than {DEEPEST} lists within lists.")


def _require_whole_letters(data: bytes) -> None:
    """Refuse half a letter, which JSON can spell and UTF-8 cannot."""
    try:
        value = json.loads(data)
    except ValueError:
        return  # no JSON: the parser says so
    _encoded(json.dumps(value, ensure_ascii=False))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidInput("a record has two members of one name.")
    return members


def _no_float(text: str) -> Never:
    raise InvalidInput(f"numbers with a fraction are texts in this file; received {text[:40]}.")


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > LARGEST_INTEGER:
        raise InvalidInput("whole numbers beyond 2^53 are texts in this file.")
    return int(text)


# --- numbers and names ----------------------------------------------------------------------------


def number(text: object, what: str = "a number") -> Fraction:
    """The number of a text such as "-0.25" or "1e-6", exactly.

    >>> number("1e-6") == Fraction(1, 10**6)
    True
    """
    match = NUMBER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidInput(f"{what} is written as a decimal text, such as 0.25 or 1e-6.")
    value = Fraction(match[0])
    if value == 0 and match[0].startswith("-"):
        raise InvalidInput(f"{what} is written 0, not -0.")
    return value


def cost_number(text: object, what: str = "a cost") -> Fraction:
    """A number ≥ 0: a release cannot be taken back."""
    value = number(text, what)
    if value < 0:
        raise InvalidInput(f"{what} is at least 0.")
    return value


def require_text(text: object, what: str = "a subject", *, empty: bool = False) -> str:
    """A name in its one spelling, unchanged; two spellings would be two budgets."""
    if not isinstance(text, str) or len(text) > LONGEST_NAME or not (text or empty):
        raise InvalidInput(f"{what} is a text of 1 to {LONGEST_NAME} characters.")
    if not text.isprintable():  # control and unseen characters, halves of letters, odd spaces
        raise InvalidInput(f"{what} has characters that are not seen: {text!r}.")
    spelling = unicodedata.normalize("NFC", text).strip()
    if spelling != text:
        raise InvalidInput(
            f"{what} {text!r} is another spelling, which would have a budget of its own: "
            f"write {spelling!r}."
        )
    return text


# --- versions -------------------------------------------------------------------------------------


def require_version(record: Mapping[str, Any], what: str = "this file") -> tuple[int, int]:
    """Major and minor version of a record; another major is refused."""
    match = VERSION.fullmatch(str(record.get("version")))
    if match is None:
        raise InvalidInput(f"{what} states no version.")
    major = int(match[1])
    minor = int(match[2])
    if major != MAJOR:
        raise InvalidInput(
            f"{what} has version {match[0]}; this privest reads version {MAJOR}. Use the privest "
            f"that wrote it, or a later one."
        )
    return major, minor


def unknown_needs(record: Mapping[str, Any], known: frozenset[str] = KNOWN_NEEDS) -> list[str]:
    """What a reader must know to use the numbers of a record, and this one does not."""
    needs = record.get("needs", [])
    if not isinstance(needs, list) or not all(isinstance(name, str) for name in needs):
        raise InvalidInput("needs is a list of names.")
    return [name for name in needs if name not in known]


def more(record: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """The members of a later version: kept, signed, and listed."""
    return sorted(set(record) - set(known))


# --- sealed documents -----------------------------------------------------------------------------


def unsealed(members: Mapping[str, Any], seal: Mapping[str, Any]) -> bytes:
    """A document up to its signature: one member a line, the seal last."""
    _require_plain(dict(members), 0)
    _require_plain(dict(seal), 1)
    if "seal" in members or "hmac" in seal:
        raise InvalidInput("a document is sealed once.")
    lines = [_line(name, member) for name, member in {**members, "seal": seal}.items()]
    text = "{" + ",\n ".join(lines)
    return _encoded(text.removesuffix("}"))


def _line(name: str, member: object) -> str:
    return f"{json.dumps(name)}: {json.dumps(member, ensure_ascii=False)}"


def sealed_with(data: bytes, hmac: str) -> bytes:
    """The whole document: what was signed, and the signature."""
    return data + f', "hmac": "{hmac}"}}}}\n'.encode()


def split_seal(data: bytes) -> tuple[bytes, str]:
    """The signed part of a document, and its signature: every byte is in one of them."""
    match = TAIL.search(data)
    if match is None:
        raise InvalidInput("the document does not end with a seal, or something stands after it.")
    return data[: match.start()], match[1].decode()
