"""What a plan is about: named features, a formula, a mean, or the means of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from privest.cli import _options as common
from privest.errors import InvalidInput

if TYPE_CHECKING:
    from privest.cli._workflow import Model


def terms_of(model: Model) -> dict[str, Any]:
    """Target, features, categories, intercept and formula, as a `Spec` takes them.

    The mean of a target is its intercept, alone; the means of groups are the coefficients of their
    0/1 columns, without an intercept. Groups by several columns are the cells of all of them.
    """
    _require_one_way(model)
    found: dict[str, Any] = {
        "target": tuple(common.listed(model.target or "")),
        "features": (),
        "categories": _categories(model.category or []),
        "intercept": model.intercept is not False,
    }
    if model.formula is not None:
        return found | {"formula": model.formula}
    if not found["target"]:
        raise InvalidInput("--target is needed (or give a plan file).")
    if model.by is not None:
        return found | _groups(found["target"], tuple(common.listed(model.by)), found["categories"])
    if model.mean:
        return found
    if not model.features:
        raise InvalidInput(
            "--features is needed (or a plan file, --formula, or --mean for the mean alone)."
        )
    return found | {"features": tuple(common.listed(model.features))}


def _require_one_way(model: Model) -> None:
    ways = {
        "--features": model.features is not None,
        "--formula": model.formula is not None,
        "--mean": model.mean or model.by is not None,
    }
    given = [name for name, stated in ways.items() if stated]
    if len(given) > 1:
        raise InvalidInput(f"{given[0]} and {given[1]} say two models: leave one of them out.")
    if ways["--mean"] and model.intercept is False:
        raise InvalidInput("--no-intercept: a mean is the intercept.")


def _groups(
    targets: Sequence[str], by: tuple[str, ...], lists: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    """The model whose coefficients are the means of groups."""
    for name in by:
        if name not in lists:
            raise InvalidInput(
                f"--by {name} needs its public list of groups: --category {name}=a,b,… (never made "
                "from private data)."
            )
    if len(by) == 1:
        return {"features": by, "intercept": False}
    if not by or any("`" in name for name in (*targets, *by)):
        raise InvalidInput("--by names columns, without ` in their names.")
    left, right = (
        sign.join(f"`{name}`" for name in names) for sign, names in ((" + ", targets), (":", by))
    )
    return {"formula": f"{left} ~ 0 + {right}"}


def _categories(given: list[str]) -> dict[str, tuple[str, ...]]:
    found = {}
    for one in given:
        name, equals, values = one.partition("=")
        if not equals or not common.listed(values):
            raise InvalidInput(f"--category {one}: write NAME=A,B,C.")
        found[name.strip()] = tuple(common.listed(values))
    return found
