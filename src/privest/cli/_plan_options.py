"""The options of `privest plan`: what is planned, in groups, and the spec that they state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from privest.cli import _options as common
from privest.cli._options import group, option
from privest.cli._workflow_model import terms_of
from privest import workflow
from privest.data import Format, is_number
from privest.errors import InvalidInput
from privest.workflow import Privacy, Public, Spec, load_spec


@group(common.MODEL)
class Model:
    """The regression that a plan is about."""

    target: Annotated[
        str | None, option("Column of the private readings, or several: a,b,c.", "NAME,…")
    ] = None
    features: Annotated[str | None, common.FEATURES] = None
    formula: Annotated[
        str | None,
        option('Instead of target and features: "ldl ~ age + C(sex) + bmi".', "FORMULA"),
    ] = None
    mean: Annotated[
        bool, option("Instead of features: the mean of the target.", "", names=("--mean",))
    ] = False
    by: Annotated[
        str | None,
        option("The means of groups, by these columns; each needs a --category.", "NAME,…"),
    ] = None
    family: Annotated[
        str | None,
        option(
            "What the readings are: gaussian (numbers, the default), binomial (yes or no, 1 or "
            "0), poisson (counts).",
            "KIND",
        ),
    ] = None
    person: Annotated[
        str | None, option("Column that says whose row it is, where a person has several.", "NAME")
    ] = None
    most_rows: Annotated[
        int | None, option("Of a person, public: further rows are left out.", "ROWS")
    ] = None
    weights: Annotated[
        str | None,
        option("Public column of survey weights: how many people a row stands for.", "NAME"),
    ] = None
    category: Annotated[
        list[str] | None,
        option(
            "A feature that is a category, with its public list; the first is the baseline. "
            "Repeat for each.",
            "NAME=A,B,…",
        ),
    ] = None
    intercept: Annotated[bool | None, option("A constant term (there is one, unless told).")] = None
    missing: Annotated[
        str | None, option("Rows with missing values: refuse (the default) or drop.", "CHOICE")
    ] = None
    transform: Annotated[str | None, option("Of the target: none (the default), log.", "KIND")] = (
        None
    )


@group("Files")
class FileOptions(common.TextOptions):
    """How the file is written, where it does not say that itself."""

    missing_code: Annotated[
        list[str] | None,
        option(
            "What stands for a missing value: 77777, or NAME=999 in one column. Repeat.", "CODE"
        ),
    ] = None
    sheet: Annotated[str | None, option("Of a workbook (.xlsx). Left out: the first.", "NAME")] = (
        None
    )

    def format(self) -> Format:
        """The same as one record."""
        return Format(
            self.separator,
            self.decimal,
            self.encoding,
            tuple(self.missing_code or ()),
            self.sheet,
            self.thousands,
        )


@group(common.NOISE)
class NoiseOptions:
    """How large the noise is: stated, or from a public reference set."""

    noise_variance: Annotated[float | None, common.NOISE_VARIANCE] = None
    reference: Annotated[
        str | None, option("Instead: a public reference set with the same columns.", "FILE")
    ] = None


@group(common.PRIVACY)
class WantedPrivacy(common.PrivacyOfReading):
    """A level, (ε, δ), or the level that gives an error that is wanted."""

    standard_error: Annotated[
        str | None,
        option(
            "Instead: the level that gives this standard error, with --of; or several, "
            "age=0.01,bmi=0.02.",
            "E|NAME=E,…",
        ),
    ] = None
    of: Annotated[str | None, option("... of this coefficient.", "NAME")] = None
    tolerance: Annotated[
        float | None,
        option("Instead: the level at which a guess between two values so far apart ...", "C"),
    ] = None
    attacker: Annotated[
        float | None, option("... is right with this probability: 0.5 is a coin.", "P")
    ] = None
    limits: Annotated[list[str] | None, common.RANGES] = None
    unit: Annotated[
        list[str] | None,
        option("Of several targets: what counts as one unit in each. Repeat.", "NAME=U"),
    ] = None
    law: Annotated[
        str | None,
        option(
            "Noise distribution: gaussian (the default), or laplace, which keeps a pure ε. A "
            "yes/no outcome takes randomised response.",
            "NAME",
            names=("--distribution", "--law"),
        ),
    ] = None
    level_column: Annotated[
        str | None,
        option(
            "Instead: a public column with the level of each row; 0: the row is withheld.", "NAME"
        ),
    ] = None

    def stated(self, targets: tuple[str, ...]) -> Privacy:
        """The same as a section of a plan."""
        return Privacy(
            level=self.number(),
            level_column=self.level_column,
            epsilon=self.epsilon,
            delta=self.delta,
            standard_error=wanted_errors(self.standard_error, self.of),
            tolerance=self.tolerance,
            attacker=self.attacker,
            range=ranges(common.as_spans(self.limits), targets),
            sensitivity=self.move,
            units=numbers_by_name(self.unit, "--unit"),
            distribution=self.law,
        )


def spec_of(
    source: str,
    model: Model,
    privacy: WantedPrivacy,
    noise: NoiseOptions,
    files: FileOptions,
    expect: list[str] | None = None,
) -> Spec:
    """What is planned: of a plan file, which states it all, or of the options."""
    expected = numbers_by_name(expect, "--expect")
    if Path(source).suffix.lower() in (".toml", ".yaml", ".yml"):
        given = (model, privacy, noise, files)
        if given != (Model(), WantedPrivacy(), NoiseOptions(), FileOptions()):
            raise InvalidInput(
                f"{source} is a plan and states all that: change it there, or give the data and "
                "the options."
            )
        spec = load_spec(source)
        public = replace(spec.public, expected=expected or spec.public.expected)
        return replace(spec, public=public)
    chosen = {
        name: getattr(model, name)
        for name in ("missing", "transform", "family", "weights", "person", "most_rows")
        if getattr(model, name) is not None
    }
    regression = workflow.Model(**terms_of(model), **chosen)
    return Spec(
        data=source,
        model=regression,
        privacy=privacy.stated(regression.target),
        public=Public(noise.noise_variance, noise.reference, expected),
        format=files.format(),
    )


def ranges(
    given: tuple[float, float] | dict[str, tuple[float, float]] | None, targets: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    """--range of the only target, or of each."""
    if given is None or isinstance(given, dict):
        return given or {}
    if len(targets) > 1:
        raise InvalidInput("--range: give each of several targets its own, NAME=LOW,HIGH.")
    return {targets[0]: given}


def wanted_errors(given: str | None, of: str | None) -> dict[str, float] | None:
    """--standard-error: a number with --of, or NAME=NUMBER,NAME=NUMBER."""
    if given is None or not is_number(given):
        if of is not None:
            raise InvalidInput("--of goes with --standard-error NUMBER.")
        return numbers_by_name(common.listed(given), "--standard-error") if given else None
    if of is None:
        raise InvalidInput("--standard-error NUMBER needs --of, the coefficient that it is for.")
    return {of: float(given)}


def numbers_by_name(given: list[str] | None, option: str) -> dict[str, float]:
    """NAME=NUMBER, each name once."""
    found: dict[str, float] = {}
    for one in given or []:
        name, equals, value = one.rpartition("=")
        if not equals or not is_number(value):
            raise InvalidInput(f"{option} {one}: write NAME=NUMBER, for example age=0.1.")
        if name in found:
            raise InvalidInput(f"{option} {one}: {name!r} is there twice.")
        found[name] = float(value)
    return found
