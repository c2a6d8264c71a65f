"""`privest stream`: its options, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from privest.cli import _options as common
from privest.cli._console import to_stderr
from privest.cli._options import group, grouped, option
from privest.cli._streaming import run
from privest.errors import InvalidInput
from privest.streaming import StreamPlan, promised

Format = Literal["csv", "jsonl"]
RUNNING = "Start and restart"


@group(common.MODEL)
class Columns:
    """Which columns are what."""

    target: Annotated[str, common.TARGET] = "y"
    features: Annotated[str | None, common.FEATURES] = None
    intercept: Annotated[
        bool, option("Add a constant to the features.", names=("--intercept",))
    ] = False
    time: Annotated[
        str | None,
        option(
            "Column of times or dates, public: written with what is released. Left out, and "
            "--features too: a column of dates is taken for it.",
            "NAME",
        ),
    ] = None


@group()
class Formats:
    """How rows are read and written."""

    input_format: Annotated[Format | None, option("By the file's ending, else csv.")] = None
    output_format: Annotated[
        Format | None, option("By the file's ending, else that of the input.", panel=common.OUTPUT)
    ] = None

    def json_in(self, source: str) -> bool:
        return _is_json(self.input_format, source, otherwise=False)

    def json_out(self, source: str, output: Path | None) -> bool:
        path = "" if output is None else str(output)
        return _is_json(self.output_format, path, otherwise=self.json_in(source))


@group(RUNNING)
class Kept:
    """What makes a stream last longer than a process."""

    checkpoint: Annotated[
        Path | None,
        option(
            "Save the stream here after every block; the same command then goes on where it "
            "was, killed or not. As sensitive as the readings.",
            "FILE",
        ),
    ] = None
    replay: Annotated[
        bool | None,
        option(
            "After a restart the input begins again (default for files) or goes on with new "
            "readings. Standard input with a checkpoint must say which.",
            names=("--replay/--continue",),
        ),
    ] = None
    known: Annotated[
        int | None,
        option(
            "The last step that the receiver has. Up to it nothing is drawn again, also when the "
            "checkpoint or the ledger come from a backup and do not know it.",
            "STEP",
            min=0,
            max=10**9,
        ),
    ] = None


@group(common.NOISE)
class Remembered:
    """What readings remember of those before them, and where their noise variance is from."""

    reference: Annotated[
        Path | None,
        option(
            "Public rows with the same columns, other than the readings: the noise variance is "
            "taken from them. Left out, and --noise-variance too: from the releases themselves.",
            "FILE",
        ),
    ] = None
    ar1: Annotated[
        bool,
        option(
            "Noise that remembers the reading before (autoregressive): fitted at the end from all "
            "releases, which are held, some 100 bytes a reading and feature.",
            "",
            names=("--ar1",),
        ),
    ] = False
    correlation: Annotated[
        float | None,
        option(
            "Public guess of the correlation of a reading with the one before it, features apart: "
            "to tell what neighbours in time show of a reading. Needs --noise-variance.",
            "R",
            min=-1,
            max=1,
        ),
    ] = None

    def require_sense(self, sides: common.Sides, noise_variance: float | None) -> None:
        """Options that cannot go together, or need another."""
        if sides.to_releases and (self.ar1 or self.reference is not None):
            raise InvalidInput(
                "--ar1 and --reference are for estimates: leave out --emit releases."
            )
        if self.reference is not None and noise_variance is not None:
            raise InvalidInput("--reference and --noise-variance: give one of them.")
        if self.correlation is not None and (
            noise_variance is None or not abs(self.correlation) < 1
        ):
            raise InvalidInput(
                "--correlation must be between -1 and 1, and needs --noise-variance: what "
                "neighbours tell depends on both."
            )


@grouped
def stream(
    source: Annotated[
        str, typer.Argument(help="CSV or JSON lines; a minus reads standard input.", metavar="FILE")
    ],
    privacy: common.PrivacyOfReading,
    sides: common.Sides,
    columns: Columns,
    formats: Formats,
    files: common.TextOptions,
    output: common.Output,
    kept: Kept,
    trial: common.Trial,
    account: common.Account,
    remembered: Remembered,
    span: Annotated[str | None, common.RANGE] = None,
    lags: Annotated[str, common.LAGS] = "",
    shared_day: Annotated[
        int | None,
        option(
            "Every N readings (a day of hours: 24) share a noise that hides their mean at the "
            "level too. They are released together, and not at all where one is missing.",
            "N",
            panel=common.PRIVACY,
            min=2,
            max=1000,
        ),
    ] = None,
    noise_variance: Annotated[float | None, common.NOISE_VARIANCE] = None,
    block: Annotated[
        int,
        option(
            "Rows at a time. One line of estimates, and one save, a block.",
            "N",
            panel=RUNNING,
            min=1,
            max=10**9,
        ),
    ] = 1,
) -> None:
    """Release readings as they come, and estimate θ from the releases alone.

    Each row is one reading y_k (column --target) and its public features h_k, y_k = h_kθ + w_k:
    the columns --features, or all others; --emit releases writes them too. An empty reading is a
    step that shows nothing; no value is refused, one beyond --range is clipped. ε speaks of the
    whole, endless stream. Intervals are by blocks of time, which hold where readings remember
    those before them; --noise-variance, --reference and --ar1 say more. --simulate is a trial.

    Examples:

    privest stream meter.csv --target load --level 4 --noise-variance 0.0625 --intercept

    sensor | privest stream - --level 1 --emit releases --output z.jsonl --checkpoint s --continue

    privest stream z.jsonl --from releases --level 1 --noise-variance 0.25 --intercept
    """
    _require_sense(sides, output, kept, remembered)
    remembered.require_sense(sides, noise_variance)
    if sides.from_releases and trial.simulate:
        raise InvalidInput("--simulate goes with readings, not with --from releases.")
    account.require_sense(trial, real=not sides.from_releases)
    if kept.known is not None and (trial.simulate or sides.from_releases):
        raise InvalidInput("--known is for real releases: a trial may be drawn again.")
    weights, ends = common.as_weights(lags), common.as_span(span)
    promise = promised(privacy, ends, weights, shared_day)
    plan = StreamPlan(
        source=source,
        target=columns.target,
        features=None if columns.features is None else common.listed(columns.features),
        level=promise.level,
        variance=None if sides.to_releases else noise_variance,
        intercept=columns.intercept,
        sides=sides,
        json_in=formats.json_in(source),
        json_out=formats.json_out(source, output.output),
        output=output,
        block=block,
        checkpoint=kept.checkpoint,
        replay=True if kept.replay is None and source != "-" else kept.replay,
        trial=trial,
        account=account,
        known=kept.known,
        move=promise.move,
        span=ends,
        spent=promise.spent,
        said=promise.said,
        time=columns.time,
        reading=files.reading(),
        ar1=remembered.ar1,
        reference=remembered.reference,
        correlation=remembered.correlation,
        stated=noise_variance,
        drawn=output.png is not None,
    )
    run(plan, to_stderr())


def _require_sense(
    sides: common.Sides, output: common.Output, kept: Kept, remembered: Remembered
) -> None:
    """Options that cannot go together, or need another."""
    if sides.from_releases and sides.to_releases:
        raise InvalidInput("--from releases --emit releases: there is nothing to do.")
    if output.png is not None and sides.to_releases:
        raise InvalidInput("--png draws estimates: leave out --emit releases.")
    if remembered.ar1 and (kept.checkpoint is not None or output.png is not None):
        raise InvalidInput(
            "--ar1 needs all releases at once, at the end: leave out --checkpoint and --png. "
            "To be safe from a crash write the releases (--emit releases --checkpoint ...) and "
            "estimate from them (--from releases --ar1)."
        )


def _is_json(wanted: Format | None, path: str, *, otherwise: bool) -> bool:
    if wanted is not None:
        return wanted == "jsonl"
    ending = Path(path).suffix.lower()
    return otherwise if ending not in (".jsonl", ".ndjson", ".csv") else ending != ".csv"
