"""Names in any alphabet in a figure: letters as they are, or a word for them; never boxes.

matplotlib's own font knows Latin, Greek, Cyrillic and some others. A drawing whose names need more
keeps them as text, and the reader's browser has a font; pixels take one that is installed here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

OWN = "DejaVu Sans"
# Fonts with many letters, by what their names hold; the first ones that are installed are taken.
WIDE = (
    "Noto Sans CJK", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "Source Han Sans", "WenQuanYi",
    "PingFang", "Hiragino Sans", "Heiti", "Microsoft YaHei", "SimHei", "Yu Gothic", "Meiryo",
    "Malgun Gothic", "NanumGothic", "IPAGothic", "IPAexGothic", "Droid Sans Fallback",
    "Arial Unicode MS", "Noto Sans", "FreeSans", "Unifont",
)  # fmt: skip
NO_FONT = "[letters without a font here]"


def needs_more(figure: Figure) -> bool:
    """Whether a text of the figure has letters that matplotlib's own font does not."""
    return any(unknown(text.get_text()) for text in _texts(figure))


def unknown(text: str) -> set[str]:
    """The letters of a text that matplotlib's own font does not have.

    >>> sorted(unknown("größe θ 年齢"))
    ['年', '齢']
    """
    return {letter for letter in text if letter not in "\n" and ord(letter) not in _known(OWN)}


def keep_as_text(figure: Figure) -> None:
    """Name fonts for whoever shows the drawing: matplotlib's own, then any that has the letters."""
    for text in _texts(figure):
        if unknown(text.get_text()):
            text.set_fontfamily([OWN, *_installed(), "sans-serif"])


def fit_to_fonts(figure: Figure) -> None:
    """For pixels: fonts of this machine; a name for which there is none is said to have none."""
    for text in _texts(figure):
        needed = unknown(text.get_text())
        if not needed:
            continue
        families = [name for name in _installed() if any(ord(c) in _known(name) for c in needed)]
        text.set_fontfamily([OWN, *families])
        left = {c for c in needed if not any(ord(c) in _known(name) for name in families)}
        if left:
            text.set_text(_replaced(text.get_text(), left))


def _replaced(text: str, letters: set[str]) -> str:
    """The text with one word for each run of these letters."""
    found = "".join("\0" if letter in letters else letter for letter in text)
    while "\0\0" in found:
        found = found.replace("\0\0", "\0")
    return found.replace("\0", NO_FONT)


@contextmanager
def unmeasured() -> Iterator[None]:
    """While a drawing is laid out: letters that stay text are measured by the box of their font."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="findfont: .*")
        yield


def _texts(figure: Figure) -> list[Text]:
    from matplotlib.text import Text

    found: list[Text] = [text for text in figure.findobj(Text) if text.get_text()]
    return found


@cache
def _known(family: str) -> frozenset[int]:
    """Code points of a font; none where it is not installed."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    try:
        path = findfont(FontProperties(family=[family]), fallback_to_default=False)
    except ValueError:
        return frozenset()
    return frozenset(FT2Font(path).get_charmap())


@cache
def _installed() -> tuple[str, ...]:
    """Families with many letters that are installed here, in the order of `WIDE`."""
    from matplotlib.font_manager import fontManager

    names = sorted({font.name for font in fontManager.ttflist})
    found = (next((name for name in names if name.startswith(part)), None) for part in WIDE)
    return tuple(dict.fromkeys(name for name in found if name is not None))
