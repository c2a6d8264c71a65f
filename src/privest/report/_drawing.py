"""A figure inside a page: a drawing, light and dark, or pixels where it would be too large."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, NamedTuple

from privest.report._canvas import DARK, DRAWING
from privest.report._letters import fit_to_fonts, keep_as_text, needs_more, unmeasured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Drawings are sharp at every size and on paper, so SVG; a picture of very many points is smaller
# in pixels. 220 dots per inch of a narrow figure are three pixels a dot on a phone.
MOST_DRAWING_BYTES = 400_000
PIXELS_PER_INCH = 220
COLOUR = re.compile(r"#[0-9a-f]{6}\b")


class Drawn(NamedTuple):
    """Data addresses; `dark` None: the picture is pixels, and keeps its white card in the dark.

    width, height: in CSS pixels, 96 an inch.
    """

    light: str
    dark: str | None
    width: int
    height: int


def embedded(figure: Figure) -> Drawn:
    """The figure as it goes into a page."""
    width, height = (round(96 * float(inches)) for inches in figure.get_size_inches())
    drawing = _drawing(figure)
    if len(drawing) > MOST_DRAWING_BYTES:
        return Drawn(_address("png", _pixels(figure)), None, width, height)
    return of_svg(drawing, width, height)


def of_svg(drawing: bytes, width: int, height: int) -> Drawn:
    """A drawing, and the same with the colours of dark paper."""
    dark = COLOUR.sub(lambda found: DARK.get(found[0], found[0]), drawing.decode()).encode()
    return Drawn(_address("svg+xml", drawing), _address("svg+xml", dark), width, height)


def _drawing(figure: Figure) -> bytes:
    """As SVG. Letters as outlines: the same on every machine; as text where no font here has them.

    A fixed salt: the same bytes in every run.
    """
    from matplotlib import rc_context

    kind = "path"
    if needs_more(figure):
        keep_as_text(figure)
        kind = "none"
    buffer = io.BytesIO()
    with DRAWING, rc_context({"svg.fonttype": kind, "svg.hashsalt": "privest"}), unmeasured():
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing)
    return buffer.getvalue()


def _pixels(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    fit_to_fonts(figure)
    with DRAWING:
        figure.savefig(buffer, format="png", dpi=PIXELS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def _address(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
