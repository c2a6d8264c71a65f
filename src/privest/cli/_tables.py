"""A bound as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import privest
from privest.bounds import Bound
from privest.model import LinearModel
from privest.privacy import PrivacyLevel


class Spent(NamedTuple):
    """The differential privacy of the Gaussian release at the level."""

    epsilon: float
    delta: float
    move: float


class Answer(NamedTuple):
    """A bound and what it was asked about."""

    result: Bound
    model: LinearModel
    level: PrivacyLevel
    names: list[str] | None
    spent: Spent | None


def print_json(answer: Answer) -> None:
    """The attributes of the bound by name, and what was asked; one matrix row a line."""
    result, model, level, names, spent = answer
    record: dict[str, Any] = {
        "privest": privest.__version__,
        "readings": model.readings,
        "parameters": model.parameters,
        "names": names,
        "level": level.number if level.number is not None else repr(level),
        "differential_privacy": None if spent is None else spent._asdict(),
        **result.to_dict(),
    }
    typer.echo("{\n" + ",\n".join(f'  "{k}": {_value(v)}' for k, v in record.items()) + "\n}")


def _value(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in value) + "\n  ]"
    return json.dumps(value, ensure_ascii=False)


def print_bound(console: Console, answer: Answer) -> None:
    """Standard errors parameter by parameter, then the sums."""
    result, model, level, names, spent = answer
    console.print(Text(f"{model!r}"), soft_wrap=True, highlight=False)
    console.print(Text(f"{level!r}"), soft_wrap=True, highlight=False)
    if spent is not None:
        console.print(
            f"The Gaussian release at this level is (ε, δ)-differentially private with "
            f"ε = {spent.epsilon:.4g}, δ = {spent.delta:g}, when one reading moves by "
            f"{spent.move:g}.",
            highlight=False,
        )
    labels = [f"θ[{j}]" for j in range(model.parameters)] if names is None else names
    if not result.identifiable:
        verdict = result.identifiability.explain()
        if names is not None:
            verdict = re.sub(r"θ\[(\d+)\]", lambda found: names[int(found[1])], verdict)
        console.print()
        console.print(Text(verdict, style="bold"))
        console.print("There is no finite bound under this level.")
        return
    without = np.sqrt(np.diagonal(result.classical))
    table = _table("Least standard error of an unbiased estimate")
    table.add_column("parameter", overflow="fold")
    for heading in ("without privacy", "with privacy", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, open_error, private_error in zip(labels, without, result.standard_error):
        ratio = f"{private_error / open_error:.3g}" if open_error > 0 else "∞"
        table.add_row(Text(label), f"{open_error:.5g}", f"{private_error:.5g}", ratio)
    console.print()
    console.print(table)
    console.print()
    sums = _table("Mean-square error, summed")
    sums.add_column("quantity")
    sums.add_column("trace", justify="right", no_wrap=True)
    for name, matrix in (
        ("private bound", result.ppcrlb),
        ("without privacy", result.classical),
        ("cost of privacy", result.privacy_cost),
        ("floor of that cost", result.cost_floor),
    ):
        sums.add_row(name, f"{np.trace(matrix):.6g}")
    console.print(sums)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold")
