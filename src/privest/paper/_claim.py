"""What a figure of the paper is said to show, and whether our run of it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper about one figure, judged on a run.

    label    the paper's label of the figure.
    figure   our name of it.
    claim    the sentence.
    holds    whether this run agrees.
    numbers  what the verdict rests on.
    """

    label: str
    figure: str
    claim: str
    holds: bool
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """A plain dictionary, for JSON."""
        return asdict(self) | {"numbers": dict(self.numbers)}

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.numbers.items()
        )
        word = "holds" if self.holds else "does NOT hold"
        return f"{self.label}: {self.claim} {word[0].upper()}{word[1:]} ({shown})."
