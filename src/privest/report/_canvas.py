"""A figure to draw on, without a screen; matplotlib is loaded when the first one is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from privest.errors import InvalidInput, MissingDependency

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PICTURES = (".png", ".pdf", ".svg")


def require_files(data: Path | None, png: Path | None) -> None:
    """Refuse folders and unknown kinds of pictures before hours of work."""
    for path in (data, png):
        if path is not None and path.is_dir():
            raise InvalidInput(f"{path} is a folder; name a file.")
    if png is not None and png.suffix.lower() not in PICTURES:
        raise InvalidInput(f"{png}: the figure can be {', '.join(PICTURES)}.")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingDependency(
            "Figures need matplotlib: install the extra 'plot', for example with "
            'pip install ".[plot]" in the source folder.'
        ) from missing
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure, making its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
