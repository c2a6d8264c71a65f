"""`privest demo`: plan, release, estimate and report on embedded data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.rule import Rule

from privest.cli.console import shown, to_people
from privest.cli.options import command
from privest.cli.owner import ESTIMATE, Charge
from privest.data.source import open_source
from privest.data.writer import write_table
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.ledger import discard
from privest.report.describe import describe
from privest.report.page import report
from privest.report.terminal import print_sections
from privest.workflow.account import LEDGER
from privest.workflow.commands import commands_of
from privest.workflow.estimate import estimate
from privest.workflow.plan import Plan, make_plan
from privest.workflow.release import release as release_table
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Model, Privacy, Public, Spec, load_spec, to_toml

COLUMNS = ("age", "sex", "bmi", "bp", "s5")
REFERENCE = 142  # of 442 people, a fixed random choice; the others are the private ones
SEED = 1  # of the simulation: its commands, typed again, give the same page
FILES = ("people.csv", "reference.csv", "plan.toml", "z.json", "report.html")
EPSILON = 3.0


@command()
def demo(out: Path = Path("out/demo"), simulate: bool = False) -> None:
    """Plan, release, estimate and report on embedded data: triglycerides of 300 people.

    142 more people are a public reference. The release is real, with a ledger: its noise, and so
    the estimates, differ in every run. A demo that is run again begins with a new ledger, which no
    private values should ever do.

    Options:
    out DIR   Folder to write to.
    simulate  Simulated noise of a fixed seed: the same page in every run.
    """
    console, folder, seed = to_people(), out, SEED if simulate else None
    people, reference, plan_file, release, page = (folder / name for name in FILES)
    spec = Spec(
        people.name,
        Model(("s5",), ("age", "sex", "bmi", "bp"), categories={"sex": ("0", "1")}),
        Privacy(epsilon=EPSILON, delta=1e-6, range={"s5": (3.0, 6.5)}, form="aggregate"),
        Public(reference=reference.name),
    )
    plan_text, ledger = to_toml(spec), folder / LEDGER
    made = [people, reference, plan_file, release, page, ledger]
    _clear(folder, made, plan_file, plan_text)
    discard(ledger)  # these people are public: every run is their first release
    atomic_write(plan_file, plan_text)
    _split(people, reference)
    console.print(
        shown(
            "300 people; their (logarithmic) triglycerides s5 are private. How do they depend on "
            f"age, sex, body mass index and blood pressure? {REFERENCE} more people are a public "
            "reference set for the residual variance."
        )
    )
    commands = commands_of(plan_file, release, page, seed=seed)
    _type(console, commands.plan)
    found = make_plan(load_spec(plan_file))
    print_sections(console, describe(found))
    console.print(shown(_beside_rows(found)))
    _type(console, commands.release)
    if seed is None:
        with Charge().account(found.spec, plan_file) as account:
            header = release_table(found, release, account=account)
            sections = describe(header, account=account, keys=("release",))
    else:
        header = simulate_release(found, release, simulation_source(found, seed))
        sections = describe(header, keys=("release",))
    print_sections(console, sections)
    _type(console, commands.estimate)
    estimated = estimate(release)
    print_sections(console, describe(estimated, keys=ESTIMATE))
    _type(console, commands.report)
    names = plan_file.name, release.name, page.name  # where they lie is nobody else's business
    ledger_name = None if seed is not None else LEDGER
    commands = commands_of(*names, seed=seed, ledger=ledger_name)
    report(estimated, page, plan=found, commands=commands)
    console.print(shown(f"The report, one page for people: {page}", style="bold"), soft_wrap=True)


def _beside_rows(plan: Plan) -> str:
    """The cost of the other form at the same ε."""
    privacy = replace(plan.spec.privacy, form="rows")
    rows = make_plan(replace(plan.spec, privacy=privacy))
    times = float((rows.standard_error / plan.standard_error).mean())
    return f"At the same ε, noisy rows would have errors {times:.1f} times as large."


def _clear(folder: Path, made: list[Path], plan_file: Path, plan: str) -> None:
    """Remove what an earlier demo made, and nothing else of that name."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = [file for file in made if file.exists()]
        if there and not (plan_file.is_file() and plan_file.read_bytes() == plan.encode()):
            raise InvalidInput(
                f"{there[0]} was not made by the demo, which would write over it: choose another "
                "folder with --out."
            )
        for file in there:
            file.unlink()
    except OSError as error:
        raise InvalidInput(f"--out {folder} cannot be used: {error.strerror}.") from None


def _type(console: Console, line: str) -> None:
    console.print(Rule(style="dim"))
    console.print(shown(f"$ {line}", style="bold"), soft_wrap=True)  # to be copied as one line


def _split(people: Path, reference: Path) -> None:
    rows = np.column_stack(list(open_source("diabetes").read(COLUMNS).values()))
    order = np.random.default_rng(7).permutation(len(rows))
    write_table(reference, COLUMNS, [list(rows[np.sort(order[:REFERENCE])].T)])
    write_table(people, COLUMNS, [list(rows[np.sort(order[REFERENCE:])].T)])
