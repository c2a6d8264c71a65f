"""`privest plan`, `release`, `estimate`: a data owner's Tuesday."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from privest.arrays import CONFIDENCE
from privest.cli import _options as common
from privest.cli._console import print_json, tell_file, to_people, to_stderr
from privest.cli._options import group, grouped, option
from privest.cli._plan_options import (
    FileOptions,
    Model,
    NoiseOptions,
    WantedPrivacy,
    ranges,
    spec_of,
)
from privest.data import EMBEDDED, is_number
from privest.errors import InvalidInput
from privest.files import require_writable
from privest.records import plain
from privest.report import describe, print_sections, save_report
from privest.workflow import (
    LEDGER,
    Account,
    Plan,
    Spec,
    Steps,
    account_name,
    commands_of,
    document_path,
    load_spec,
    make_plan,
    require_same_terms,
    save_spec,
    simulate_release,
    simulation_source,
    stated_plan,
)
from privest.workflow import estimate as estimate_table
from privest.workflow import release as release_table

PlanFile = Annotated[
    Path, typer.Argument(help="Plan file, made with `privest plan --save`.", metavar="PLAN")
]
ESTIMATED = ("found", "errors", "asked", "joint")  # sections of `privest estimate`
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
    json: common.Json = False

    def require_possible(self) -> None:
        """Refuse names that cannot be written, before any work."""
        if self.save is not None:
            require_writable(self.save)
            if self.save.suffix.lower() != ".toml":
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
    """What would a private regression cost? Planning never reads the private column.

    Says whether the coefficients can be estimated, their standard errors without and with
    privacy, what one person is exposed to, and how many rows a wanted accuracy takes.

    Examples:

    privest plan diabetes --target s5 --features age,sex,bmi,bp --noise-variance 0.2 --level 2

    privest plan people.csv --target ldl --features age,sex --category sex=female,male
    --reference reference.csv --epsilon 1 --delta 1e-6 --move 0.5 --save plan.toml

    privest plan people.xlsx --formula "ldl ~ age + C(sex) + np.log(bmi)" --category sex=female,male
    --level 2

    privest plan people.csv --target ldl --mean --by sex --category sex=female,male --level 2
    """
    output.require_possible()
    spec = spec_of(source, model, privacy, noise, files, output.expect)
    output.require_free()
    found = make_plan(spec)
    rows = _rows_wanted(found, output.want or [])
    if output.save is not None:  # before printing: a closed pipe must not lose it
        save_spec(spec, output.save)
        tell_file("Plan", output.save)
    if output.json:
        more = {"rows_wanted": rows, "offers": plain(found.offers())}
        print_json(found.to_dict() | {name: value for name, value in more.items() if value})
    else:
        wanted = dict(zip(output.want or [], rows.values()))
        print_sections(to_people(), describe(found, wanted=wanted))


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
            "Of a new account: the privacy level of one value (a larger one reveals more), all "
            "releases together. Left out: what this release costs.",
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
    found = stated_plan(spec) or make_plan(spec)  # most are known without reading the data
    paths = output, document_path(output)
    if trial.simulate:
        header = simulate_release(found, output, simulation_source(found, trial.seed))
        sections = describe(header, paths=paths)
    else:
        with charged.account(spec, plan_file) as account:
            header = release_table(found, output, account=account)
            sections = describe(header, paths=paths, account=account)
    print_sections(to_stderr(), sections, ("release",))


def _with_range(spec: Spec, given: str | None) -> Spec:
    """The spec with the range of an option; it may not say another than the plan."""
    ends = common.as_span(given)
    if ends is None:
        return spec
    stated = ranges(ends, spec.targets)
    if spec.privacy.range not in ({}, stated):
        raise InvalidInput(f"--range {given}: the plan states another range: change it there.")
    return replace(spec, privacy=replace(spec.privacy, range=stated))


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
    found = estimate_table(table, errors)
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
    sections = describe(found, confidence=confidence, means=means, total=sum_)
    print_sections(to_people(), sections, ESTIMATED)


def rows_given(given: list[str] | None) -> dict[str, Mapping[str, object]]:
    """--at NAME=VALUE,…: each as values by name; what is no number is a category."""
    rows: dict[str, Mapping[str, object]] = {}
    for one in given or []:
        values: dict[str, object] = {}
        for part in common.listed(one):
            name, equals, value = part.rpartition("=")
            if not equals or not name or not value:
                raise InvalidInput(f"--at {one}: write NAME=VALUE,…, for example age=50,sex=male.")
            if name in values:
                raise InvalidInput(f"--at {one}: {name!r} is there twice.")
            values[name] = float(value) if is_number(value) else value
        rows[one] = values
    return rows


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
    estimated, spec = estimate_table(table), load_spec(plan_file)
    if not spec.privacy.range and len(spec.targets) == 1:  # given to the release (--range)
        spec = replace(spec, privacy=replace(spec.privacy, range=estimated.release.privacy.range))
    found = make_plan(spec)
    require_same_terms(found, estimated.release, str(table))
    trial, ledger = estimated.release.simulated, _ledger_beside(spec, plan_file)
    steps = Steps(plan_file, table, output, simulated=trial, ledger=ledger)
    save_report(found, estimated, commands_of(steps), output)
    tell_file("Report", output)


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
