"""`privest look`, `release`, `verify`, `estimate`, `report`, `schema` and `app`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from privest.arrays import CONFIDENCE
from privest.cli.console import (
    complain,
    new_table,
    print_json,
    shown,
    tell_file,
    to_people,
    to_stderr,
)
from privest.cli.options import LEDGER as LEDGER_PANEL
from privest.cli.options import about, command, format_of, group, listed, named_values
from privest.data.cells import joined
from privest.data.look import TableLook
from privest.data.look import inspect as look_at
from privest.data.source import EMBEDDED
from privest.errors import InvalidInput, PrivestError
from privest.files import require_writable
from privest.report.describe import describe
from privest.report.page import report as write_page
from privest.report.terminal import print_sections
from privest.workflow.account import LEDGER, Account, account_name
from privest.workflow.commands import commands_of, quoted
from privest.workflow.document import document_path, require_same_terms
from privest.workflow.estimate import estimate as estimate_table
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import release as release_table
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Spec, load_spec
from privest.workflow.verify import verify as verify_release

PlanFile = Annotated[
    Path, typer.Argument(help="Plan file, made with `privest plan --save`.", metavar="PLAN")
]
Table = Annotated[str, typer.Argument(help="CSV, TSV, Excel, Parquet.", metavar="DATA")]
Release = Annotated[
    Path,
    typer.Argument(help="A release: a document, or a table and its header.", metavar="RELEASE"),
]
ESTIMATE = ("found", "errors", "asked")  # the sections of `privest estimate`
OUTPUT_FILE = {"names": ("--output", "-o")}
LISTED = 8  # categories of a column that `look` lists
NEEDED = ("jinja2", "markupsafe", "python_multipart", "starlette", "uvicorn")  # of the app


# --- before a plan --------------------------------------------------------------------------------


@command()
def look(
    data: Table,
    public: str | None = None,
    format: list[str] | None = None,
    json: bool = False,
) -> None:
    """Columns of a table and the format of its file. It reads no cell of a private column.

    Kind and missing values of every public column, categories for `privest plan --category`, values
    that may stand for missing ones, and the format to state with --format. A plan is public, so
    none of this may come from a private column.

    Examples:

    privest look people.csv

    privest look people.csv --public age,sex --format decimal=,

    Options:
    public NAME,…  Columns that may be published, whose cells are read. Left out: names alone.
    """
    found = look_at(data, format_of(format), public=listed(public))
    if json:
        print_json(found.to_dict())
    else:
        _print_look(found)


def _print_look(found: TableLook) -> None:
    console = to_people()
    rows = "" if found.rows is None else f": {found.rows:,} rows"
    table = new_table(f"{found.name}{rows}", "column", "kind", "missing", "content")
    table.columns[3].no_wrap, table.columns[3].justify = False, "left"
    for one in found.columns:
        said = [one.problem or ""]
        if one.kind in ("text", "yes-no") and one.different is not None:
            more = ", …" * (len(one.different) > LISTED)
            said.append(", ".join(one.different[:LISTED]) + more)
        if one.codes:
            said.append(f"missing code? {', '.join(code.code for code in one.codes)}")
        missing = "" if one.kind == "unread" else f"{one.missing:,}"
        table.add_row(shown(one.name), one.kind, missing, shown(" ".join(said).strip()))
    console.print(table)
    for note in found.notes:
        console.print(shown(note))
    if found.rows is None:
        console.print("Only names were read. Name the public columns: --public NAME,…")
    if words := _options_of(found):
        console.print(shown("Options of `privest plan` that state this:"))
        console.print(shown(words), soft_wrap=True)  # to be copied as one line


def _options_of(found: TableLook) -> str:
    """How the file is written, missing codes and the categories of texts, as options."""
    form = found.format.to_dict()
    stated = [("--format", f"{key}={form[key]}") for key in ("decimal", "encoding") if key in form]
    codes = [str(code) for code in form.get("missing_codes", ())]
    for one in found.columns:
        codes += [f"{one.name}={code.code}" for code in one.codes if code.plain]
    stated += [("--format", f"missing_codes={code}") for code in codes]
    stated += [
        ("--category", f"{one.name}={joined(one.different)}")
        for one in found.columns
        if one.kind == "text" and one.different
    ]
    return " ".join(f"{option} {quoted(value)}" for option, value in stated)


def schema(
    kind: Annotated[Literal["plan", "header"], typer.Argument(help="What to describe.")],
) -> None:
    """The fields of a plan file, or of the header of a release."""
    from privest.workflow.schema import schema as text_of

    typer.echo(text_of(kind), nl=False)


# --- release --------------------------------------------------------------------------------------


@group(LEDGER_PANEL)
class Charge:
    """Where a release is charged.

    ledger FILE   Ledger, made if it is not there. Left out: privest-ledger.db beside the data.
    subject NAME  Account of these values. Left out: the target and the name of the data.
    budget LEVEL  Budget of a new account: the privacy level of one value (a larger one reveals
                  more), all releases together. Left out: what this release costs.
    again         Release an account once more, with new noise: levels add up. For a new account:
                  different values beside the same public columns as another account.
    """

    ledger: Path | None = None
    subject: str | None = None
    budget: float | None = None
    again: bool = False

    def account(self, spec: Spec, plan_file: Path) -> Account:
        """The account of the plan's values."""
        place = self.ledger or ledger_beside(spec, plan_file)
        return Account(place, self.subject or account_name(spec), self.budget, again=self.again)


def ledger_beside(spec: Spec, plan_file: Path) -> Path:
    """The ledger of a release that names none: beside the data."""
    return (plan_file if spec.data == EMBEDDED else Path(spec.data)).parent / LEDGER


@command(output=OUTPUT_FILE, seed={"min": 0})
def release(
    plan_file: PlanFile, charge: Charge, output: Path, simulate: bool = False,
    seed: int | None = None, publish: str | None = None,
) -> None:  # fmt: skip
    """Write the private release of a plan.

    The aggregate form is one JSON document with the estimates. The form rows is a table with one
    noisy value z per row, and a JSON header beside it.

    The values themselves are never written, and none is rejected: beyond the range it is clipped.
    The noise is exact and has no seed. The release is charged to a ledger before the table appears.
    The same values are released again only with --again, within the budget. The same command
    finishes a run that was killed. --simulate is a dry run: it spends nothing and protects nothing.

    Example:

    privest release plan.toml --output z.json

    Options:
    output FILE   Document to write, .json; of rows a table, .csv or .parquet.
    publish WHAT  Of the aggregate form: estimates (the default), or matrix, for smaller models and
                  means at rows. The matrix shows sums of the features.
    """
    if simulate and charge != Charge():
        raise InvalidInput("--simulate spends nothing: leave the options of the ledger out.")
    if seed is not None and not simulate:
        raise InvalidInput("--seed goes with --simulate: a real release has no seed.")
    spec = load_spec(plan_file)
    if publish is not None:
        spec = replace(spec, privacy=replace(spec.privacy, publish=publish))
    found = stated_plan(spec) or make_plan(spec)  # most are known without reading the data
    paths = output, document_path(output)
    if simulate:
        header = simulate_release(found, output, simulation_source(found, seed))
        sections = describe(header, keys=("release",), paths=paths)
    else:
        with charge.account(spec, plan_file) as account:
            header = release_table(found, output, account=account)
            sections = describe(header, keys=("release",), paths=paths, account=account)
    print_sections(to_stderr(), sections)


@command()
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="A release: a document, a table and its header, or a stream of JSON lines.",
            metavar="RELEASE",
        ),
    ],
    ledger: Path | None = None,
    allow_simulated: bool = False,
    json: bool = False,
) -> None:
    """Was a release changed since it was written, and is it the one that was charged?

    Lists what was checked and what was not. Exit code 0: all was checked and is true; 1: something
    is not true, or was not checked. Without --ledger nobody can tell who made a release.

    Example:

    privest verify release.csv --ledger privest-ledger.db

    Options:
    ledger FILE      Ledger of the data owner: checks signature, entries and numbers.
    allow_simulated  Accept a simulation, if it is unchanged.
    """
    try:
        found = verify_release(file, ledger, allow_simulated=allow_simulated)
    except PrivestError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    if json:
        print_json(found.to_dict() | {"verified": found.verified})
    else:
        print_sections(to_people(), describe(found))
    if not found.verified:
        raise typer.Exit(1)


# --- from a release -------------------------------------------------------------------------------


@command()
def estimate(
    table: Release, confidence: float = CONFIDENCE, errors: str = "auto",
    at: list[str] | None = None, features: str | None = None,
    wald: str | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Coefficients from a release alone, with intervals that include the privacy noise.

    The residual variance need not be known: standard errors come from the release itself.

    Examples:

    privest estimate release.csv --confidence 0.9

    privest estimate release.csv --at age=50,sex=male --at age=70,sex=male

    Options:
    confidence P     Confidence level of the intervals.
    errors HOW       Standard errors of rows: auto, t, HC3, HC2; yes/no and counts: model, HC3.
    at NAME=VALUE,…  Row of feature values for which to estimate the mean of the target (the median,
                     where its logarithm is modelled) and one new value: age=50,sex=male. Repeat.
    features NAME,…  Of an aggregate release with its matrix: a smaller model.
    wald NAME,…      Wald test that all of these coefficients are 0; the name of a category stands
                     for all of its coefficients.
    """
    rows = {text: named_values(listed(text), "--at") for text in at or []}
    wanted = None if features is None else listed(features)
    found = estimate_table(table, cov_type=errors, features=wanted)
    found.interval(confidence)
    # All of it before anything is printed: what is asked for may not be there.
    means = {text: found.predict(row, confidence=confidence) for text, row in rows.items()}
    tested = None if wald is None else found.wald_test(listed(wald))
    if json:
        more: dict[str, Any] = {}
        if means:
            more["at"] = {text: mean.to_dict() for text, mean in means.items()}
        if tested is not None:
            more["wald"] = tested.to_dict()
        print_json(found.to_dict(confidence) | more)
        return
    asked = {"means": means, "wald": tested}
    sections = describe(found, keys=ESTIMATE, confidence=confidence, **asked)
    print_sections(to_people(), sections)


@command(output=OUTPUT_FILE)
def report(
    plan_file: PlanFile, table: Release, output: Path = Path("report.html"), overwrite: bool = False
) -> None:
    """One self-contained HTML page: estimates, cost of privacy, exposure, how to repeat it.

    It is made from the plan and the release; the private values enter only through the release.

    Example:

    privest report plan.toml release.csv --output report.html

    Options:
    output FILE.html  Page to write.
    """
    with about("--output"):
        require_writable(output)
        if output.suffix.lower() not in (".html", ".htm"):
            raise InvalidInput(f"{output}: the page is .html.")
        if output.exists() and not overwrite:
            raise InvalidInput(f"{output} exists: choose another name, or say --overwrite.")
    estimated, spec = estimate_table(table), load_spec(plan_file)
    found = make_plan(spec)
    require_same_terms(found, estimated.release, str(table))
    simulated, ledger = estimated.release.simulated, ledger_beside(spec, plan_file)
    # By name: where files lie on this machine is nobody else's business.
    names = (one.name for one in (plan_file, table, output))
    commands = commands_of(*names, simulated=simulated, ledger=ledger.name)
    write_page(estimated, output, plan=found, commands=commands)
    tell_file("Report", output)


# --- in a browser ---------------------------------------------------------------------------------


@command(browser={"names": ("--browser/--no-browser",)}, port={"min": 0, "max": 65535})
def app(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the releases and their ledger.", metavar="[FOLDER]")
    ] = Path(),
    ledger: Path | None = None,
    port: int = 0,
    browser: bool = True,
) -> None:
    """Plan, release and report in a browser, without writing code.

    The page is served on this machine only (127.0.0.1): your data do not leave it, and nothing is
    loaded from elsewhere. The printed address opens the app once; a new one is printed then. Files
    that you drop on the page lie in a private temporary folder, which is removed at the end. Stop
    it with Ctrl-C.

    Examples:

    privest app

    privest app ~/study --ledger ~/study/ledger.db

    privest app --no-browser --port 8800

    Options:
    ledger FILE  Ledger. Left out: privest-ledger.db in the folder.
    port N       Port of this machine. Left out: any that is free.
    browser      Open the page, or only print its address.
    """
    try:
        from privest.app import Desk, serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in NEEDED:
            raise
        raise InvalidInput(
            f"the app needs the extra 'app' ({missing.name} is not installed): for example "
            'pip install "privest[app]".'
        ) from None
    console, desk = to_stderr(), Desk(folder, ledger)

    def tell(address: str) -> None:
        console.print(shown("privest app runs. This address opens it, once; then a new one comes:"))
        console.print(shown(f"  {address}", style="bold"), soft_wrap=True)
        kept = f"Releases go to {desk.folder}."
        console.print(shown(f"{kept} Stop it with Ctrl-C."), soft_wrap=True)

    serve(desk, port=port, browser=browser, tell=tell)
    console.print(shown("Stopped; the tables that were sent to the app are removed."))
