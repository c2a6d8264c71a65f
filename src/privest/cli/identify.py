"""`privest identify`: the parameters of a dynamic model from private releases alone."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from rich.console import Console

from privest.arrays import CONFIDENCE, Array, Flags
from privest.cli.console import new_table, note, print_json, shown, to_people
from privest.cli.options import about, command
from privest.cli.series import (
    SOURCE,
    Needs,
    ScalarPrivacy,
    Series,
    as_csv,
    take_series,
    tell_diagnosis,
    tell_epsilon,
)
from privest.dynamics import FamilyEstimate, Forecast, as_family, fit, require_level
from privest.errors import InvalidInput
from privest.privacy import StreamLevel
from privest.records import plain, standard_errors
from privest.report.figures import Curve, Panel, save_panels
from privest.report.numbers import value as rounded

CLIPPED = (
    "Measurements beyond the range were clipped before they were released: where many are, this is "
    "the model of the clipped series, and its errors do not include that (docs/howto/ranges.md)."
)


@command(ahead={"min": 0, "max": 10_000})
def identify(
    source: Annotated[str, SOURCE],
    privacy: ScalarPrivacy,
    series: Series,
    family: str,
    ahead: int = 0,
    json: bool = False,
) -> None:
    """Release the measurements of a series, and fit its model to the releases alone.

    Maximum likelihood. Prints the parameters with 95% intervals, beside the least standard errors
    of an unbiased estimate from releases at this level, and without privacy. --output writes one
    row per step: the series as the releases show it, then --ahead rows of forecasts. --simulate is
    a dry run.

    Examples:

    privest identify series.csv --family ar2 --level 0.01 --ahead 20 --output foreseen.csv

    privest identify series.csv --family ar2 --level 0.01 --emit releases --output z.jsonl

    privest identify z.jsonl --from releases --family ar2 --level 0.01 --png series.png

    Options:
    family NAME  Public family of models: ar2 (autoregression of order 2), ar2+noise (and a white
                 error), ar2-mean (about 0), arma2,1, arx1 (driven by --inputs), regression1 (on
                 --inputs, errors AR(1)), level (a random walk and a white error), level-noise
                 (without the error), trend, seasonal12, trend+seasonal12.
    ahead N      Steps after the last to forecast.
    """
    series.require_series(privacy, ahead=ahead, json=json)
    if ahead and series.inputs_here:
        raise InvalidInput(
            "--ahead needs the inputs of the steps ahead: put all of them in an --inputs-file."
        )
    with about(f"--family {family}"):
        model = as_family(family, inputs=series.count_inputs())
    promise = privacy.promise()
    if not series.to_releases:  # the owner's side needs neither
        series.require_inputs(model.columns)
        require_level(float(promise.level.final_blocks().diagonal()[0]))
    needs = Needs(model.columns, ahead, model.least_steps())
    release, inputs = take_series("identify", source, promise, series, needs)
    if not series.to_releases:
        past, later = (None, None) if inputs is None else np.split(inputs, [release.steps])
        found = fit(model, release, level=promise.level, inputs=past)
        forecast = found.forecast(ahead, inputs=later) if ahead else None
        _write(found, forecast, series)
        if json:
            print_json(_record(found, forecast))
        else:
            _print_fit(to_people(), found, promise.level, series.inputs)
        tell_diagnosis(found.diagnose, series.diagnose)
        if promise.span is not None:
            note(CLIPPED)
    tell_epsilon(promise, simulated=release.simulated)


# --- what is printed ------------------------------------------------------------------------------


def _print_fit(
    console: Console, found: FamilyEstimate, stated: StreamLevel, inputs: str | None
) -> None:
    level = float(stated.final_blocks().diagonal()[0])
    title = (
        f"{found.family!r} from {found.observations} releases at privacy level {level:g} (a larger "
        "s reveals more)"
    )
    table = new_table(
        title, "name", "estimate", f"{100 * CONFIDENCE:g}% interval", "s.e.",
        "least s.e.", "no privacy",
    )  # fmt: skip
    table.columns[0].min_width = 5
    errors, intervals, open_ends = found.standard_error, found.interval(), found.open_ends()
    least, free = (np.broadcast_to(_floor(c), len(errors)) for c in (found.bound, found.classical))
    for j, name in enumerate(found.names):
        table.add_row(
            shown(name), _value(found.value[j], errors[j]),
            _interval(intervals[j], open_ends[j]), *map(_error, (errors[j], least[j], free[j])),
        )  # fmt: skip
    console.print(table)
    notes = [
        f"log-likelihood {found.log_likelihood:.2f}, AIC {found.aic:.2f}, BIC {found.bic:.2f} "
        "(compare fits of the same releases only)."
    ]
    if not np.isnan(least).all():
        notes.append(
            "Least s.e.: no unbiased estimate from releases at this level has a smaller one, at "
            "these parameters. No privacy: from the measurements themselves."
        )
    if inputs is not None:
        notes.append(f"Inputs 1, 2, …: {inputs}.")
    if not found.converged:
        notes.append("The search did not reach a maximum: take none of this for granted.")
    notes += [*found.notes(), *(_flat(*one) for one in found.flat.items())]
    if stated.reach:
        notes.append(
            f"With lags all releases together reveal one measurement at level {level:.4g}, but "
            f"measurements that move together at {found.exposure:.4g}, "
            f"{found.exposure / level:.3g} times that (λmax of the level of all measurements)."
        )
    for line in notes:
        console.print(shown(line if line.endswith(".") else f"{line}."))


def _floor(covariance: Array | None) -> Array:
    return np.array([math.nan]) if covariance is None else standard_errors(covariance)


def _error(value: float) -> str:
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.3g}"


def _value(value: float, error: float) -> str:
    known = math.isfinite(error) and error > 0
    return rounded((value, error)) if known else f"{value:.4g}".replace("-", "−")


def _flat(combination: str, error: float) -> str:
    if math.isinf(error):
        return f"{combination} is not determined by these releases."
    return f"{combination} is hardly determined by these releases (standard error {error:.2g})."


def _interval(ends: Array, open_ends: Flags) -> str:
    """Round brackets are open ends: no value up to there is excluded."""
    first, last = open_ends
    low, high = (_value(end, (ends[1] - ends[0]) / 4) for end in ends)
    return f"{'(' if first else '['}{low}, {high}{')' if last else ']'}"


def _record(found: FamilyEstimate, forecast: Forecast | None) -> dict[str, Any]:
    own: dict[str, Any] = found.to_dict()
    own |= {"open_ends": plain(found.open_ends()), "notes": list(found.notes())}
    if forecast is not None:
        ends = {"confidence": CONFIDENCE, "interval": plain(forecast.interval())}
        own["forecast"] = forecast.to_dict() | ends
    return own


def _write(found: FamilyEstimate, forecast: Forecast | None, output: Series) -> None:
    """The series by step with 95% intervals, as rows and as a picture, where they are asked for."""
    if output.output is None and output.png is None:
        return
    curves, rows, start = [], [], 0
    parts = {"smoothed": found.signal()} | ({} if forecast is None else {"forecast": forecast})
    for kind, part in parts.items():
        middle, (low, high) = part.value[:, 0], part.interval()[:, 0].T
        steps = start + np.arange(len(middle))
        columns = (middle.tolist(), low.tolist(), high.tolist())
        rows += [[step, kind, *map(repr, row)] for step, *row in zip(steps.tolist(), *columns)]
        name = "from all releases" if kind == "smoothed" else kind
        curves.append(Curve(name, steps.astype(float), middle, low, high))
        start = found.steps
    if output.output is not None:
        output.write(as_csv(["step", "kind", "estimate", "low", "high"], rows))
    if output.png is not None:
        title = "From releases alone, with 95% intervals"
        save_panels([Panel(repr(found.family), curves)], output.png, title=title)
