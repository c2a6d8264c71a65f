"""All public rows of a table, in memory: for a design, and for groups that say no."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import AnyArray, Array, Index
from privest.data import Texts, is_number, open_source, read_rows
from privest.errors import InvalidInput
from privest.workflow.spec import Spec


@dataclass(frozen=True, eq=False)
class HeldRows:
    """All rows of a table that a plan counts: H, their numbers in it, and the group of each.

    groups  (rows,) numbers of groups, which `labels` names; None: there are none.
    """

    H: Array
    lines: Index
    groups: Index | None
    dropped: int
    labels: tuple[str, ...] = ()


def held_rows(spec: Spec, data: object, groups: str | None) -> HeldRows:
    """The public rows of a plan, all of them: the private column is not read.

    (Without any feature, for a mean, rows are counted by the target, as the plan does.)
    """
    if groups is not None and groups in spec.targets:
        raise InvalidInput(
            f"{groups!r} is the target, which is private: groups are of a public column."
        )
    source = open_source(spec.data if data is None else data, spec.format)
    beside = () if groups is None else (groups,)
    counted_by = None if spec.design.columns else spec.targets
    # A column that is a feature too is read as the model needs it.
    text = [name for name in beside if name not in spec.design.columns]
    blocks = list(
        read_rows(
            source, spec.design, counted_by, beside=beside, text=text, missing=spec.model.missing
        )
    )
    label: Index | None = None
    names: tuple[str, ...] = ()
    if groups is not None:
        label, names = _labels([block.beside[groups] for block in blocks])
    return HeldRows(
        np.concatenate([block.H for block in blocks]),
        np.concatenate([block.line for block in blocks]),
        label,
        sum(block.dropped for block in blocks),
        names,
    )


def _labels(parts: list[AnyArray | Texts]) -> tuple[Index, tuple[str, ...]]:
    """Numbers 0, 1, ... for the values of a column, the same for the same, and their names."""
    seen: dict[object, int] = {}
    found = []
    for part in parts:
        if isinstance(part, Texts):
            own = np.array([seen.setdefault(text, len(seen)) for text in part.distinct])
            found.append(own[part.codes])
        else:
            found.append(np.array([seen.setdefault(one, len(seen)) for one in part.tolist()]))
    numbers, place = np.unique(np.concatenate(found), return_inverse=True)
    named = tuple(seen)
    return place.astype(np.intp), tuple(group_name(named[k]) for k in numbers)


def group_name(value: object) -> str:
    """A value of the column of groups; whole numbers without a point."""
    text = str(value)
    return f"{float(text):.15g}" if is_number(text) else text
