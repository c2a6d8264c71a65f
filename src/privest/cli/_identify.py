"""`privest identify`: the parameters of a dynamic model from private releases alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.cli._console import (
    at_work,
    print_json,
    print_promise,
    print_spent,
    shown,
    tell_simulated,
    to_people,
    to_stderr,
)
from privest.cli._identify_text import courses_of, print_fit, record_of, rows_of
from privest.cli._options import (
    LAGS,
    MODEL,
    OUTPUT,
    RANGE,
    Account,
    Json,
    Output,
    PrivacyOfReading,
    Sides,
    Trial,
    about,
    as_span,
    as_weights,
    grouped,
    option,
)
from privest.cli._series import DIAGNOSE, SOURCE, Columns, take_series, tell_diagnosis
from privest.dynamics import Fit, Forecast, Intervals, as_family, fit
from privest.dynamics._identification._exposure import require_level
from privest.dynamics._identification._family import Family
from privest.errors import InvalidInput
from privest.privacy import EndlessLevel
from privest.release import StreamRelease
from privest.report.figures import CoursePanel, require_files, save_courses

FAMILIES = (
    "ar2 (autoregression of order 2), ar2+noise (and a white error of the readings), ar2-mean "
    "(about 0), arma2,1, arx1 (driven by --inputs), regression1 (on --inputs, errors AR(1)), level "
    "(a random walk and a white error), level-noise (without the error), trend (a slope that moves "
    "too), seasonal12, trend+seasonal12"
)


CLIPPED = (
    "Readings beyond the range were clipped before they were released: where many are, this is the "
    "model of the clipped series, and its errors do not say so (docs/ranges.md)."
)

# After Ctrl-C, at each of the stages.
LOST = (
    "Stopped while fitting: the releases of this run are not written anywhere, and count as spent. "
    "--emit releases --output FILE keeps them; --from releases then fits as often as you like."
)
SURE = "Stopped: the forecast takes the estimates for the truth, and its intervals are too narrow."
ROUGH = "Stopped: the intervals are Wald's, by the curvature at the estimate, and rough."


@grouped
def identify_command(
    source: Annotated[str, SOURCE],
    family: Annotated[
        str, option(f"The family of models: {FAMILIES}. Public.", "NAME", panel=MODEL)
    ],
    privacy: PrivacyOfReading,
    sides: Sides,
    columns: Columns,
    output: Output,
    trial: Trial,
    account: Account,
    span: Annotated[str | None, RANGE] = None,
    lags: Annotated[str, LAGS] = "",
    ahead: Annotated[
        int,
        option("Forecast so many readings after the last.", "N", panel=OUTPUT, min=0, max=10_000),
    ] = 0,
    diagnosis: Annotated[Path | None, DIAGNOSE] = None,
    json: Json = False,
) -> None:
    """Release the readings of a series, and find the model they follow from the releases alone.

    Maximum likelihood. Prints the parameters with their 95 % intervals, beside the least standard
    errors that an unbiased estimate can have from releases at this level, and without privacy. What
    is done with releases shows nothing more of the readings. --output writes one row a step: the
    series as the releases show it, then --ahead rows of forecasts. --simulate is a trial.

    Examples:

    privest identify series.csv --family ar2 --level 0.01 --ahead 20 --output foreseen.csv

    privest identify series.csv --family ar2 --level 0.01 --emit releases --output z.jsonl

    privest identify z.jsonl --from releases --family ar2 --level 0.01 --png series.png
    """
    _require_sense(sides, output, columns, trial, span, ahead, diagnosis, json)
    account.require_sense(trial, real=not sides.from_releases)
    output.require_writable()
    require_files(None, diagnosis)
    given = columns.count()
    with about(f"--family {family}"):
        model = as_family(family, inputs=given)
    if not sides.to_releases:  # the holder's side needs none
        columns.require_count(model.columns)
    weights, ends = as_weights(lags), as_span(span)
    asked = privacy.within(ends, mixed=bool(weights))
    level = asked.of_stream(weights)
    one = float(level.final_blocks().diagonal()[0])
    if not sides.to_releases:
        require_level(one)
    mechanism = pv.StreamMechanism(level, range=ends)
    # what is wrong with them is said before there is any noise
    spent, said = asked.spent(level), privacy.promise(mechanism)
    release, inputs = take_series(
        "identify", source, mechanism, columns, sides, trial, account, output,
        move=asked.move, width=model.columns, ahead=ahead, least=model.least_steps(),
    )  # fmt: skip
    report = to_stderr()
    if not sides.to_releases:
        past, later = (None, None) if inputs is None else np.split(inputs, [release.steps])
        found = _fitted(model, level, release, past, kept=sides.from_releases or trial.simulate)
        forecast = _foreseen(found, ahead, later) if ahead else None
        _write(found, forecast, output)
        intervals = _intervals(found)
        if json:
            print_json(record_of(found, intervals, forecast))
        else:
            print_fit(
                to_people(), found, intervals, one, exposed=bool(weights), inputs=columns.inputs
            )
        if diagnosis is not None:
            tell_diagnosis(found.diagnose, diagnosis)
        if ends is not None:
            report.print(shown(CLIPPED))
    if release.simulated:
        print_spent(report, spent)
        tell_simulated(report)
    else:
        print_promise(report, said)


def _fitted(
    model: Family, level: EndlessLevel, release: StreamRelease, inputs: Array | None, *, kept: bool
) -> Fit:
    """Ctrl-C says what becomes of releases that are nowhere else (not `kept`)."""
    try:
        with at_work("Fitting"):
            return fit(model, level, release, inputs=inputs)
    except KeyboardInterrupt:
        if not kept:
            to_stderr().print(shown(LOST))
        raise


def _foreseen(found: Fit, ahead: int, inputs: Array | None) -> Forecast:
    """After Ctrl-C at the estimates alone: what was released is not lost."""
    try:
        with at_work("Forecasting over what is not known of the parameters"):
            return found.forecast(ahead, inputs=inputs)
    except KeyboardInterrupt:
        to_stderr().print(shown(SURE))
        return found.forecast(ahead, inputs=inputs, method="plug-in")


def _intervals(found: Fit) -> Intervals:
    """After Ctrl-C by the curvature at the estimate."""
    try:
        with at_work("Profile intervals"):
            return found.intervals()
    except KeyboardInterrupt:
        to_stderr().print(shown(ROUGH))
        return found.intervals(method="wald")


def _write(found: Fit, forecast: Forecast | None, output: Output) -> None:
    """The series along its steps, as rows and as a picture, where they are asked for."""
    if output.output is None and output.png is None:
        return
    courses = courses_of(found, forecast)
    if output.output is not None:
        output.write(rows_of(courses))
    if output.png is not None:
        title = "From releases alone, with 95 % intervals"
        save_courses([CoursePanel(repr(found.family), courses)], output.png, title=title)


def _require_sense(
    sides: Sides, output: Output, columns: Columns, trial: Trial, span: str | None, ahead: int,
    diagnosis: Path | None, json: bool,
) -> None:  # fmt: skip
    """Options that cannot go together, or need another."""
    if sides.to_releases and (
        sides.from_releases or output.png or ahead or diagnosis is not None or json
    ):
        raise InvalidInput(
            "--emit releases goes with readings, without --ahead, --png, --diagnose and --json."
        )
    if sides.from_releases and (columns.readings, trial.simulate, span) != (None, False, None):
        raise InvalidInput(
            "--readings, --range and --simulate go with readings, not with --from releases."
        )
    columns.require_sense(sides)
    if ahead and columns.here:
        raise InvalidInput(
            "--ahead needs the inputs of the steps ahead: put all of them in an --inputs-file."
        )
