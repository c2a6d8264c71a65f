"""A bound as a table for people and as JSON for programs."""

from __future__ import annotations

import json

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from privest.bounds import Bound
from privest.model import LinearModel
from privest.privacy import PrivacyLevel


def print_json(result: Bound) -> None:
    """The attributes of the bound, by name."""
    typer.echo(json.dumps(result.to_dict(), indent=2))


def print_bound(
    console: Console,
    result: Bound,
    model: LinearModel,
    level: PrivacyLevel,
    names: list[str] | None,
) -> None:
    """Standard errors parameter by parameter, then the sums."""
    console.print(f"{model!r}", soft_wrap=True, highlight=False)
    console.print(f"{level!r}", soft_wrap=True, highlight=False)
    if not result.identifiable:
        console.print(f"\n[bold]{result.identifiability.explain()}[/]", soft_wrap=True)
        console.print("There is no finite bound under this level.")
        return
    without = np.sqrt(np.diagonal(result.classical))
    table = Table(title="Least standard error of an unbiased estimate", title_justify="left")
    for heading in ("parameter", "without privacy", "with privacy", "ratio"):
        table.add_column(heading, justify="right")
    for j, (open_error, private_error) in enumerate(zip(without, result.standard_error)):
        ratio = f"{private_error / open_error:.3g}" if open_error > 0 else "∞"
        label = f"θ[{j}]" if names is None else names[j]
        table.add_row(escape(label), f"{open_error:.5g}", f"{private_error:.5g}", ratio)
    console.print()
    console.print(table)
    sums = Table(title="Mean-square error, sum over the parameters", title_justify="left")
    sums.add_column("quantity")
    sums.add_column("trace", justify="right")
    for name, matrix in (
        ("private bound (ppcrlb)", result.ppcrlb),
        ("without privacy (classical)", result.classical),
        ("cost of privacy (privacy_cost)", result.privacy_cost),
        ("floor of that cost (cost_floor)", result.cost_floor),
    ):
        sums.add_row(name, f"{np.trace(matrix):.6g}")
    console.print(sums)
