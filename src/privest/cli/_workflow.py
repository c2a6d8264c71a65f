"""`privest plan`, `release`, `estimate`: a data owner's Tuesday."""

from __future__ import annotations

import json as json_module
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from privest.cli._workflow_text import print_estimate, print_plan
from privest.errors import InvalidInput
from privest.report import require_files, save_plan_figure, save_report
from privest.workflow import (
    Noise,
    Plan,
    Privacy,
    Spec,
    TableRelease,
    estimate_release,
    load_spec,
    make_plan,
    save_spec,
    simulate_release,
    stated_terms,
    trial_source,
)
from privest.workflow._plan_file import ENDINGS
from privest.workflow._releasing import WARNING, header_path

PlanFile = Annotated[
    Path, typer.Argument(help="Plan file, made with `privest plan --save`.", metavar="PLAN")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", metavar="")]


def plan(
    source: Annotated[
        str,
        typer.Argument(
            help="The data (CSV, Parquet, XPT; diabetes needs no file), or a plan file "
            "(.toml, .yaml).",
            metavar="DATA|PLAN",
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="Column of the private readings.", metavar="NAME")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="Public columns, separated by commas.", metavar="NAME,NAME,..."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            help="A feature that is a category, with its public list; the first is the baseline. "
            "Repeat for each.",
            metavar="NAME=A,B,...",
        ),
    ] = None,
    noise_variance: Annotated[
        float | None,
        typer.Option(help="Variance of the readings given the features.", metavar="σ²"),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Instead: a public reference set with the same columns.", metavar="FILE"),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(help="Privacy level s: Fisher information about one reading.", metavar="S"),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Instead: ε, with --delta and --move.", metavar="ε")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ.", metavar="δ")] = None,
    move: Annotated[
        float | None,
        typer.Option(
            help="What ε speaks of: one reading moves by at most this (after --transform).",
            metavar="C",
        ),
    ] = None,
    standard_error: Annotated[
        float | None,
        typer.Option(help="Instead: the level that gives this error, with --of.", metavar="E"),
    ] = None,
    of: Annotated[str | None, typer.Option(help="... of this coefficient.", metavar="NAME")] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Rows with missing values: refuse (the default) or drop.", metavar="CHOICE"
        ),
    ] = None,
    transform: Annotated[
        str | None,
        typer.Option(help="Of the target: none (the default), log, box-cox.", metavar="KIND"),
    ] = None,
    exponent: Annotated[
        float | None,
        typer.Option(
            help="Of box-cox, where it is known; else it is fitted on the reference.", metavar="λ"
        ),
    ] = None,
    intercept: Annotated[
        bool | None, typer.Option(help="A constant term (there is one, unless told).")
    ] = None,
    want: Annotated[
        str | None,
        typer.Option(help="How many rows would give this error?", metavar="NAME=E"),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the plan file.", metavar="FILE.toml")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a plan file that exists.", metavar="")
    ] = False,
    png: Annotated[
        Path | None, typer.Option(help="Write the curve of errors over levels.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """What would a private regression cost? Nothing is spent: the readings are not even read.

    Says whether the coefficients can be estimated, their standard errors without and with
    privacy, what the level means for one reading, and how many rows a wanted accuracy takes.

    Examples:

    privest plan diabetes --target s5 --features age,sex,bmi,bp --noise-variance 0.2 --level 2

    privest plan people.csv --target ldl --features age,sex --category sex=female,male
    --reference reference.csv --epsilon 1 --delta 1e-6 --move 0.5 --save plan.toml
    """
    if save is not None and save.suffix.lower() != ".toml":
        raise InvalidInput(f"--save {save}: plans are written as .toml.")
    require_files(None, png)
    options = (
        target, features, category, noise_variance, reference, exponent, level, epsilon, delta,
        move, standard_error, of, missing, transform, intercept,
    )  # fmt: skip
    if Path(source).suffix.lower() in ENDINGS:
        if any(option is not None for option in options):
            raise InvalidInput(
                f"{source} is a plan and says all that: change it there, or give the data and the "
                "options."
            )
        spec = load_spec(source)
    else:
        spec = Spec(
            data=source,
            target=_needed(target, "--target"),
            features=tuple(_listed(_needed(features, "--features"))),
            categories=_categories(category or []),
            noise=Noise(noise_variance, reference, exponent),
            privacy=Privacy(level, epsilon, delta, move, standard_error, of),
            intercept=intercept is not False,
            missing=missing or "refuse",  # type: ignore[arg-type] # checked by Spec
            transform=transform or "none",  # type: ignore[arg-type] # checked by Spec
        )
    if save is not None and save.exists() and not overwrite:
        raise InvalidInput(
            f"--save {save} exists, and releases may have been made under it: choose another name, "
            "or say --overwrite."
        )
    found = make_plan(spec)
    wanted = None if want is None else _wanted(found, want)
    report = Console(stderr=True, highlight=False)
    if save is not None:  # before printing: a closed pipe must not lose it
        save_spec(spec, save)
        report.print(Text(f"Plan: {save}"), soft_wrap=True)
    if json:
        record = found.to_dict() | ({} if wanted is None else {"rows_wanted": wanted})
        typer.echo(json_module.dumps(record, indent=1, ensure_ascii=False))
    else:
        print_plan(Console(highlight=False), found, want, wanted)
    if png is not None:
        save_plan_figure(found, png)
        report.print(Text(f"Figure: {png}"), soft_wrap=True)


def release(
    plan_file: PlanFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Table to write, .csv or .parquet.", metavar="FILE"),
    ],
    seed: Annotated[
        int | None, typer.Option(help="Seed of the simulated noise, to repeat a trial.", min=0)
    ] = None,
) -> None:
    """Write z, one noisy reading a row, with the public features, and a JSON header beside it.

    The readings themselves are never written. **The noise of this version is simulated: it shows
    what a release would look like and gives no protection.** An existing file is not
    written over: a second release of the same readings spends their privacy a second time.

    Example:

    privest release plan.toml --output release.csv
    """
    spec = load_spec(plan_file)
    terms = stated_terms(spec) or make_plan(spec)  # most are known without reading the data
    header = simulate_release(terms, output, trial_source(terms, seed))
    console = Console(stderr=True, highlight=False)
    left = f", {header.dropped:,} rows with missing values left out" if header.dropped else ""
    console.print(Text(f"{header.rows:,} rows released at level {header.level:g}{left}."))
    console.print(Text(f"Table: {output}\nHeader: {header_path(output)}"), soft_wrap=True)
    console.print(Text(WARNING, style="bold"))


def estimate(
    table: Annotated[
        Path, typer.Argument(help="A release, with its header beside it.", metavar="RELEASE")
    ],
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    json: Json = False,
) -> None:
    """The coefficients from a release alone, with intervals that include the privacy noise.

    Example:

    privest estimate release.csv --confidence 0.9
    """
    found = estimate_release(table)
    found.interval(confidence)
    if json:
        typer.echo(json_module.dumps(found.to_dict(confidence), indent=1, ensure_ascii=False))
        return
    print_estimate(Console(highlight=False), found, confidence)


def report(
    plan_file: PlanFile,
    table: Annotated[
        Path, typer.Argument(help="The release, with its header beside it.", metavar="RELEASE")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Page to write.", metavar="FILE.html")
    ] = Path("report.html"),
) -> None:
    """One self-contained HTML page: estimates, what privacy cost, what it promises, how to repeat.

    Made from the plan and the release; the readings are not read.

    Example:

    privest report plan.toml release.csv --output report.html
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"--output {output}: the page is .html.")
    found, estimated = make_plan(load_spec(plan_file)), estimate_release(table)
    require_same_plan(found, estimated.release, str(table))
    save_report(found, estimated, commands_of(plan_file, table, output), output)
    Console(stderr=True, highlight=False).print(Text(f"Report: {output}"), soft_wrap=True)


def require_same_plan(found: Plan, header: TableRelease, table: str) -> None:
    """Refuse a release that was made under another plan, naming what differs."""
    pairs = {
        "target": (found.spec.target, header.target),
        "transform": (found.spec.transform, header.transform),
        "Box-Cox exponent": (found.exponent, header.exponent),
        "coefficients": (found.names, header.names),
        "level": (found.level, header.level),
        "noise variance": (found.noise_variance, header.noise_variance),
    }
    for what, (planned, released) in pairs.items():
        if planned != released:
            raise InvalidInput(
                f"{table} was released under another plan than this one: the {what} differs."
            )


def commands_of(plan_file: Path, table: Path, page: Path, seed: int | None = None) -> list[str]:
    """What to type to do it all again, safe for a shell."""
    plan_name, release_name, page_name = (
        shlex.quote(str(path)) for path in (plan_file, table, page)
    )
    seeded = "" if seed is None else f" --seed {seed}"
    return [
        f"privest plan {plan_name}",
        f"privest release {plan_name} --output {release_name}{seeded}",
        f"privest estimate {release_name}",
        f"privest report {plan_name} {release_name} --output {page_name}",
    ]


def _needed(value: str | None, option: str) -> str:
    if not value:
        raise InvalidInput(f"{option} is needed (or give a plan file).")
    return value


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _categories(given: list[str]) -> dict[str, tuple[str, ...]]:
    found = {}
    for one in given:
        name, equals, values = one.partition("=")
        if not equals or not _listed(values):
            raise InvalidInput(f"--category {one}: write NAME=A,B,C.")
        found[name.strip()] = tuple(_listed(values))
    return found


def _wanted(found: Plan, want: str) -> int:
    name, equals, value = want.rpartition("=")
    try:
        error = float(value)
    except ValueError:
        equals = ""
    if not equals:
        raise InvalidInput(f"--want {want}: write NAME=ERROR, for example age=0.1.")
    return found.rows_for(error, name)
