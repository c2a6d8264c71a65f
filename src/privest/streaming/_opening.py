"""The input of a stream, opened: rows of readings, or of releases that were made elsewhere."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from privest.data._release_lines import OWN, steps_only
from privest.data._text_table import open_lines
from privest.errors import InvalidInput
from privest.streaming._plan import StreamPlan
from privest.streaming._rows import Rows


def opened_rows(plan: StreamPlan, stack: ExitStack) -> tuple[Rows, dict[str, Any]]:
    """Rows as they come, and what the first line of releases says once it is read."""
    lines = stack.enter_context(open_lines(plan.source, reading=plan.reading))
    received = plan.sides.from_releases
    facts: dict[str, Any] = {}
    rows = Rows(
        steps_only(lines, facts) if received and plan.json_in else lines,
        json_lines=plan.json_in,
        value="z" if received else plan.target,
        features=plan.features,
        others=[name for name in OWN if name != "z"] if received else (),
        finite=received or plan.trial.simulate,
        time=plan.time,
        reading=plan.reading,
        file=plan.source,
    )
    return rows, facts


def require_different_files(plan: StreamPlan) -> None:
    """Input, output, checkpoint, ledger and picture: none may write over another."""
    named = {"the input": None if plan.source == "-" else Path(plan.source)}
    named |= {"--output": plan.output.output, "--checkpoint": plan.checkpoint}
    named |= {"--png": plan.output.png, "--ledger": plan.account.ledger}
    named |= {"--reference": plan.reference}
    seen: dict[Path, str] = {}
    for name, path in named.items():
        if path is None or str(path) == os.devnull:
            continue
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise InvalidInput(f"{other} and {name} are the same file: {path}.")
