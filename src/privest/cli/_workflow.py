"""`privest plan`, `release`, `estimate`: a data owner's Tuesday."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from privest.arrays import CONFIDENCE
from privest.cli import _options as common
from privest.cli._console import print_json, shown, tell_file, to_people, to_stderr
from privest.cli._options import group, grouped, option
from privest.cli._original_text import print_means, print_total, rows_given
from privest.cli._plan_options import (
    FileOptions,
    Model,
    NoiseOptions,
    WantedPrivacy,
    numbers_by_name,
    spec_of,
)
from privest.cli._workflow_text import print_estimate, print_plan
from privest.data import EMBEDDED, is_number
from privest.errors import InvalidInput
from privest.files import require_writable
from privest.records import plain
from privest.report import (
    charged_to,
    left_out,
    level_of,
    plural,
    require_files,
    save_plan_figure,
    save_report,
)
from privest.workflow import (
    Account,
    Plan,
    Spec,
    account_name,
    estimate_release,
    load_spec,
    make_plan,
    require_same_plan,
    save_spec,
    simulate_release,
    stated_terms,
    trial_source,
)
from privest.workflow import release as release_table
from privest.workflow._account import LEDGER
from privest.workflow._commands import Steps, commands_of
from privest.workflow._header import header_path
from privest.workflow._law_plan import offered

PlanFile = Annotated[
    Path, typer.Argument(help="Plan file, made with `privest plan --save`.", metavar="PLAN")
]
Release = Annotated[
    Path, typer.Argument(help="A release, with its header beside it.", metavar="RELEASE")
]


@group(common.OUTPUT)
class PlanOutput:
    """What a plan is asked for, and where it goes."""

    want: Annotated[
        list[str] | None,
        option("How many rows would give this error? Repeat for several coefficients.", "NAME=E"),
    ] = None
    expect: Annotated[
        list[str] | None,
        option(
            "A coefficient as public knowledge has it, for what a range will clip (others are 0). "
            "Repeat for several; without it the reference set tells.",
            "NAME=B",
        ),
    ] = None
    save: Annotated[Path | None, option("Write the plan file.", "FILE.toml")] = None
    overwrite: Annotated[bool, common.OVERWRITE] = False
    png: Annotated[Path | None, option("Write the curve of errors over levels.", "FILE")] = None
    json: common.Json = False

    def require_possible(self) -> None:
        """Refuse names that cannot be written, before any work."""
        require_files(self.save, self.png)
        if self.save is not None and self.save.suffix.lower() != ".toml":
            raise InvalidInput(f"--save {self.save}: plans are written as .toml.")

    def require_free(self) -> None:
        if self.save is not None and self.save.exists() and not self.overwrite:
            raise InvalidInput(
                f"--save {self.save} exists, and releases may have been made under it: choose "
                "another name, or say --overwrite."
            )


@grouped
def plan(
    source: Annotated[
        str,
        typer.Argument(
            help="The data (CSV, TSV, Excel, Parquet, XPT; diabetes needs no file), or a plan file "
            "(.toml).",
            metavar="DATA|PLAN",
        ),
    ],
    model: Model,
    privacy: WantedPrivacy,
    noise: NoiseOptions,
    files: FileOptions,
    output: PlanOutput,
) -> None:
    """What would a private regression cost? Nothing is spent: nothing depends on the readings.

    Says whether the coefficients can be estimated, their standard errors without and with
    privacy, what the level means for one reading, and how many rows a wanted accuracy takes.

    Examples:

    privest plan diabetes --target s5 --features age,sex,bmi,bp --noise-variance 0.2 --level 2

    privest plan people.csv --target ldl --features age,sex --category sex=female,male
    --reference reference.csv --epsilon 1 --delta 1e-6 --move 0.5 --save plan.toml

    privest plan people.xlsx --formula "ldl ~ age + C(sex) + np.log(bmi)" --category sex=female,male
    --level 2

    privest plan people.csv --target ldl --mean --by sex --category sex=female,male --level 2
    """
    output.require_possible()
    spec = spec_of(source, model, privacy, noise, files)
    output.require_free()
    if output.png is not None and (len(spec.targets) > 1 or spec.privacy.level_column is not None):
        raise InvalidInput("--png draws the errors of one target at one level for all rows.")
    found = make_plan(spec, expected=_expected(output.expect))
    rows = _rows_wanted(found, output.want or [])
    if output.save is not None:  # before printing: a closed pipe must not lose it
        save_spec(spec, output.save)
        tell_file("Plan", output.save)
    if output.json:
        more = {"rows_wanted": rows, "offers": plain(offered(found))}
        print_json(found.to_dict() | {name: value for name, value in more.items() if value})
    else:
        print_plan(to_people(), found, dict(zip(output.want or [], rows.values())))
    if output.png is not None:
        save_plan_figure(found, output.png)
        tell_file("Figure", output.png)


@group("Ledger")
class Charged:
    """Where a release is charged."""

    ledger: Annotated[
        Path | None,
        option(
            f"The ledger. Left out: {LEDGER} beside the data (made if it is not there).", "FILE"
        ),
    ] = None
    subject: Annotated[
        str | None,
        option("Whose readings these are. Left out: the target and the name of the data.", "NAME"),
    ] = None
    budget: Annotated[
        float | None,
        option(
            "Of a new account: the privacy level of one reading (larger shows more), all releases "
            "together. Left out: what this release costs.",
            "LEVEL",
        ),
    ] = None
    again: Annotated[
        bool,
        option(
            "Release an account once more, with new noise: levels add up. Of a new account: these "
            "are other measurements of rows that another account has.",
            "",
            names=("--again",),
        ),
    ] = False

    def account(self, spec: Spec, plan_file: Path) -> Account:
        """The account of the plan's readings."""
        place = self.ledger or _ledger_beside(spec, plan_file)
        return Account(place, self.subject or account_name(spec), self.budget, again=self.again)


def _ledger_beside(spec: Spec, plan_file: Path) -> Path:
    """The ledger of a release that names none: beside the data."""
    return (plan_file if spec.data == EMBEDDED else Path(spec.data)).parent / LEDGER


@grouped
def release(
    plan_file: PlanFile,
    output: Annotated[
        Path, option("Table to write, .csv or .parquet.", "FILE", names=("--output", "-o"))
    ],
    charged: Charged,
    trial: common.Trial,
    limits: Annotated[str | None, common.RANGE] = None,
) -> None:
    """Write z, one noisy reading a row, with the public features, and a JSON header beside it.

    The readings themselves are never written. The noise is exact and has no seed: z are whole
    numbers, and z·unit (the header says it) is a reading with its noise. No reading is refused:
    beyond the range it is clipped. What it shows is written to a ledger before the table appears:
    an account is not released again, with new noise, unless its budget allows it and
    you say so. A run that was killed is finished by the same command. `--simulate` is a trial that
    spends nothing and gives no protection.

    Example:

    privest release plan.toml --output release.csv
    """
    if trial.simulate and charged != Charged():
        raise InvalidInput("--simulate is a trial, which spends nothing: leave the ledger out.")
    spec = _with_range(load_spec(plan_file), limits)
    terms = stated_terms(spec) or make_plan(spec)  # most are known without reading the data
    if trial.simulate:
        header = simulate_release(terms, output, trial_source(terms, trial.seed))
        more = header.warning or ""
    else:
        with charged.account(spec, plan_file) as account:
            header = release_table(terms, output, account=account)
            more = charged_to(header, account)
    console = to_stderr()
    done = f"{plural(header.rows, 'row')} released at {level_of(header)}."
    console.print(shown(f"{done} {left_out(header)}".strip()))
    console.print(shown(f"Table: {output}\nHeader: {header_path(output)}"), soft_wrap=True)
    console.print(shown(more, style="bold" if header.simulated else ""), soft_wrap=True)


def _with_range(spec: Spec, given: str | None) -> Spec:
    """The spec with the range of an option; it may not say another than the plan."""
    ends = common.as_span(given)
    if ends is None:
        return spec
    if spec.privacy.range not in (None, ends):
        raise InvalidInput(f"--range {given}: the plan states another range: change it there.")
    return replace(spec, privacy=replace(spec.privacy, range=ends))


def estimate(
    table: Release,
    confidence: Annotated[float, option("Of the intervals.")] = CONFIDENCE,
    errors: Annotated[
        str,
        option(
            "How errors are made: auto (HC3 from 25 degrees of freedom on, Student's t from the "
            "release below, Bell-McCaffrey where few rows decide a coefficient), t, HC3, HC2, or "
            "stated (by the noise variance of the plan), huber "
            "(Huber's estimate, for a few wild readings); with persons cr2 (auto) or reml.",
            "HOW",
        ),
    ] = "auto",
    at: Annotated[
        list[str] | None,
        option(
            "The mean and the median of the target in its own units at this row, with a value for "
            "every feature: age=50,sex=male. Repeat for several rows.",
            "NAME=VALUE,…",
        ),
    ] = None,
    total: Annotated[
        bool,
        option("The total of the target over the rows, in its own units.", "", names=("--total",)),
    ] = False,
    json: common.Json = False,
) -> None:
    """The coefficients from a release alone, with intervals that include the privacy noise.

    The noise variance of the readings need not be known: errors come from what the release itself
    scatters, and the estimate says how they were made.

    Of a target that is modelled as its logarithm also as per cent.

    Examples:

    privest estimate release.csv --confidence 0.9

    privest estimate release.csv --at age=50,sex=male --at age=70,sex=male --total
    """
    rows = rows_given(at)
    found = estimate_release(table, errors)
    found.interval(confidence)
    # All of it before anything is printed: what is asked for may not be there.
    means = {name: found.mean_at(row, confidence) for name, row in rows.items()}
    sum_ = found.total(confidence) if total else None
    if json:
        more = {"at": {name: mean.to_dict() for name, mean in means.items()}} if means else {}
        if sum_ is not None:
            more["total"] = sum_.to_dict()
        print_json(found.to_dict(confidence) | more)
        return
    console = to_people()
    print_estimate(console, found, confidence)
    print_means(console, found, means, confidence)
    if sum_ is not None:
        print_total(console, found, sum_, confidence)


def report(
    plan_file: PlanFile,
    table: Release,
    output: Annotated[Path, option("Page to write.", "FILE.html", names=("--output", "-o"))] = Path(
        "report.html"
    ),
    overwrite: Annotated[bool, common.OVERWRITE] = False,
) -> None:
    """One self-contained HTML page: estimates, what privacy cost, what it promises, how to repeat.

    Made from the plan and the release; nothing in it depends on the readings but by the release.

    Example:

    privest report plan.toml release.csv --output report.html
    """
    with common.about("--output"):
        require_writable(output)
        if output.suffix.lower() not in (".html", ".htm"):
            raise InvalidInput(f"{output}: the page is .html.")
        if output.exists() and not overwrite:
            raise InvalidInput(f"{output} exists: choose another name, or say --overwrite.")
    estimated, spec = estimate_release(table), load_spec(plan_file)
    if spec.privacy.range is None and len(spec.targets) == 1:  # given to the release (--range)
        spec = replace(spec, privacy=replace(spec.privacy, range=estimated.release.range))
    found = make_plan(spec)
    require_same_plan(found, estimated.release, str(table))
    trial, ledger = estimated.release.simulated, _ledger_beside(spec, plan_file)
    steps = Steps(plan_file, table, output, simulated=trial, ledger=ledger)
    save_report(found, estimated, commands_of(steps), output)
    tell_file("Report", output)


def _expected(given: list[str] | None) -> dict[str, float] | None:
    """--expect NAME=B, as numbers by name."""
    return None if given is None else numbers_by_name(given, "--expect")


def _rows_wanted(found: Plan, wanted: list[str]) -> dict[str, int]:
    """How many rows each of the coefficients needs, by its name."""
    rows: dict[str, int] = {}
    for want in wanted:
        name, equals, value = want.rpartition("=")
        if not equals or not is_number(value):
            raise InvalidInput(f"--want {want}: write NAME=ERROR, for example age=0.1.")
        if name in rows:
            raise InvalidInput(f"--want {want}: an error of {name!r} is wanted twice.")
        with common.about(f"--want {want}"):
            rows[name] = found.rows_for(float(value), name)
    return rows
