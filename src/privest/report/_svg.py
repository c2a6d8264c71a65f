"""Small drawings written by hand, as SVG with texts as texts: some milliseconds and kilobytes.

For pictures that follow a slider; matplotlib (`_canvas`) takes a tenth of a second and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from privest.report._canvas import INK
from privest.report._drawing import Drawn, of_svg
from privest.report._words import printable

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


class Sketch:
    """A drawing of so many pixels; y goes down."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._parts: list[str] = []

    def line(
        self,
        points: Sequence[tuple[float, float]],
        colour: str = INK,
        width: float = 1.0,
        dash: str = "",
    ) -> None:
        """Straight lines from point to point."""
        through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{through}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashes}/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle; (x, y): its upper left corner."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )

    def dot(self, x: float, y: float, colour: str, radius: float = 5.0) -> None:
        """A point with a rim of paper."""
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}" stroke="#ffffff" '
            'stroke-width="1.5"/>'
        )

    def text(
        self, x: float, y: float, text: str, at: str = "start", size: int = 13, weight: int = 400
    ) -> None:
        """A line of letters; `at`: start, middle or end is at x."""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{at}" font-size="{size}" '
            f'font-weight="{weight}" fill="{INK}">{escape(printable(text))}</text>'
        )

    def drawn(self) -> Drawn:
        """For a page, light and dark."""
        body = "\n".join(self._parts)
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="{FONT}">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
        )
        return of_svg(text.encode("utf-8", "backslashreplace"), self.width, self.height)
