"""The run of a stream, block by block; it can be killed and resumed.

Every block of rows is: read, released (with a ledger: written down there), used, saved with the
lines it will print, printed. Lines that were saved but perhaps not printed are printed again
after a restart, with the same numbers.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

import privest as pv
from privest.arrays import plural
from privest.data.cells import require_no_formula
from privest.errors import CheckpointError, InvalidInput
from privest.estimator import Estimate
from privest.files import make_folder
from privest.privacy import exposures
from privest.reading import optional, read_count, read_fields, read_number, require_parameters
from privest.report.figures import BAND, Trail
from privest.report.sections import Sentence
from privest.stream_file import facts_of, linked
from privest.streaming._choices import StreamPlan
from privest.streaming._lines import (
    LineOutput,
    Public,
    as_lines,
    estimated_record,
    released_records,
    require_behind,
)
from privest.streaming._rows import Row, Rows
from privest.streaming._sides import Analyst, Owner, owner_of


class StreamRun:
    """The two sides that are wanted here, the place in the input, and the output."""

    digest: str
    plan: StreamPlan
    rows: Rows
    stack: ExitStack[bool | None]
    features: list[str]
    times: list[str]
    chain: str
    used: int
    missing: int

    def __init__(self, plan: StreamPlan, rows: Rows, stack: ExitStack) -> None:
        self.plan, self.rows, self.stack = plan, rows, stack
        self.features, self.times = rows.features, rows.times
        self.names: list[str] = (
            ["intercept", *self.features] if plan.columns.intercept else self.features
        )
        require_parameters(len(self.names), "the features")
        if not plan.json_out:
            require_no_formula([*self.names, *self.times])
        self.side: Owner | Analyst = Analyst(plan.promise.level)
        if not plan.choices.from_releases:
            self.side = owner_of(
                "stream", plan.promise, plan.choices, stack,
                source=plan.source, columns=plan.columns.target,
            )  # fmt: skip
        self.estimator: pv.PrivateRLS | None = None
        if not plan.choices.to_releases:
            # Where it is not known, rows are whitened by the privacy noise alone.
            noise = pv.noise.Gaussian(cov=plan.columns.residual_variance or 0.0)
            self.estimator = pv.PrivateRLS(plan.promise.level, len(self.names), noise)
        self.last: dict[str, str] = {}  # the time of the last measurement
        self.chain = ""  # hash of the last line of releases
        self.used, self.missing = 0, 0
        self.trail: Trail = Trail()
        self.digest = _hashed(repr(self.features))  # of the public columns that were used
        self.output: LineOutput = LineOutput(plan.choices.output, stack)
        self.source: Iterator[Row] = iter(())  # the rows that are left
        self.checkpoint: pv.Checkpoint | None = self._checkpoint()
        self.resumed: bool = self._resume()

    def _checkpoint(self) -> pv.Checkpoint | None:
        path, side = self.plan.restart.checkpoint, self.side
        if path is None:
            return None
        make_folder(path)
        of_owner: dict[str, Any] = {}
        if isinstance(side, Owner):
            of_owner = {"mechanism": side.mechanism, "source": side.source}
        return self.stack.enter_context(pv.Checkpoint(path, estimator=self.estimator, **of_owner))

    @property
    def grid(self) -> float | None:  # 0: simulated; None: not yet known
        return self.side.source.grid if isinstance(self.side, Owner) else self.side.grid

    @property
    def recorded(self) -> bool:
        """Whether a checkpoint or a ledger keeps what is released here."""
        side = self.side
        return self.checkpoint is not None or not isinstance(side, Owner) or bool(side.account)

    @property
    def clipped(self) -> bool:
        """Whether measurements beyond a public range were clipped."""
        return self.plan.promise.span is not None or self.rows.facts.get("range") is not None

    # --- taking up ------------------------------------------------------------------------------

    def _resume(self) -> bool:
        plan, path = self.plan, self.plan.choices.output
        self._require_replay_known()
        resumed = self.checkpoint is not None and self.checkpoint.resume()
        notes: dict[str, Any] = self._notes() if resumed else {"offset": 0, "lines": ""}
        real = isinstance(self.side, Owner) and not self.side.source.simulated
        if not resumed:
            self._require_free(real)
        elif real and path is not None and path.is_file():
            require_behind(path, notes["offset"], notes["lines"])
        if isinstance(self.side, Owner) and real:
            self.side.start_from_ledger(rows_again=plan.replay is not False)
        self.output.begin(notes["offset"])
        if notes["lines"]:
            self.output.write(notes["lines"])
        return resumed

    def _require_free(self, real: bool) -> None:
        """Refuse an output that may hold releases of the same measurements."""
        again = "Continue it with its checkpoint, or "
        if real and self.plan.choices.ledger is not None and self.plan.replay is not False:
            again = "The ledger sends what it has of them again, as it was: "
        self.plan.choices.require_free(f"it may hold releases of these measurements. {again}")

    def _notes(self) -> dict[str, Any]:
        """The notes of an earlier run, from its checkpoint."""
        assert self.checkpoint is not None
        said, path = self.checkpoint.notes, self.checkpoint.path
        changed = [what for what, value in self._same().items() if said.get(what) != value]
        if changed:
            raise CheckpointError(f"{path} was saved with another {changed[0]}: use the same.")
        counts = dict.fromkeys(("used", "missing", "offset"), read_count)
        texts = dict.fromkeys(("digest", "lines", "chain"), _text)
        form = {**counts, **texts, "grid": optional(read_number)}
        try:
            notes = read_fields(said, form, "its notes", others=True)
        except InvalidInput as error:
            raise CheckpointError(f"{path} was saved by another command: {error}") from None
        self.used, self.missing = notes["used"], notes["missing"]
        self.digest, self.chain = notes["digest"], notes["chain"]
        if isinstance(self.side, Analyst):
            self.side.grid = notes["grid"]
        return notes

    def _require_replay_known(self) -> None:
        plan = self.plan
        once = (self.checkpoint, plan.choices.ledger) != (None, None)
        if once and plan.replay is None and not plan.choices.from_releases:
            raise InvalidInput(
                "standard input with a checkpoint or a ledger: state whether "
                "after a restart it begins again (replay: rows already used are skipped) or goes "
                "on with new measurements (continue). A measurement must not be released twice."
            )

    def _same(self) -> dict[str, Any]:
        plan, output = self.plan, self.plan.choices.output
        return {
            "choice of columns": self.names,
            "emit": plan.choices.to_releases,
            "output": None if output is None else str(output.resolve()),
            "output-format": plan.json_out,
            "simulate": plan.choices.simulate,
            "seed": plan.choices.seed,
            "range": None if plan.promise.span is None else list(plan.promise.span),
        } | ({"time": self.times} if self.times else {})

    # --- work -----------------------------------------------------------------------------------

    def take_up(self) -> None:
        """Find the place in the input from which `next_block` goes on."""
        self.source, side = iter(self.rows), self.side
        if isinstance(side, Analyst):
            assert self.estimator is not None
            self.source = side.fresh(self.source, self.estimator.steps)
        elif self.plan.replay is False:
            self._retire(side)
        elif self.resumed:
            self._skip(self.source)

    def next_block(self) -> bool:
        """Read, release, use, save and print one block of rows; False at the end of the input.

        With a ledger what is released is charged there before it is used or printed.
        """
        side, size = self.side, self.plan.restart.block
        rows = list(
            itertools.islice(self.source, side.rows(size) if isinstance(side, Owner) else size)
        )
        if rows:
            self._block(rows)
        return bool(rows)

    def _retire(self, side: Owner) -> None:
        while side.retiring:
            count = side.rows(self.plan.restart.block)
            unknown = np.full((count, len(self.features)), np.nan)
            self._finish(side.retire(count), Public(self.features, unknown, self.times, ()))

    def _skip(self, source: Iterator[Row]) -> None:
        """Pass over the rows that were used before, and see that their public columns are."""
        digest, count = _hashed(repr(self.features)), 0
        for row in itertools.islice(source, self.used):
            digest, count = _hashed(digest + repr(row.features)), count + 1
        if count < self.used or digest != self.digest:
            raise CheckpointError(
                f"The input does not begin with the {self.used} rows that were used before: it is "
                "shorter, or its features differ. Give the same input, or continue with new rows. "
                "Different measurements need their own account, output and checkpoint."
            )

    def _block(self, block: list[Row]) -> None:
        public = Public(
            self.features, np.array([row.features for row in block]), self.times,
            [row.times for row in block],
        )  # fmt: skip
        if not self.plan.json_out:
            require_no_formula(itertools.chain(*public.written), "a time")
        values = np.array([row.value for row in block])
        if isinstance(self.side, Owner):
            release = self.side.release(values, public.mark)
        else:
            assert self.estimator is not None
            release = self.side.release(self.estimator.steps, values)
        self.used += len(block)
        if self.checkpoint is not None:
            for row in block:
                self.digest = _hashed(self.digest + repr(row.features))
        self._finish(release, public)

    def _finish(self, release: pv.Release, public: Public) -> None:
        """Use a release, save it, print it, in this order."""
        if self.estimator is not None:
            H = np.nan_to_num(public.features)  # unknown ones are of steps that show nothing
            H = np.insert(H, 0, 1.0, axis=1) if self.plan.columns.intercept else H
            self.estimator.update(release, H)
        self.missing += int(np.isnan(release.values).sum())
        self.last = public.time(-1)
        lines = self._lines(release, public)
        if self.checkpoint is not None:
            notes = {
                "used": self.used,
                "missing": self.missing,
                "digest": self.digest,
                "offset": self.output.offset,
                "lines": lines,
                "chain": self.chain,
                "grid": self.grid,
            }
            self.output.sync()  # what the offset speaks of must be on disk before the checkpoint
            self.checkpoint.save(pending=release, notes=notes | self._same())
        self.output.write(lines)
        if self.plan.choices.png is not None and self.estimator is not None:
            found, step = self.concluded(), self.estimator.steps - 1
            if found is not None:
                self.trail.add(step, found.value, np.diff(found.interval())[:, 0] / 2 / BAND)

    def _lines(self, release: pv.Release, public: Public) -> str:
        """The lines of a block that the output does not have yet."""
        begun, nested = self.output.begun, self.plan.json_out
        if self.estimator is not None:
            found = self.concluded()
            record = estimated_record(found, self.estimator, self.names, self.last, nested=nested)
            return as_lines([record], json_lines=nested, heading=not begun)
        records = released_records(release, public)
        if not nested:
            return as_lines(records, json_lines=False, heading=not begun)
        assert isinstance(self.side, Owner)
        records[-1] |= self.side.entry
        every = records if begun else [self._facts(self.side), *records]
        sign = None if self.side.account is None else self.side.account.ledger.sign
        lines, self.chain = linked(every, self.chain, sign)
        return lines

    def concluded(self) -> Estimate | None:
        """The estimate from the releases so far; None where they do not show all of θ."""
        assert self.estimator is not None
        if not self.estimator.identifiable:
            return None
        if self.states_variance:
            return self.estimator.result(self.names)
        return self.estimator.result_unknown(self.names, self.shown)

    @property
    def states_variance(self) -> bool:
        return self.plan.columns.residual_variance is not None

    @property
    def shown(self) -> int:
        """Measurements that were released so far."""
        assert self.estimator is not None
        return self.estimator.measurements - self.missing

    def _facts(self, side: Owner) -> dict[str, Any]:
        plan = self.plan
        more: dict[str, Any] = {"times": self.times} if self.times else {}
        return facts_of(
            plan.promise.level, simulated=side.source.simulated, grid=side.source.grid,
            measurements=[plan.columns.target], features=self.features, range=plan.promise.span,
            ledger=side.place, **more,
        )  # fmt: skip


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(given: object, name: str) -> str:  # of any length
    if not isinstance(given, str):
        raise InvalidInput(f"{name} must be a text.")
    return given


# --- sentences ------------------------------------------------------------------------------------


def counts_of(run: StreamRun, *, stopped: bool) -> str:
    side = run.side
    repeated = side.repeated if isinstance(side, Analyst) else 0
    resent = side.resent if isinstance(side, Owner) else 0
    parts = {
        plural(run.used, "row"): True,
        f"{run.missing:,} of them without a measurement": run.missing,
        f"{repeated:,} repeated releases left out": repeated,
        f"{plural(resent, 'step')} sent again as they were (measurements are not compared)": resent,
        "resumed": run.resumed,
        "stopped" + ("" if run.checkpoint is None else "; the same command goes on"): stopped,
    }
    return "; ".join(part for part, there in parts.items() if there) + "."


def errors_of(run: StreamRun, found: Estimate) -> str:
    """How the standard errors of a stream were made, and what they assume."""
    if np.isnan(found.standard_error).any():
        return (
            "No standard errors: with lags, or without a measurement to spare, they need the "
            "residual variance. State it."
        )
    source = "the stated residual variance" if run.states_variance else "the residuals"
    return (
        f"The standard errors come from {source} and assume independent measurement noise. Where "
        "measurements are autocorrelated, fit AR(1) errors: `privest identify`, family regression1."
    )


def known_after(
    level: pv.StreamLevel, correlation: float | None = None, variance: float | None = None
) -> list[str]:
    """How closely a reader guesses one measurement after the release.

    With a correlation of neighbours in time and a residual variance, and without lags: also the
    reader who smooths all releases.
    """
    shown_of_one = float(np.max(level.final_blocks().diagonal()))
    if not shown_of_one > 0:
        return []
    said = [Sentence("unbiased_steps", {"least": 1 / math.sqrt(shown_of_one)})]
    if correlation is not None and variance and not level.reach:
        guesses = exposures.stream_sds(shown_of_one, correlation, math.sqrt(variance))
        said.append(Sentence("guess_stream", dict(zip(("before", "others", "after"), guesses))))
    return [one.text for one in said]
