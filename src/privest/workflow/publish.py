"""A release of sums through the door: charged to a ledger of format 2, and its document 2.0.

    seal values → leave (sums, squares) → what is estimated → sign → publish

Every step may be run again: entries are found again by the hash of what was asked for, and the
document is a function of them. A run that was killed is finished by the same call.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np

from privest import vault
from privest.aggregate import ChargedWay
from privest.arrays import Array
from privest.mechanism.source import Protected
from privest.vault.record import canonical
from privest.workflow.aggregate import SCORES, LeavingSums, Published
from privest.workflow.plan import Plan
from privest.workflow.spec import stated
from privest.workflow.terms import Column

DIGITS_OF_ERROR = 3  # an estimate is written to 1/1000 of its error: more digits tell features
FAR = 20  # decimal places beyond which a number has an exponent: 17 digits more are below 40


class Charged(Protocol):
    """An account: a ledger of format 2, and whose values are charged."""

    @property
    def book(self) -> vault.Book: ...

    @property
    def subject(self) -> str: ...


def publish_sums(
    plan: Plan, path: str | os.PathLike[str], account: Charged, data: object = None
) -> tuple[Published, ...]:
    """Release the plan's sums, charged to an account, and write their document to `path`."""
    rows = LeavingSums(plan, Protected(), data)
    for _ in rows.blocks():
        pass
    asked = asked_of(plan, rows)
    ways: list[ChargedWay] = []

    def leaving(column: Column, values: Array) -> tuple[vault.Private, ChargedWay]:
        source = {"table": rows.table.name, "column": column.target, "rows": len(values)}
        private = vault.sealed(values, source=source | {"transform": plan.model.transform})
        ways.append(ChargedWay(account.book, account.subject, column.target, asked))
        return private, ways[-1]

    found = rows.released(leaving)
    entries = [seq for way in ways for seq in way.entries]
    members = {
        "plan": _plan(plan),
        "promise": promise_of(plan),
        "rows": rows.rows,
        "estimates": [_estimates(plan, column) for column in found],
    }
    if plan.privacy.publish != "estimates":
        integers = [[str(z) for z in vault.left(account.book, seq).integers] for seq in entries]
        members["published"] = {
            "integers": integers,
            "columns": [_matrices(column) for column in found],
        }
    vault.publish(account.book, vault.seal(account.book, entries, members), path)
    return found


def asked_of(plan: Plan, rows: LeavingSums) -> str:
    """SHA-256 of the plan and of its public columns: the same plan finishes a killed run."""
    design = plan.survey.sums
    assert design is not None
    digest = hashlib.sha256()
    digest.update(canonical({"plan": _plan(plan), "rows": rows.rows}))
    for X in design.rows:
        digest.update(np.ascontiguousarray(X, dtype="<f8").tobytes())
    return digest.hexdigest()


def promise_of(plan: Plan) -> dict[str, Any]:
    """The promise about one value, or one person: ε and δ, or Fisher information."""
    kind = "one value" if plan.model.person is None else "one person"
    neighbours = {"kind": kind}
    privacy = plan.privacy
    if privacy.epsilon is not None:
        assert privacy.delta is not None
        texts = {"epsilon": number_text(privacy.epsilon), "delta": number_text(privacy.delta)}
        return texts | {"neighbours": neighbours}
    charged = [own.charged.text()["information"] for own in plan.splits]
    if len(charged) == 1:
        level = charged[0] if privacy.level is None else number_text(privacy.level)
        return {"information": level, "neighbours": neighbours}
    mu2 = [own.charged.text()["mu2"] for own in plan.splits]
    total = sum(Decimal(text) for text in mu2)
    return {"mu2": format(total, "f"), "neighbours": neighbours}


def _estimates(plan: Plan, column: Published) -> dict[str, Any]:
    """Estimates to a thousandth of their error, errors to four digits."""
    listed = []
    numbers = zip(plan.names, column.estimate, column.variance, column.freedom, strict=True)
    for name, value, variance, freedom in numbers:
        known: dict[str, str] = {"name": name}
        if math.isfinite(variance):  # else the score equations have no root
            error = math.sqrt(variance)
            places = DIGITS_OF_ERROR - math.floor(math.log10(error))
            known["value"] = number_text(round(float(value), places) + 0.0)
            known["variance"] = number_text(float(f"{variance:.4g}"))
        if math.isfinite(freedom):
            known["freedom"] = number_text(float(f"{freedom:.4g}"))
        listed.append(known)
    shown = {"target": column.target, "kind": column.kind, "coefficients": listed}
    for name in ("residual_variance", "r_squared"):
        number = getattr(column, name)
        if number is not None:
            shown[name] = number_text(float(f"{number:.4g}"))
    return shown


def _matrices(column: Published) -> dict[str, Any]:
    """B and Σ ℓℓᵀ; sums and squares are the integers beside them."""
    names = ("cross", "gram", *(["covariance"] if column.kind == SCORES else []))
    known = [name for name in names if name in column.matrix]
    return {name: _as_texts(column.matrix[name].tolist()) for name in known}


def _plan(plan: Plan) -> dict[str, Any]:
    """Model and privacy as they were stated; what has names of the user's is a list of pairs."""
    sections = {"model": stated(plan.model), "privacy": stated(plan.privacy)}
    return {
        name: {field: _as_texts(value) for field, value in section.items()}
        for name, section in sections.items()
    }


def _as_texts(value: Any) -> Any:  # noqa: ANN401 - plain values
    """A plain value with texts for numbers with a fraction, and pairs for names with values."""
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, dict):
        return [[name, _as_texts(member)] for name, member in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_texts(member) for member in value]
    return value


def number_text(value: float) -> str:
    """The shortest decimal that is this double, as files of version 2 write it.

    >>> number_text(1e-6), number_text(0.25), number_text(8.0)
    ('0.000001', '0.25', '8')
    """
    shortest = Decimal(repr(float(value))).normalize() + 0
    if -FAR <= shortest.adjusted() <= 3 * FAR:
        return format(shortest, "f")
    sign, digits, exponent = shortest.as_tuple()
    assert isinstance(exponent, int)
    whole = "".join(map(str, digits))
    return f"{'-' if sign else ''}{whole}e{exponent}"
