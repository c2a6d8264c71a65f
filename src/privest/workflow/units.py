"""Predictions at rows, in the units of the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array, as_number
from privest.data.cells import TRUTHS, meant
from privest.data.features import category_place
from privest.errors import InvalidInput
from privest.estimator import Prediction
from privest.workflow.document import TableRelease
from privest.workflow.result import SMALL, TableEstimate

INTERCEPT = "intercept"
MOST = 20  # names that a message lists
# What a prediction is of, and from hθ to it.
LINKS: dict[str, tuple[str, Callable[[Array], Array] | None]] = {
    "none": ("mean", None), "log": ("median", np.exp), "binomial": ("share", scipy.special.expit),
    "poisson": ("mean", np.exp),
}  # fmt: skip


def row_of(
    names: tuple[str, ...], given: Mapping[str, object], categories: Mapping[str, tuple[str, ...]]
) -> Array:
    """h for values by name: numbers, or a category; of a product, age:sex=male, that of its parts.

    >>> lists = {"sex": ("female", "male")}
    >>> row_of(("intercept", "age", "sex=male"), {"age": 50, "sex": "male"}, lists).tolist()
    [1.0, 50.0, 1.0]
    """
    known = {part for one in names for part in (one, *one.split(":"))} - {INTERCEPT}
    cells = {INTERCEPT: 1.0}
    for name, value in given.items():
        if name in categories:
            cells |= _indicators(name, value, categories[name])
        elif name in known:
            said: Any = TRUTHS.get(str(value).lower(), value)  # yes and no, as in a table
            cells[name] = as_number(said, f"the value of {name!r}")
        else:
            listed = tuple(one for one in names if one != INTERCEPT)
            raise InvalidInput(
                f"there is no feature {name!r}; coefficients are: {', '.join(listed) or 'none'}."
                f"{meant(name, (*listed, *categories))}"
            )
    return np.array([_cell(name, cells) for name in names])


def _indicators(name: str, value: object, listed: tuple[str, ...]) -> dict[str, float]:
    place = category_place(value, listed)
    if place is None:
        shown = ", ".join(listed[:MOST]) + (", …" if len(listed) > MOST else "")
        raise InvalidInput(
            f"{value!r} is not in the public list of categories of {name!r}, which are {shown}."
            f"{meant(str(value), listed)}"
        )
    return {f"{name}={one}": float(k == place) for k, one in enumerate(listed)}


def _cell(name: str, cells: Mapping[str, float]) -> float:
    if name in cells:
        return cells[name]
    parts = name.split(":")
    if not all(part in cells for part in parts):
        absent = next(part for part in parts if part not in cells)
        raise InvalidInput(f"a mean at a row needs a value for every feature; {absent!r} has none.")
    return math.prod(cells[part] for part in parts)


def require_predictable(found: TableEstimate) -> None:
    """Refuse predictions that the release does not allow."""
    release = found.release
    if found.parts:
        first = release.columns[0].target
        raise InvalidInput(f"a mean at a row is of one column: take estimate[{first!r}].")
    if release.sums and not release.sums[0].matrix:
        raise InvalidInput(
            "a mean at a row needs how the coefficients go together: an aggregate release with its "
            "matrix published."
        )
    if (found.clipping_bias or 0.0) >= SMALL:
        raise InvalidInput(
            "a mean at a row is not there: the range clips so many values that the mean of what "
            "was clipped is not that of the values. Use a wider range."
        )


def in_file_units(found: TableEstimate, linear: Prediction) -> Prediction:
    """Predictions hθ̂ in the units of the file: exp of a logarithm, a share, a count."""
    model = found.release.model
    kind, link = LINKS[model.transform if model.family == "gaussian" else model.family]
    if link is None:
        return linear
    with np.errstate(over="ignore"):
        new = None if linear.prediction_interval is None else link(linear.prediction_interval)
        return replace(
            linear, kind=kind, value=link(linear.value), interval=link(linear.interval),
            prediction_interval=new,
        )  # fmt: skip


# --- what can be asked ---


def row_features(release: TableRelease) -> dict[str, tuple[str, ...] | None]:
    """The features that `predict` needs: public lists of categories, None for a number."""
    lists, names = release.categories, release.names
    found: dict[str, tuple[str, ...] | None] = {}
    for name in names:
        parts = name.split(":")
        if not any(part in names or _column(part, lists) for part in parts):
            parts = [name]  # a name that has a colon in it, or a product of what has none
        for part in parts:
            column = _column(part, lists)
            found[column or part] = lists[column] if column else None
    found.pop(INTERCEPT, None)
    return found


def _column(part: str, lists: Mapping[str, tuple[str, ...]]) -> str | None:
    return next(
        (name for name, values in lists.items() if any(part == f"{name}={one}" for one in values)),
        None,
    )
