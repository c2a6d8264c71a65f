"""What can be asked of a release: how errors are made, and at which features there is a mean."""

from __future__ import annotations

from collections.abc import Mapping

from privest.workflow._header import TableRelease
from privest.workflow._original_units import INTERCEPT

AUTO = "what covers best for these rows"
STATED = "by the noise variance that was stated"
SCATTER = {
    "HC3": "holds where some readings vary more than others, a little wide",
    "HC2": "the same, a little narrower",
}


def error_ways(release: TableRelease) -> dict[str, str]:
    """The ways of `estimate_release` to make errors that a release allows, each in a few words.

    The first is the one that is taken where nobody chooses.
    """
    if release.people is not None:
        return {
            "auto": AUTO,
            "cr2": "whatever rows of a person have to do with each other (CR2)",
            "reml": "a random effect of each person (restricted maximum likelihood)",
        }
    if release.family != "gaussian":
        return {"auto": AUTO, "model": "as the model says", "HC3": SCATTER["HC3"]}
    known = all(column.noise_variance is not None for column in release.columns)
    stated = {"stated": STATED} if known else {}
    if release.columns[0].level_column is not None:
        return {"auto": AUTO} | stated
    if release.weights is not None:
        return {"auto": AUTO} | SCATTER
    more = {
        "t": "exact for Gaussian readings that vary alike",
        "huber": "Huber's estimate, for a few wild readings",
    }
    return {"auto": AUTO} | SCATTER | more | stated


def row_features(release: TableRelease) -> dict[str, tuple[str, ...] | None]:
    """The features that `mean_at` needs a value of, in their order: the public list of a column of
    categories, None for a number.
    """
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
    """The column of categories that a coefficient is one of: sex of sex=male."""
    return next(
        (name for name, values in lists.items() if any(part == f"{name}={one}" for one in values)),
        None,
    )
