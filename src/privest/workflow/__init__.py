"""The data owner's path: specification, plan, release, estimate, report.

    Spec → Plan → TableRelease → TableEstimate → sections → terminal | page | app

`privest.plan` makes a plan, `privest.estimate` reads a release, `privest.verify` checks one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privest.workflow.document import TableRelease, read_release
    from privest.workflow.plan import Plan, read_plan
    from privest.workflow.spec import Spec
    from privest.workflow.verify import Verification

__all__ = [
    "Plan", "Section", "Spec", "TableRelease", "Verification", "describe", "read_plan",
    "read_release", "report",
]  # fmt: skip

_HOME = {
    "Plan": "workflow.plan", "Section": "report.sections", "Spec": "workflow.spec",
    "TableRelease": "workflow.document", "Verification": "workflow.verify",
    "describe": "report.describe", "read_plan": "workflow.plan",
    "read_release": "workflow.document", "report": "report.page",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"privest.{_HOME[name]}"), name)
    setattr(sys.modules[__name__], name, found)
    return found
