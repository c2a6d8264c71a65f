"""`privest plan`: the fields of a plan file as options, and what the plan costs.

Each option is a field of a section of the plan (`privest schema plan`); --set reaches the fields
that have no option.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privest.cli.console import print_json, tell_file, to_people
from privest.cli.options import (
    FILES,
    KNOWN,
    MODEL,
    OUTPUT,
    PRIVACY,
    about,
    as_range,
    command,
    format_of,
    group,
    listed,
    named_numbers,
)
from privest.data.cells import is_number
from privest.data.formula import read_formula
from privest.errors import InvalidInput
from privest.files import require_writable
from privest.reading import parse_toml
from privest.report.describe import describe
from privest.report.terminal import print_sections
from privest.workflow.plan import Plan, make_plan, means_by
from privest.workflow.spec import Spec, load_spec, save_spec

PLAN_VERSION = 4


@group(MODEL)
class ModelOptions:
    """The regression that a plan is about.

    target NAME,…        Private column, or several: a,b,c.
    features NAME,…      Public columns. Left out, and no formula either: the mean of the target.
    formula FORMULA      Instead of target and features: "ldl ~ age + C(sex) + bmi".
    by NAME,…            Instead of features: means of the groups of these columns.
    category NAME=A,B,…  Categorical feature with its public list, the baseline first. Repeat.
    family KIND          Outcome: gaussian (numbers, the default), binomial (1 or 0), poisson
                         (counts, with --form rows).
    transform KIND       Transform of the target: none (the default) or log.
    person NAME          Column that says whose row it is, for several rows per person.
    missing CHOICE       Rows with missing values: refuse (the default) or drop.
    """

    target: str | None = None
    features: str | None = None
    formula: str | None = None
    by: str | None = None
    category: list[str] | None = None
    family: str | None = None
    transform: str | None = None
    person: str | None = None
    missing: str | None = None

    def section(self) -> dict[str, Any]:
        """The fields of [model]."""
        ways = {"--features": self.features, "--formula": self.formula, "--by": self.by}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            raise InvalidInput(f"{given[0]} and {given[1]} state two models: leave one out.")
        targets, lists = listed(self.target), self._categories()
        if not targets and self.formula is None:
            raise InvalidInput("--target is needed (or --formula, or a plan file).")
        found = _given(self, "family", "transform", "person", "missing", "formula")
        found |= {"target": targets} if targets else {}
        found |= {"categories": lists} if lists else {}
        if self.features is not None:
            return found | {"features": listed(self.features)}
        return found if self.formula else found | means_by(targets, listed(self.by), lists)

    def _categories(self) -> dict[str, list[str]]:
        found = {}
        for one in self.category or []:
            name, equals, values = one.partition("=")
            if not equals or not listed(values):
                raise InvalidInput(f"--category {one}: write NAME=A,B,C.")
            found[name.strip()] = listed(values)
        return found


@group(PRIVACY)
class PrivacyOptions:
    """The wanted privacy: a level, ε, or the level for a wanted accuracy.

    level NUMBER             Privacy level s, a cap on Fisher information (a larger s reveals more);
                             unbiased guesses have sd ≥ 1/√s. `privest levels` helps to choose.
    epsilon ε                ε of differential privacy, instead of a level; needs --range.
    delta δ                  δ of Gaussian noise.
    range LOW,HIGH           Public range of the target, never taken from the data. Values beyond it
                             are clipped, which enforces ε. For several targets NAME=LOW,HIGH,
                             repeated.
    standard_error NAME=E,…  Instead of a level: the standard errors that are wanted.
    distribution NAME        Privacy noise: gaussian (the default), or laplace, which needs no δ.
    form KIND                What leaves: aggregate (estimates from a few noisy sums, the default),
                             or rows (a noisy value for each), where values are protected before
                             they reach you.
    level_column NAME        Public column with the level of each row; `privest design` writes one.
    """

    level: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    range: list[str] | None = None
    standard_error: str | None = None
    distribution: str | None = None
    form: str | None = None
    level_column: str | None = None

    def section(self, targets: list[str]) -> dict[str, Any]:
        """The fields of [privacy]."""
        found = _given(self, "level", "epsilon", "delta", "distribution", "form", "level_column")
        if self.standard_error is not None:
            wanted = named_numbers(listed(self.standard_error), "--standard-error")
            found["standard_error"] = wanted
        ranges: dict[str, Any] = {}
        for text in self.range or []:
            name, equals, ends = text.rpartition("=")
            if not equals and len(targets) == 1:
                name = targets[0]
            if not name or name in ranges:
                raise InvalidInput(f"--range {text}: NAME=LOW,HIGH for each of several targets.")
            ranges[name] = as_range(ends)
        return found | ({"range": ranges} if ranges else {})


@group(KNOWN)
class PublicOptions:
    """The residual variance: stated, or from a public reference set."""

    residual_variance: float | None = None
    reference: str | None = None


@group(FILES)
class FileOptions:
    """The format of the table, and fields of a plan file that have no option.

    set SECTION.NAME=VALUE  Any other field of a plan file (`privest schema plan`), for example
                            model.weights=w. Repeat.
    """

    format: list[str] | None = None
    set: list[str] | None = None


@group(OUTPUT)
class PlanOutput:
    """Questions to a plan, and where it goes.

    want NAME=E     Number of rows for a wanted standard error of a coefficient. Repeat.
    save FILE.toml  Plan file to write.
    """

    want: list[str] | None = None
    save: Path | None = None
    overwrite: bool = False
    json: bool = False

    def require_free(self) -> None:
        if self.save is None:
            return
        with about("--save"):
            require_writable(self.save)
        if self.save.suffix.lower() != ".toml":
            raise InvalidInput(f"--save {self.save}: plans are written as .toml.")
        if self.save.exists() and not self.overwrite:
            raise InvalidInput(
                f"--save {self.save} exists, and releases may have been made under it: choose "
                "another name, or say --overwrite."
            )


@command()
def plan(
    source: Annotated[
        str,
        typer.Argument(
            help="The data (CSV, TSV, Excel, Parquet; diabetes needs no file), or a plan file "
            "(.toml).",
            metavar="DATA|PLAN",
        ),
    ],
    model: ModelOptions,
    privacy: PrivacyOptions,
    public: PublicOptions,
    files: FileOptions,
    output: PlanOutput,
) -> None:
    """Cost of a private regression. Planning never reads the private column.

    Prints whether the coefficients can be estimated, their standard errors with and without
    privacy, and what one person is exposed to. --save writes the plan file that `privest release`
    takes. A plan file states all of it: change the file, not its options.

    Examples:

    privest plan diabetes --target s5 --features age,sex,bmi,bp --epsilon 3 --range 3,6.5

    privest plan people.csv --target ldl --features age,sex --category sex=female,male
    --reference reference.csv --epsilon 1 --delta 1e-6 --range 0,10 --save plan.toml

    privest plan people.xlsx --formula "ldl ~ age + C(sex) + np.log(bmi)" --category sex=female,male
    --form rows --level 2 --format sheet=people

    privest plan people.csv --target ldl --by sex --category sex=f,m --epsilon 1 --range 0,10

    privest plan plan.toml --want age=0.01
    """
    output.require_free()
    if Path(source).suffix.lower() in (".toml", ".yaml", ".yml"):
        options = (model, privacy, public, files)
        if any(one != type(one)() for one in options):
            raise InvalidInput(f"{source} states the model and its privacy: change that file.")
        spec = load_spec(source)
    else:
        spec = spec_of(source, model, privacy, public, files)
    found = make_plan(spec)
    rows = rows_wanted(found, output.want or [])
    if output.save is not None:  # before printing: a closed pipe must not lose it
        save_spec(spec, output.save)
        tell_file("Plan", output.save)
    if output.json:
        by_name = {text.rpartition("=")[0]: count for text, count in rows.items()}
        print_json(found.to_dict() | ({"rows_wanted": by_name} if by_name else {}))
    else:
        print_sections(to_people(), describe(found, wanted=rows))


def spec_of(
    source: str,
    model: ModelOptions,
    privacy: PrivacyOptions,
    public: PublicOptions,
    files: FileOptions,
) -> Spec:
    """The specification that the options state."""
    of_model = model.section()
    targets = of_model.get("target", [])
    if model.formula is not None:
        targets = list(read_formula(model.formula, of_model.get("categories", {})).targets)
    given: dict[str, Any] = {
        "version": PLAN_VERSION,
        "data": source,
        "model": of_model,
        "privacy": privacy.section(targets),
        "public": _given(public, *vars(public)),
    }
    for text in files.set or []:
        _set(given, text)
    given["privacy"] = {"form": "aggregate"} | given["privacy"]
    of_format = format_of(files.format)
    given["format"] = given.get("format", {}) | _given(of_format, *vars(of_format))
    return Spec.from_dict(given, "the plan")


def _given(options: object, *names: str) -> dict[str, Any]:
    return {n: getattr(options, n) for n in names if getattr(options, n) not in (None, ())}


def _set(record: dict[str, Any], text: str) -> None:
    """--set SECTION.NAME=VALUE, or SECTION.NAME.KEY=VALUE; the value as in TOML, else a text."""
    place, equals, value = text.rpartition("=")
    section, *names = place.split(".", 2)
    if not equals or not names or section not in ("model", "privacy", "public", "format"):
        raise InvalidInput(
            f"--set {text}: write SECTION.NAME=VALUE with a section of model, privacy, public, "
            "format."
        )
    at = record.setdefault(section, {})
    if len(names) == 2:
        at = at.setdefault(names[0], {})
    if not isinstance(at, dict) or names[-1] in at:
        raise InvalidInput(f"--set {text}: {place} is stated twice.")
    try:
        at[names[-1]] = parse_toml(f"value = {value}", "it")["value"]
    except InvalidInput:
        at[names[-1]] = float(value) if is_number(value) else value


def rows_wanted(found: Plan, wanted: list[str]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for name, error in named_numbers(wanted, "--want").items():
        text = next(one for one in wanted if one.rpartition("=")[0] == name)
        with about(f"--want {text}"):
            rows[text] = found.rows_for(error, name)
    return rows
