"""The steps of a piece of work as Python: cells of text and code, for a script and a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from textwrap import indent
from typing import Any

import privest
from privest.arrays import CONFIDENCE
from privest.data import EMBEDDED
from privest.report import printable
from privest.workflow import AUTO, Spec, Steps, document_path, stated

WIDTH = 88


@dataclass(frozen=True)
class Cell:
    """A piece of code, and what it is for, as paragraphs of plain text."""

    heading: str
    text: tuple[str, ...]
    code: str = ""


def cells_of(spec: Spec, steps: Steps, commands: Sequence[str]) -> list[Cell]:
    """All steps in their order: the same numbers come out, to the last digit."""
    made = [_beginning(spec, steps), _plan(spec, steps), _release(steps)]
    if steps.made or steps.repeatable:
        return [*made, _verify(steps), _estimate(spec, steps), _report(steps, commands)]
    return [*made, _afterwards(steps)]


def one_line(text: str) -> str:
    """A text of others as part of a comment: it cannot end it."""
    return " ".join(printable(text).split())


def _beginning(spec: Spec, steps: Steps) -> Cell:
    targets, names = ", ".join(spec.targets), ", ".join(spec.model.features) or "nothing: a mean"
    needed = [] if spec.data == EMBEDDED else [f"{spec.data} (the data, which are private)"]
    if spec.public.reference not in (None, EMBEDDED):
        needed.append(f"{spec.public.reference} (the public reference set)")
    if steps.made and not steps.repeatable:
        needed.append(f"{steps.table} with {document_path(Path(steps.table)).name} (the release)")
    beside = f" In the same folder: {', '.join(needed)}." if needed else ""
    return Cell(
        f"{one_line(targets)} by {one_line(names)}, with privacy",
        (
            f"Made by privest {privest.__version__}. It does again what was done in the app, and "
            "comes to the same numbers, to the last digit.",
            f"It needs privest: pip install 'privest[{extras_of(spec)}]'."
            + (f" {one_line(beside)}" if beside else ""),
        ),
        "from pathlib import Path\n\nimport privest as pv\nfrom privest.report import save_report",
    )


def extras_of(spec: Spec) -> str:
    """What of privest has to be installed for this in Python."""
    return "data,learn,plot" if spec.data == EMBEDDED else "data,plot"


def _plan(spec: Spec, steps: Steps) -> Cell:
    shown = "print(plan.to_frame().to_csv(index=False))"
    code = f"plan = {call_of(spec)}\n{shown}"
    text = [
        "What will be known, and what one reading will show. Nothing is spent: nothing here "
        f"depends on the private readings. ({steps.plan} says the same: "
        f"pv.workflow.make_plan(pv.workflow.load_spec({str(steps.plan)!r})).)",
    ]
    if for_colleagues(spec, steps):
        text.append(
            "The data stay with their holder. Where they are not here this step is left out; the "
            "estimate below needs the release only."
        )
        code = f"plan = None\nif Path({spec.data!r}).exists():\n{indent(code, '    ')}"
    return Cell("1. The plan", tuple(text), code)


def _release(steps: Steps) -> Cell:
    if steps.repeatable:
        table = repr(str(steps.table))
        return Cell(
            "2. A trial",
            (
                "Simulated noise, which protects nothing, and the seed that it had: the same table "
                "comes out, byte for byte. Keep it to yourself. A table that is there already is "
                "not written over.",
            ),
            f"if not Path({table}).exists():\n    plan.simulate({table}, seed={steps.seed})",
        )
    if steps.trial:
        return Cell(
            "2. A trial",
            (
                "It had simulated noise and no seed: the same noise does not come again. The table "
                "that is there is used. With a seed it could be repeated:",
            ),
            f"# plan.simulate({str(steps.table)!r}, seed=1)",
        )
    words = {"ledger": steps.ledger, "subject": steps.subject, "budget": steps.budget}
    told = [f"{name}={_literal(value)}" for name, value in words.items() if value is not None]
    told += ["again=True"] if steps.again else []
    call = indent(f"plan.release({', '.join([repr(str(steps.table)), *told])})", "# ")
    why = (
        "This was done once, and is not done again here: its noise has no seed, and to release the "
        "same readings with new noise would spend their privacy again. The ledger would refuse it. "
        "The call was:"
        if steps.made
        else "For the data holder, and once: it cannot be taken back. The noise has no seed, and "
        "what is shown is charged to the ledger. Remove the # to do it:"
    )
    return Cell("2. The release", (why,), call)


def _verify(steps: Steps) -> Cell:
    trial = ", allow_simulated=True" if steps.trial else ""
    text = ["Was it changed since it was written?"]
    if steps.made and not steps.trial:
        text.append(
            "The data holder can also see that it is the one that was paid for: name the ledger as "
            "the second argument."
        )
    return Cell(
        "3. Is it whole?",
        tuple(text),
        f"checked = pv.workflow.verify({str(steps.table)!r}{trial})\n"
        'print(*checked.examined, "not examined:", *checked.not_examined, sep="\\n")',
    )


def _estimate(spec: Spec, steps: Steps) -> Cell:
    table, level = repr(str(steps.table)), _confidence(steps)
    how = "" if steps.errors == AUTO else f", errors={steps.errors!r}"
    given = f", {level}" if level else ""
    lines = [f"estimate = pv.estimate({table}{how})", f"print(estimate.summary({level}))"]
    asked = [f"to_frame({level}).to_csv(index=False)"]
    asked += [f"mean_at({_literal(dict(row), 8)}{given})" for row in steps.at]
    asked += [f"total({level})"] if steps.total else []
    if len(spec.targets) == 1:
        lines += [f"print(estimate.{what})" for what in asked]
    else:
        lines += [f"for target in {spec.targets!r}:", "    print(target)"]
        lines += [f"    print(estimate[target].{what})" for what in asked]
    return Cell(
        "4. The estimate",
        ("From the release alone. The intervals include the noise of the release.",),
        "\n".join(lines),
    )


def _report(steps: Steps, commands: Sequence[str]) -> Cell:
    lines = "".join(f"    {line!r},\n" for line in commands)
    how = f", confidence={_confidence(steps)}" if _confidence(steps) else ""
    call = f"save_report(plan, estimate, commands, Path({str(steps.page)!r}){how})"
    return Cell(
        "5. The report",
        ("One page for people, with the commands of a shell that do the same.",),
        f"commands = [\n{lines}]\n{call}",
    )


def _afterwards(steps: Steps) -> Cell:
    return Cell(
        "3. Afterwards",
        ("Once the release is there, this is the estimate. It needs the release only.",),
        f"# print(pv.estimate({str(steps.table)!r}).summary({_confidence(steps)}))",
    )


def for_colleagues(spec: Spec, steps: Steps) -> bool:
    """Whether somebody without the data can go on: from a real release."""
    return steps.made and not steps.trial and spec.data != EMBEDDED


def _confidence(steps: Steps) -> str:
    return "" if steps.confidence == CONFIDENCE else repr(steps.confidence)


# --- a plan as a call -----------------------------------------------------------------------------


def call_of(spec: Spec) -> str:
    """`pv.plan(…)` with the arguments that state this plan, one a line.

    >>> from privest.workflow import Model, Privacy
    >>> print(call_of(Spec("people.csv", Model(("ldl",), ("age",)), Privacy(4.0))))
    pv.plan(
        'people.csv',
        target=['ldl'],
        features=['age'],
        level=4.0,
    )
    """
    given = stated(spec)
    arguments: dict[str, Any] = {}
    for section in ("model", "privacy", "public"):
        arguments |= given.get(section, {})
    if "format" in given:
        arguments["format"] = given["format"]
    lines = [_literal(spec.data)]
    lines += [f"{name}={_literal(value, len(name) + 5)}" for name, value in arguments.items()]
    return "pv.plan(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def _literal(value: object, column: int = 4) -> str:
    """A value as Python writes it; what is long goes over several lines."""
    if isinstance(value, Mapping):
        value = dict(value)
    elif not isinstance(value, int | float | list | tuple):
        value = str(value)
    text = pformat(value, width=max(WIDTH - column, 40), compact=True, sort_dicts=False)
    return text.replace("\n", "\n" + " " * column)
