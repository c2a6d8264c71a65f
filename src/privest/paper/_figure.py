"""A figure of the paper: its points, what the paper says of it, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.records import Record, as_frame, text_table
from privest.report.figures import BAND
from privest.report.figures import new_figure as new_figure
from privest.report.figures import save as save

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as MatplotlibFigure

    Picture = MatplotlibFigure

P = TypeVar("P", bound=Record)
BOUND: dict[str, Any] = {"color": "black", "lw": 2.0, "ls": "--"}
COLOURS = (
    "#1b9e77", "#d95f02", "#e6ab02", "#7570b3", "#66a61e", "#a6761d", "#e7298a", "#1f78b4",
    "#b2182b", "#17becf", "#666666",
)  # fmt: skip
MARKS = "osD^vPX<>pd*h"
DASHES = ("-", "-.", ":")  # another one after every round of colours


@dataclass(frozen=True)
class Claim(Record):
    """One sentence of the paper about a figure (`label`), judged on a run of it.

    numbers  what the verdict rests on.
    """

    label: str
    claim: str
    holds: bool
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.numbers.items()
        )
        word = "Holds" if self.holds else "Does NOT hold"
        return f"{self.label}: {self.claim} {word} ({shown})."


@dataclass(frozen=True)
class Table:
    """Rows of a summary by name, under `columns`."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]
    remarks: Sequence[str] = ()

    def __str__(self) -> str:
        cells = {
            head: [row[k] for row in self.rows.values()] for k, head in enumerate(self.columns)
        }
        return "\n".join([self.title, *text_table(tuple(self.rows), cells), *self.remarks])


@dataclass(frozen=True, eq=False)
class Figure(Record, Generic[P]):
    """A figure of the paper, run: `points`, and `claims` that say whether its sentences hold.

    label   of the figure in the paper.
    points  one record for each mark of the figure; `to_frame` has a row for each.
    """

    label: str
    points: Sequence[P] = field(repr=False)
    _judge: Callable[[Sequence[P]], Sequence[Claim]] = field(repr=False)
    _tabulate: Callable[[Sequence[P]], Table] = field(repr=False)
    _draw: Callable[[Sequence[P]], Picture] = field(repr=False)

    DERIVED: ClassVar[tuple[str, ...]] = ("claims",)

    @property
    def claims(self) -> Sequence[Claim]:
        """The sentences of the paper about the figure, judged on these points."""
        return self._judge(self.points)

    def to_frame(self, library: str = "pandas") -> Any:  # noqa: ANN401 - a frame of the library
        """One row for each point."""
        names = [own.name for own in fields(self.points[0])]  # type: ignore[arg-type]
        return as_frame({name: [getattr(p, name) for p in self.points] for name in names}, library)

    def summary(self) -> str:
        """Errors at some places, and the claims."""
        return "\n".join([str(self._tabulate(self.points)), *map(str, self.claims)])

    def save(self, path: str | PathLike[str]) -> None:
        """Draw it into a .png, .pdf or .svg file."""
        save(self._draw(self.points), Path(path))


# --- drawing --------------------------------------------------------------------------------------


def styles(count: int) -> list[dict[str, Any]]:
    """Styles of curves that differ in colour, mark and dash."""
    return [
        {
            "colour": COLOURS[i % len(COLOURS)],
            "marker": MARKS[i % len(MARKS)],
            "ls": DASHES[i // len(COLOURS) % len(DASHES)],
        }
        for i in range(count)
    ]


def curves(
    points: Sequence[P], names: Iterable[str], *, by: str, along: str
) -> Iterator[tuple[str, list[P]]]:
    """The points of every name that has some, in order."""
    for name in names:
        own = [p for p in points if getattr(p, by) == name]
        if own:
            yield name, sorted(own, key=lambda p: getattr(p, along))


def columns(points: Sequence[object], *names: str) -> list[Array]:
    return [np.array([float(getattr(p, name)) for p in points]) for name in names]


def chosen(given: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The methods asked for; all where nothing is."""
    there = list(known)
    strange = sorted(set(given or ()) - set(there))
    if strange or (given is not None and not given):
        raise InvalidInput(f"methods are {', '.join(there)}; received {', '.join(strange)}.")
    return there if given is None else [name for name in there if name in given]


def mean(
    axes: Axes, x: Array, middle: Array, error: Array, *, unit: float | Array = 1.0, colour: str,
    **line: Any,  # noqa: ANN401 - what matplotlib takes
) -> None:  # fmt: skip
    """Measured means with their 95% band, in some unit, for a log scale."""
    half = BAND * error
    low = np.maximum(middle - half, 0.5 * middle)
    axes.fill_between(x, low / unit, (middle + half) / unit, color=colour, alpha=0.2, lw=0)
    axes.plot(x, middle / unit, color=colour, **line)


def floor(axes: Axes, points: Sequence[object], along: str, label: str, zorder: float = 2) -> None:
    places, bounds = columns(points, along, "bound")
    once = sorted(set(zip(places.tolist(), bounds.tolist())))
    axes.plot(*zip(*once), **BOUND, label=label, zorder=zorder)


def steps_and_ratios(above: Axes, below: Axes) -> None:
    """Axes of the recursive experiments: errors along a stream, and their ratios to the bound."""
    above.set_yscale("log")
    above.yaxis.set_major_formatter("{x:g}")
    above.set_ylabel("mean-square error of θ̂, summed\n(units of the response, squared)")
    above.legend(frameon=False, fontsize=9, loc="upper right")
    below.axhline(1.0, **BOUND)
    below.set_ylabel("ratio to the bound")
    below.set_xlabel("measurements k of a stream")
    open_frame(above, below)


def open_frame(*every: Axes) -> None:
    """Light grids, no frame above and at the right."""
    for axes in every:
        axes.grid(which="major", alpha=0.3)
        axes.grid(which="minor", alpha=0.1)
        axes.spines[["top", "right"]].set_visible(False)
