"""The workflow as calls: `plan`, then `plan.release`, then `estimate`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from privest.data.format import Format, as_format
from privest.errors import InvalidInput
from privest.workflow.document import library_of
from privest.workflow.plan import Plan, make_plan
from privest.workflow.spec import Model, Privacy, Public, Spec, as_names

Names = str | Sequence[str]


def plan(
    data: object,
    formula: str | None = None,
    *,
    target: Names = (),
    features: Names = (),
    by: Names | None = None,
    categories: Mapping[str, Sequence[object]] | None = None,
    residual_variance: float | None = None,
    reference: str | os.PathLike[str] | None = None,
    expected: Mapping[str, float] | None = None,
    format: Format | Mapping[str, Any] | None = None,
    range: Any = None,  # noqa: ANN401 - a pair, or one for each target
    form: str = "aggregate",
    **more: Any,  # noqa: ANN401 - fields of Model and Privacy
) -> Plan:
    """The plan of a private regression. It never reads the private columns.

    data       a pandas, polars or Dask frame, a mapping of names to vectors, or the path of a file.
    formula    "ldl ~ age + C(sex) + bmi", "log(ldl) ~ age*dose - 1"; or `target` and `features`;
               or `target` alone for its mean, with `by` for the means of groups.
    categories public list of each categorical column; the first is the baseline.
    residual_variance, reference, expected
               public knowledge, as in `Public`; may be left out.
    range      (low, high) of the private values, or {target: (low, high)}.
    form       what leaves: "aggregate" (estimates from a few noisy sums, by a data owner who is
               trusted with the table), or "rows" (a noisy value for each row).
    more       fields of `Model` (transform, family, missing, weights, person, most_rows) and of
               `Privacy` (one of level, epsilon, standard_error, tolerance, level_column; delta,
               sensitivity, attacker, units, distribution, publish).

    >>> import privest as pv
    >>> table = {"age": [30, 40, 50, 60] * 500, "y": [1.0, 2.0, 2.5, 4.0] * 500}
    >>> found = pv.plan(table, "y ~ age", epsilon=1.0, range=(0, 5), residual_variance=0.25)
    >>> found.names, found.standard_error.round(4).tolist()
    (('intercept', 'age'), [0.0866, 0.0019])
    """
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    lists = {name: tuple(map(str, values)) for name, values in dict(categories or {}).items()}
    targets = as_names(target, "target")
    model: dict[str, Any] = {"features": features, "formula": formula, "categories": lists}
    if by is not None:
        if formula is not None or features:
            raise InvalidInput("by is for means: leave features and formula out.")
        model |= means_by(targets, as_names(by, "by"), lists)
    own, privacy = _split(more)
    known = Model(target=targets, **model, **own)
    spec = Spec(
        data=f"{library_of(data)} frame" if path is None else os.fsdecode(path),
        model=known,
        privacy=Privacy(range=_ranges(range, known.target), form=form, **privacy),
        public=Public(residual_variance, _reference(reference), dict(expected or {})),
        format=as_format(format),
    )
    return make_plan(spec, None if path is not None else data)


def means_by(
    targets: Sequence[str], by: Sequence[str], categories: Mapping[str, Sequence[object]]
) -> dict[str, Any]:
    """Fields of a `Model` whose coefficients are means: of all, of groups, or of cells.

    >>> means_by(["ldl"], ["sex"], {"sex": ["f", "m"]})
    {'features': ('sex',), 'intercept': False}
    >>> means_by(["ldl"], ["sex", "ward"], {"sex": ["f", "m"], "ward": ["a", "b"]})
    {'formula': '`ldl` ~ 0 + `sex`:`ward`'}
    """
    for name in by:
        if name not in categories:
            raise InvalidInput(
                f"means by {name!r} need the public list of its groups (categories). It is never "
                "made from private data."
            )
    if not by:
        return {"features": (), "intercept": True}
    if len(by) == 1:
        return {"features": tuple(by), "intercept": False}
    if any("`" in name for name in (*targets, *by)):
        raise InvalidInput("means by several columns: the names must not have ` in them.")
    left, right = " + ".join(f"`{name}`" for name in targets), ":".join(f"`{name}`" for name in by)
    return {"formula": f"{left} ~ 0 + {right}"}


def _split(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    model = {one.name for one in fields(Model)} - {"target", "features", "formula", "categories"}
    privacy = {one.name for one in fields(Privacy)} - {"range"}
    unknown = sorted(set(given) - model - privacy)
    if unknown:
        raise InvalidInput(
            f"plan: {unknown[0]!r} is not known. Names are {', '.join(sorted(model | privacy))}."
        )
    own = {name: value for name, value in given.items() if name in model}
    return own, {name: value for name, value in given.items() if name in privacy}


def _ranges(given: Any, targets: Sequence[str]) -> dict[str, Any]:  # noqa: ANN401
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    if len(targets) > 1:
        raise InvalidInput(
            "each of several targets needs a range of its own: {target: (low, high)}."
        )
    return {targets[0]: given}


def _reference(given: object) -> str | None:
    if given is None or isinstance(given, str | os.PathLike):
        return None if given is None else os.fsdecode(given)
    raise InvalidInput(f"reference is the path of a public file; received {type(given).__name__}.")
