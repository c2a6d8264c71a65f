"""Texts of others, made safe to show: a name may hold anything that a file can hold."""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"  # part of words in some scripts, and they move nothing
KEPT = "\n" + JOINERS


def printable(text: str) -> str:
    r"""`text` with its control characters written out: they would steer a terminal or a page.

    Escape sequences, bells, characters that turn the direction of writing, lone surrogates and
    whatever has no shape become \x1b, \u202e and so on; ends of lines stay.

    >>> printable("age \x1b[31m\u202egnirts"), printable("größe\nθ")
    ('age \\x1b[31m\\u202egnirts', 'größe\nθ')
    """
    if text.isprintable():
        return text
    return "".join(one if _is_harmless(one) else _spelled(one) for one in text)


def _is_harmless(letter: str) -> bool:
    """Shaped, a space of any width, or one of those that are kept."""
    return letter.isprintable() or letter in KEPT or unicodedata.category(letter) == "Zs"


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
