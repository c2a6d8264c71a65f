"""What a plan is about: named features, a formula, a mean, or the means of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privest.cli import _options as common
from privest.errors import InvalidInput
from privest.workflow import means_by

if TYPE_CHECKING:
    from privest.cli._plan_options import Model


def terms_of(model: Model) -> dict[str, Any]:
    """Target, features, categories, intercept and formula, as a `Model` takes them."""
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
    if model.mean or model.by is not None:
        by = common.listed(model.by or "")
        return found | means_by(found["target"], by, found["categories"])
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


def _categories(given: list[str]) -> dict[str, tuple[str, ...]]:
    found = {}
    for one in given:
        name, equals, values = one.partition("=")
        if not equals or not common.listed(values):
            raise InvalidInput(f"--category {one}: write NAME=A,B,C.")
        found[name.strip()] = tuple(common.listed(values))
    return found
