"""`privest demo`: the whole workflow on embedded data, with the commands that repeat it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from privest.cli._workflow import commands_of
from privest.cli._workflow_text import print_estimate, print_plan
from privest.data import open_source, write_table
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.report import save_report
from privest.workflow import (
    Noise,
    Privacy,
    Spec,
    estimate_release,
    load_spec,
    make_plan,
    simulate_release,
    trial_source,
)
from privest.workflow._releasing import WARNING, header_path

COLUMNS = ("age", "sex", "bmi", "bp", "s5")
REFERENCE = 142  # of 442 people, a fixed random choice; the others are the private ones
SEED = 1  # the readings here are public: so that the commands, typed again, give the same page
FILES = ("people.csv", "reference.csv", "plan.toml", "release.csv", "report.html")


def show(console: Console, folder: Path) -> None:
    """Run it, print it, and say where the page is."""
    people, reference, plan_file, release, page = (folder / name for name in FILES)
    spec = Spec(
        data=people.name,
        target="s5",
        features=("age", "sex", "bmi", "bp"),
        categories={"sex": ("0", "1")},
        noise=Noise(reference=reference.name),
        privacy=Privacy(level=4.0, delta=1e-6, move=0.5),
    )
    made = [people, reference, plan_file, release, header_path(release), page]
    _clear(folder, made, plan_file, spec.to_toml())
    atomic_write(plan_file, spec.to_toml())
    _split(people, reference)
    console.print(
        Text(
            "442 people; their (logarithmic) triglycerides s5 are private. How do they depend on "
            f"age, sex, body mass index and blood pressure? {REFERENCE} of the people are a public "
            "reference that tells how large the noise is; the others release noisy readings only."
        )
    )
    commands = commands_of(plan_file, release, page, SEED)
    _command(console, f"{commands[0]} --want bmi=0.005")
    found = make_plan(load_spec(plan_file))
    print_plan(console, found, "bmi=0.005", found.rows_for(0.005, "bmi"))
    _command(console, commands[1])
    header = simulate_release(found, release, trial_source(found, SEED))
    console.print(Text(f"{header.rows:,} rows released at level {header.level:g}. {WARNING}"))
    _command(console, commands[2])
    estimated = estimate_release(release)
    print_estimate(console, estimated, 0.95)
    _command(console, commands[3])
    save_report(found, estimated, commands, page)
    console.print(Text(f"The report, one page for people: {page}", style="bold"), soft_wrap=True)


def _clear(folder: Path, made: list[Path], plan_file: Path, plan: str) -> None:
    """Take away what an earlier demo made, and nothing else of that name."""
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


def _command(console: Console, line: str) -> None:
    console.print(Rule(style="dim"))
    console.print(Text(f"$ {line}", style="bold"), soft_wrap=True)  # to be copied as one line


def _split(people: Path, reference: Path) -> None:
    """The embedded table as two files."""
    rows = np.column_stack(list(open_source("diabetes").read(COLUMNS).values()))
    order = np.random.default_rng(7).permutation(len(rows))
    write_table(reference, COLUMNS, [list(rows[np.sort(order[:REFERENCE])].T)])
    write_table(people, COLUMNS, [list(rows[np.sort(order[REFERENCE:])].T)])
