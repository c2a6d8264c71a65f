"""Levels that differ from row to row: a public column of the release, chosen by public features.

Every reader of a release must use the very levels that its holder used. They are therefore written,
digit by digit, as a column beside the features, and not computed a second time. What is promised to
everybody is the largest of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.reading import read_fields, read_positive, read_text, require_parameters
from privest.reading._fields import optional
from privest.records import Record

if TYPE_CHECKING:
    from privest.workflow._spec import Spec

NAMES = ("level", "z:level", "level of z")  # of the column: the first that is free
CRITERIA = ("standard errors", "A", "D", "E", "given")


@dataclass(frozen=True)
class RowLevels(Record):
    """How the rows of a private column came by levels of their own.

    column          of the release: a level for every row, 0 where its reading is not shown.
    mean            of the rows of the plan; times their number it is what is shown in total.
    criterion       by which they were chosen: "standard errors", "A", "D", "E"; "given": by hand.
    standard_error  that were asked for, by coefficient; `budget`: the mean level that was.
    cap             the level that no row is above, as it was stated; None: none was.
    groups          the public column of which rows that agree share a level; None: every row alone.
    """

    column: str
    mean: float
    criterion: str = "given"
    standard_error: Mapping[str, float] = field(default_factory=dict, hash=False)
    budget: float | None = None
    cap: float | None = None
    groups: str | None = None

    @property
    def asked(self) -> tuple[Any, ...]:
        """What was asked for, to compare two plans by."""
        return (
            self.criterion, tuple(sorted(self.standard_error.items())), self.budget, self.cap,
            self.groups,
        )  # fmt: skip

    @classmethod
    def read(cls, given: object, name: str) -> Self:
        """From a header, every field checked."""
        found = cls(**read_fields(given, KINDS, name))
        if found.criterion not in CRITERIA or not found.column:
            raise InvalidInput(f"{name}: its criterion must be one of {', '.join(CRITERIA)}.")
        return found


def _read_errors(given: object, name: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name} must be names with numbers.")
    require_parameters(len(given) + 1, name)
    return {read_text(one, name): read_positive(error, name) for one, error in given.items()}


KINDS = {
    "column": read_text, "mean": read_positive, "criterion": read_text,
    "standard_error": _read_errors, "budget": optional(read_positive),
    "cap": optional(read_positive), "groups": optional(read_text),
}  # fmt: skip


def free_name(taken: set[str]) -> str:
    """The name of the column of levels, which no other column has."""
    return next(name for name in NAMES if name not in taken)


def require_levels(levels: Array, most: float, where: Path) -> None:
    """Refuse a column of levels that its header does not allow."""
    good = np.isfinite(levels).all() and (levels >= 0).all() and (levels <= most).all()
    if not bool(good):
        raise InvalidInput(
            f"{where}: levels of rows lie between 0 and {most:g}, which the header promises, and "
            "one of them does not: it was changed."
        )


def require_allocation(spec: Spec) -> None:
    """Refuse what levels of the rows do not go with, with what to do instead."""
    together = "levels that differ from row to row (--allocate)"
    for what, there in not_together(spec).items():
        if there:
            raise InvalidInput(
                f"{together} and {what} do not go together yet: leave one of them out."
            )
    if spec.noise.variance is None and spec.noise.reference is None:
        raise InvalidInput(
            f"{together} need the noise variance of the readings: how much a row is worth depends "
            "on it. State a guess from public knowledge (--noise-variance), or a reference set."
        )
    require_groups(spec, spec.privacy.groups)


def not_together(spec: Spec) -> dict[str, bool]:
    """What levels of the rows do not go with, and whether it is there."""
    law = spec.privacy.law
    return {
        "several targets": len(spec.targets) > 1,
        "persons with several rows": spec.person is not None,
        f"family {spec.family}": spec.family != "gaussian",
        f"law {law}": law not in (None, "gaussian"),
        "weights": spec.weights is not None,
    }


def require_groups(spec: Spec, groups: str | None) -> None:
    """Refuse groups of a private column: who shares a level would tell."""
    if groups is not None and groups in spec.targets:
        raise InvalidInput(
            f"{groups!r} is the target, which is private: groups are of a public column."
        )
