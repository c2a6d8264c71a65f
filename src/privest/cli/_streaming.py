"""`privest stream`: rows in, releases or estimates out, as they come; can be killed and resumed.

Every block of rows is: read, released, used, saved (with the lines it will print), printed. What
was saved but perhaps not printed is printed again after a restart, with the same numbers.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import privest as pv
from privest.arrays import Array
from privest.cli._console import print_spent, shown, tell_file, tell_simulated
from privest.cli._options import Output, Sides, Spent, Trial
from privest.cli._rows import Row, Rows
from privest.cli._stream_lines import (
    LineOutput,
    as_lines,
    estimated_record,
    print_estimate,
    released_records,
)
from privest.data._cells import number
from privest.data._release_lines import OWN, as_values, facts_of, linked, steps_only
from privest.data._text_table import open_lines
from privest.errors import CheckpointError, InvalidInput
from privest.files import make_folder
from privest.reading import optional, read_count, read_fields, read_number, require_parameters
from privest.report import Trail, save_convergence

INTERCEPT = "intercept"


@dataclass(frozen=True)
class StreamPlan:
    """What `privest stream` was asked to do."""

    source: str  # a file, or "-"
    target: str
    features: list[str] | None
    level: pv.EndlessLevel
    variance: float | None
    intercept: bool
    sides: Sides
    json_in: bool
    json_out: bool
    output: Output
    block: int
    checkpoint: Path | None
    replay: bool | None  # after a restart: the input begins again, or goes on
    trial: Trial
    span: tuple[float, float] | None = None  # of the readings, public
    spent: Spent | None = None


def run(plan: StreamPlan, report: Console) -> None:
    """Work through the input; a summary goes to `report` (stderr)."""
    _require_different_files(plan)
    plan.output.require_possible()  # before any noise is spent
    with ExitStack() as stack:
        lines, received = stack.enter_context(open_lines(plan.source)), plan.sides.from_releases
        rows = Rows(
            steps_only(lines) if received and plan.json_in else lines,
            json_lines=plan.json_in,
            value="z" if received else plan.target,
            features=plan.features,
            others=[name for name in OWN if name != "z"] if received else (),
            finite=received or plan.trial.simulate,
        )
        if rows.empty and plan.features is None:
            report.print("The input has no rows: nothing to do.")
            return
        job = _Job(plan, rows.features, stack)
        stopped = False
        try:
            job.work(rows, report)
        except KeyboardInterrupt:
            stopped = True
        job.summarise(report, stopped)
        if stopped:
            sys.exit(130)


def _require_different_files(plan: StreamPlan) -> None:
    """Input, output, checkpoint and picture are four files: none may write over another."""
    named = {"the input": None if plan.source == "-" else Path(plan.source)}
    named |= {"--output": plan.output.output, "--checkpoint": plan.checkpoint}
    named |= {"--png": plan.output.png}
    seen: dict[Path, str] = {}
    for name, path in named.items():
        if path is None or str(path) == os.devnull:
            continue
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise InvalidInput(f"{other} and {name} are the same file: {path}.")


class _Job:
    """The two sides that are wanted here, the place in the input, and the output."""

    def __init__(self, plan: StreamPlan, features: Sequence[str], stack: ExitStack) -> None:
        self.plan, self.features = plan, list(features)
        self.names = [INTERCEPT, *features] if plan.intercept else self.features
        require_parameters(len(self.names), "the features")
        self.mechanism = None
        if not plan.sides.from_releases:
            self.mechanism = pv.StreamMechanism(plan.level, range=plan.span)
        self.estimator = None
        if plan.variance is not None:
            noise = pv.noise.Gaussian(cov=plan.variance)
            self.estimator = pv.PrivateRLS(plan.level, len(self.names), noise)
        self.noise = plan.trial.source("stream", plan.target, plan.level.fingerprint)
        self.grid = self.noise.grid if self.mechanism is not None else None  # None: not yet known
        self.chain = ""  # hash of the last line of releases
        self.used, self.missing, self.repeated = 0, 0, 0
        self.trail = Trail()
        self.digest = hashlib.sha256(repr(self.features).encode()).hexdigest()
        self.output = LineOutput(plan.output.output, stack)
        self.kept: pv.Checkpoint | None = None
        if plan.checkpoint is not None:
            make_folder(plan.checkpoint)
            self.kept = stack.enter_context(
                pv.Checkpoint(
                    plan.checkpoint,
                    mechanism=self.mechanism,
                    estimator=self.estimator,
                    source=None if self.mechanism is None else self.noise,
                )
            )
        self.resumed = self._resume()

    def _resume(self) -> bool:
        if self.kept is not None:
            self._require_replay_known()
        if self.kept is None or not self.kept.resume():
            self.plan.output.require_free(
                "it may hold releases of these readings. Continue it with its --checkpoint, or "
            )
            self.output.begin(0)
            return False
        said = self.kept.notes
        changed = [what for what, value in self._same().items() if said.get(what) != value]
        if changed:
            raise CheckpointError(
                f"{self.kept.path} was saved by a command with another {changed[0]}: use the same."
            )
        notes = self._notes(self.kept)
        self.used, self.missing = notes["used"], notes["missing"]
        self.digest, self.chain = notes["digest"], notes["chain"]
        if self.grid is None:
            self.grid = notes["grid"]
        self.output.begin(notes["offset"])
        self.output.write(notes["lines"])
        return True

    def _notes(self, kept: pv.Checkpoint) -> dict[str, Any]:
        """What an earlier run noted, of the form that `_block` gives it."""
        counts = dict.fromkeys(("used", "missing", "offset"), read_count)
        texts = dict.fromkeys(("digest", "lines", "chain"), _text)
        form = {**counts, **texts, "grid": optional(read_number)}
        try:
            return read_fields(kept.notes, form, "its notes", others=True)
        except InvalidInput as error:
            raise CheckpointError(f"{kept.path} was saved by another command: {error}") from None

    def _require_replay_known(self) -> None:
        if self.plan.replay is None and not self.plan.sides.from_releases:
            raise InvalidInput(
                "standard input with a checkpoint: say whether after a restart it begins again "
                "(--replay: rows already used are skipped) or goes on with new readings "
                "(--continue). A reading must not be released twice."
            )

    def _same(self) -> dict[str, Any]:
        """What must not change between the runs of one stream."""
        output = self.plan.output.output
        return {
            "choice of columns": self.names,
            "--emit": self.plan.sides.to_releases,
            "--output": None if output is None else str(output.resolve()),
            "--output-format": self.plan.json_out,
            "--simulate": self.plan.trial.simulate,
            "--seed": self.plan.trial.seed,
            "--range": None if self.plan.span is None else list(self.plan.span),
        }

    # --- work -----------------------------------------------------------------------------------

    def work(self, rows: Rows, report: Console) -> None:
        """All blocks of the input."""
        source = iter(rows)
        from_releases = self.plan.sides.from_releases
        if self.resumed and not from_releases and self.plan.replay:
            self._skip(source)
        fresh = self._not_yet_used(source) if from_releases else source
        with report.status("reading ...") if report.is_terminal else ExitStack() as status:
            while block := list(itertools.islice(fresh, self.plan.block)):
                self._block(block)
                if not isinstance(status, ExitStack):
                    status.update(f"{self.used:,} rows")

    def _skip(self, source: Iterator[Row]) -> None:
        """Pass over the rows that were used before, and see that they are the same."""
        digest, count = hashlib.sha256(repr(self.features).encode()).hexdigest(), 0
        for row in itertools.islice(source, self.used):
            digest, count = _chained(digest, row), count + 1
        if count < self.used or digest != self.digest:
            raise CheckpointError(
                f"The input does not begin with the {self.used} rows that were used before: it is "
                "shorter, or its features differ. Give the same input, or --continue on new rows."
            )

    def _not_yet_used(self, source: Iterable[Row]) -> Iterator[Row]:
        """Releases in order, each once: repeated ones are dropped, a gap is an error."""
        assert self.estimator is not None
        taken = self.estimator.steps
        for row in source:
            step = _whole(row.given["step"])
            if row.given["fingerprint"] not in (None, self.plan.level.fingerprint):
                raise InvalidInput(
                    "these releases were made with another level: state the same privacy (--level "
                    "or --epsilon with --delta and --move) and --lags."
                )
            if step is None:
                raise InvalidInput("releases need a column 'step' of whole numbers.")
            self._require_one_grid(row.given["grid"])
            if step > taken:
                raise InvalidInput(f"the release of step {taken} is missing: step {step} follows.")
            if step < taken:
                self.repeated += 1
                continue
            taken += 1
            yield row

    def _require_one_grid(self, given: Any) -> None:  # noqa: ANN401 - a cell
        """Real releases are on a grid, simulated ones (also those without a column) on none."""
        try:
            grid = 0.0 if given is None else number(given)
        except ValueError:
            grid = -1.0  # refused with the values
        if self.grid not in (None, grid):
            raise InvalidInput("releases of one stream have one grid: these are of two streams.")
        self.grid = grid

    def _block(self, block: list[Row]) -> None:
        features = np.array([row.features for row in block])
        values = np.array([row.value for row in block])
        release = self._release(values)
        if self.estimator is not None:
            H = np.insert(features, 0, 1.0, axis=1) if self.plan.intercept else features
            self.estimator.update(release, H)
        self.used += len(block)
        self.missing += 0 if release.missing is None else int(release.missing.sum())
        lines = self._lines(release, features)
        if self.kept is not None:
            for row in block:
                self.digest = _chained(self.digest, row)
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
            self.kept.save(pending=release, notes=notes | self._same())
        self.output.write(lines)
        if self.plan.output.png is not None:
            self._remember()

    def _remember(self) -> None:
        """For the figure."""
        known = self.estimator
        if known is not None and known.identifiable:
            self.trail.add(known.steps - 1, known.estimate, known.standard_error)

    def _release(self, values: Array) -> pv.StreamRelease:
        if self.mechanism is not None:
            if self.plan.trial.simulate:
                return self.mechanism.simulate(values, self.noise)
            return self.mechanism.release(values, self.noise)
        assert self.estimator is not None
        assert self.grid is not None
        absent = np.isnan(values)
        missing = absent if absent.any() else None
        return pv.StreamRelease(
            self.estimator.steps, len(values), as_values(values, self.grid), missing,
            self.plan.level.fingerprint, not self.grid, self.grid,
        )  # fmt: skip

    def _lines(self, release: pv.StreamRelease, features: Array) -> str:
        """What is written of a block."""
        begun, nested = self.output.begun, self.plan.json_out
        if self.estimator is not None:
            estimate = estimated_record(self.estimator, self.names, nested=nested)
            return as_lines([estimate], json_lines=nested, heading=not begun)
        records = released_records(release, features, self.features)
        if not nested:
            return as_lines(records, json_lines=False, heading=not begun)
        lines, self.chain = linked(records if begun else [self._facts(), *records], self.chain)
        return lines

    def _facts(self) -> dict[str, Any]:
        """The first line of releases."""
        plan = self.plan
        return facts_of(
            plan.level, simulated=self.noise.simulated, grid=self.noise.grid,
            readings=[plan.target], features=self.features, range=plan.span,
        )  # fmt: skip

    def summarise(self, report: Console, stopped: bool) -> None:
        """What was done, and the last estimate, for people."""
        goes_on = "" if self.kept is None else "; the same command goes on"
        parts = {
            f"{self.used:,} rows": True,
            f"{self.missing:,} of them without a reading": self.missing,
            f"{self.repeated:,} repeated releases left out": self.repeated,
            "resumed": self.resumed,
            f"stopped{goes_on}": stopped,
        }
        report.print(shown("; ".join(part for part, there in parts.items() if there) + "."))
        print_spent(report, self.plan.spent)
        if self.grid == 0.0:
            tell_simulated(report)
        if self.estimator is not None:
            print_estimate(report, self.estimator, self.names)
        if self.plan.output.png is not None and self.trail.points:
            save_convergence(self.trail, self.names, self.plan.output.png)
            tell_file("Picture", self.plan.output.png)


def _chained(digest: str, row: Row) -> str:
    """A digest of the features so far: public, so it tells nothing of the readings."""
    return hashlib.sha256((digest + repr(row.features)).encode()).hexdigest()


def _text(given: object, name: str) -> str:
    """Of any length: the lines of a block."""
    if not isinstance(given, str):
        raise InvalidInput(f"{name} must be a text.")
    return given


def _whole(value: Any) -> int | None:  # noqa: ANN401 - a cell
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
