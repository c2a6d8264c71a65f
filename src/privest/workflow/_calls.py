"""The workflow as calls: `plan`, then `plan.release`, then `estimate`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from privest.data import Reading, as_format
from privest.errors import InvalidInput
from privest.workflow._estimate import Estimate
from privest.workflow._estimating import estimate_release, estimate_table
from privest.workflow._header import TableRelease
from privest.workflow._held import library_of
from privest.workflow._means import means_by
from privest.workflow._planning import Plan, make_plan
from privest.workflow._sections import Noise, People, Privacy, Weights
from privest.workflow._spec import Spec

Names = str | Sequence[str]


def plan(
    data: object,
    formula: str | None = None,
    *,
    target: Names = (),
    features: Names = (),
    by: Names | None = None,
    categories: Mapping[str, Sequence[object]] | None = None,
    noise_variance: float | None = None,
    reference: str | os.PathLike[str] | None = None,
    person: str | People | None = None,
    weights: str | Weights | None = None,
    reading: Reading | Mapping[str, Any] | None = None,
    expected: Mapping[str, float] | None = None,
    intercept: bool = True,
    missing: str = "refuse",
    transform: str = "none",
    family: str = "gaussian",
    **privacy: Any,  # noqa: ANN401 - the fields of Privacy
) -> Plan:
    """What a private regression would cost. Nothing is spent: nothing depends on the readings.

    data       a pandas or polars frame, a mapping of names to vectors, or the path of a file.
    formula    "ldl ~ age + C(sex) + bmi", "log(ldl) ~ age*dose - 1"; or `target` and `features`;
               or `target` alone for its mean, with `by` for the means of groups.
    categories the public list of each column that is one; the first is the baseline.
    noise_variance, reference
               of the readings given the features: known, or from a public file; may be left out.
    privacy    one of level=, epsilon= (with delta= and move= or range=), standard_error= (with
               of=, or a mapping of names to errors), tolerance= (with attacker=); range=, units=,
               law= as in `Privacy`; or level_column=, a public column with the level of each row.
    person, weights
               the columns that say whose row it is and what it weighs; or `People`, `Weights`.
    reading    how the file is written, where it does not say it itself.
    Others are fields of `Spec`.

    >>> import privest as pv
    >>> table = {"age": [30, 40, 50, 60], "y": [1.0, 2.0, 2.5, 4.0]}
    >>> found = pv.plan(table, "y ~ age", level=4.0, noise_variance=0.25)
    >>> found.names, found.standard_error.round(3).tolist()
    (('intercept', 'age'), [1.466, 0.032])
    """
    lists = {name: tuple(map(str, values)) for name, values in (categories or {}).items()}
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    targets = _names(target)
    model: dict[str, Any] = {"features": _names(features), "intercept": intercept}
    if by is not None:
        if formula is not None or model["features"]:
            raise InvalidInput("by= is for means: leave features and formula out.")
        model = {"features": (), "intercept": True} | means_by(targets, _names(by), lists)
    elif formula is not None:
        model["formula"] = formula
    spec = Spec(
        data=f"{library_of(data)} frame" if path is None else os.fsdecode(path),
        target=targets,
        categories=lists,
        noise=Noise(noise_variance, _reference(reference)),
        privacy=Privacy(**_known(privacy)),
        person=People(person) if isinstance(person, str) else person,
        weights=Weights(weights) if isinstance(weights, str) else weights,
        reading=as_format(reading),
        missing=missing,  # type: ignore[arg-type] # checked by Spec
        transform=transform,  # type: ignore[arg-type]
        family=family,  # type: ignore[arg-type]
        **model,
    )
    held = None if path is not None else data
    return replace(make_plan(spec, held, expected=expected), _data=held)


def estimate(release: TableRelease | str | Path, **how: Any) -> Estimate:  # noqa: ANN401
    """The coefficients from a release alone, with intervals that include the privacy noise.

    `release`: what `plan.release` returned, or the path of its table. `how`: as it is said in
    `estimate_release`.
    """
    if isinstance(release, TableRelease):
        return estimate_table(release, **how)
    return estimate_release(release, **how)


def _names(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _reference(given: object) -> str | None:
    if given is None or isinstance(given, str | os.PathLike):
        return None if given is None else os.fsdecode(given)
    raise InvalidInput(
        "reference is the path of a public file: save the frame (to_parquet) and name it; received "
        f"{type(given).__name__}."
    )


def _known(privacy: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(privacy) - set(Privacy.__dataclass_fields__))
    if unknown:
        raise InvalidInput(
            f"plan: {unknown[0]!r} is not known. Of privacy there are "
            f"{', '.join(Privacy.__dataclass_fields__)}."
        )
    return privacy
