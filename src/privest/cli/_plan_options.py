"""The options of `privest plan`: what is planned, in groups, and the spec that they state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from privest.cli import _options as common
from privest.cli._options import group, option
from privest.cli._workflow_model import terms_of
from privest.data import Reading, is_number
from privest.errors import InvalidInput
from privest.workflow import Noise, People, Privacy, Spec, Weights, load_spec
from privest.workflow._spec import ENDINGS


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

    def reading(self) -> Reading:
        """The same as one record."""
        return Reading(
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
            "Of the noise: gaussian (the default), or laplace, which keeps a pure ε. A yes or no "
            "has coins.",
            "LAW",
        ),
    ] = None
    level_column: Annotated[
        str | None,
        option(
            "Instead: a public column with the level of each row; 0: the row is withheld.", "NAME"
        ),
    ] = None

    def stated(self) -> Privacy:
        """The same as a section of a plan."""
        return Privacy(
            self.number(),
            self.epsilon,
            self.delta,
            self.move,
            wanted_errors(self.standard_error),
            self.of,
            common.as_spans(self.limits),
            self.tolerance,
            self.attacker,
            numbers_by_name(self.unit, "--unit"),
            self.law,  # type: ignore[arg-type] # checked by Privacy
            self.level_column,
        )


def spec_of(
    source: str, model: Model, privacy: WantedPrivacy, noise: NoiseOptions, files: FileOptions
) -> Spec:
    """What is planned: of a plan file, which says it all, or of the options."""
    if Path(source).suffix.lower() in ENDINGS:
        given = (model, privacy, noise, files)
        if given != (Model(), WantedPrivacy(), NoiseOptions(), FileOptions()):
            raise InvalidInput(
                f"{source} is a plan and says all that: change it there, or give the data and the "
                "options."
            )
        return load_spec(source)
    return Spec(
        **terms_of(model),
        data=source,
        noise=Noise(noise.noise_variance, noise.reference),
        privacy=privacy.stated(),
        missing=model.missing or "refuse",  # type: ignore[arg-type] # checked by Spec
        transform=model.transform or "none",  # type: ignore[arg-type] # checked by Spec
        family=model.family or "gaussian",  # type: ignore[arg-type] # checked by Spec
        person=_people(model),
        weights=None if model.weights is None else Weights(model.weights),
        reading=files.reading(),
    )


def _people(model: Model) -> People | None:
    if model.person is None:
        if model.most_rows is not None:
            raise InvalidInput("--most-rows goes with --person COLUMN.")
        return None
    return People(model.person, model.most_rows)


def wanted_errors(given: str | None) -> float | dict[str, float] | None:
    """--standard-error: a number, or NAME=NUMBER,NAME=NUMBER."""
    if given is None or is_number(given):
        return None if given is None else float(given)
    return numbers_by_name(common.listed(given), "--standard-error")


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
