"""`privest stream`: rows in, releases or estimates out, as they come; can be killed and resumed.

Every block of rows is: read, released, used, saved (with the lines it will print), printed. What
was saved but perhaps not printed is printed again after a restart, with the same numbers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privest.arrays import Array
from privest.checkpoint import Checkpoint
from privest.cli._rows import Row, Rows
from privest.data._text_table import open_lines
from privest.errors import CheckpointError, InvalidInput
from privest.estimator import PrivateRLS
from privest.mechanism import StreamMechanism
from privest.mechanism.source import seeded
from privest.noise import Gaussian
from privest.privacy import EndlessLevel
from privest.release import StreamRelease
from privest.report import BAND, Trail, save_convergence

INTERCEPT = "intercept"


@dataclass(frozen=True)
class StreamPlan:
    """What `privest stream` was asked to do."""

    source: str  # a file, or "-"
    target: str
    features: list[str] | None
    level: EndlessLevel
    variance: float | None
    intercept: bool
    from_releases: bool
    emit_releases: bool
    json_in: bool
    json_out: bool
    output: Path | None
    block: int
    checkpoint: Path | None
    replay: bool | None  # after a restart: the input begins again, or goes on
    seed: int | None
    picture: Path | None
    overwrite: bool = False
    spent: tuple[float, float, float] | None = None  # ε, δ, move


def run(plan: StreamPlan, report: Console) -> None:
    """Work through the input; a summary goes to `report` (stderr)."""
    _require_different_files(plan)
    with ExitStack() as stack:
        rows = Rows(
            stack.enter_context(open_lines(plan.source)),
            json_lines=plan.json_in,
            value="z" if plan.from_releases else plan.target,
            features=plan.features,
            others=("step", "level") if plan.from_releases else (),
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
    named |= {"--output": plan.output, "--checkpoint": plan.checkpoint, "--png": plan.picture}
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
        self.mechanism = None if plan.from_releases else StreamMechanism(plan.level)
        self.estimator = None
        if plan.variance is not None:
            noise = Gaussian(cov=plan.variance)
            self.estimator = PrivateRLS(plan.level, len(self.names), noise)
        self.noise = seeded(plan.seed, "stream", plan.target, plan.level.fingerprint)
        self.used, self.missing, self.repeated = 0, 0, 0
        self.trail = Trail()
        self.digest = hashlib.sha256(repr(self.features).encode()).hexdigest()
        self.output = _Output(plan.output, stack)
        self.kept: Checkpoint | None = None
        if plan.checkpoint is not None:
            self.kept = stack.enter_context(
                Checkpoint(
                    plan.checkpoint,
                    mechanism=self.mechanism,
                    estimator=self.estimator,
                    source=None if self.mechanism is None else self.noise,
                )
            )
        self.resumed = self._resume()

    def _resume(self) -> bool:
        if self.kept is not None and self.plan.replay is None and not self.plan.from_releases:
            raise InvalidInput(
                "standard input with a checkpoint: say whether after a restart it begins again "
                "(--replay: rows already used are skipped) or goes on with new readings "
                "(--continue). A reading must not be released twice."
            )
        if self.kept is None or not self.kept.resume():
            path = self.plan.output
            if (
                path is not None
                and not self.plan.overwrite
                and path.is_file()
                and path.stat().st_size
            ):
                raise InvalidInput(
                    f"{path} exists: it may hold releases of these readings. Continue it with its "
                    "--checkpoint, or say --overwrite."
                )
            self.output.begin(0)
            return False
        notes = self.kept.notes
        changed = [what for what, value in self._same().items() if notes[what] != value]
        if changed:
            raise CheckpointError(
                f"{self.kept.path} was saved by a command with another {changed[0]}: use the same."
            )
        self.used, self.missing = notes["used"], notes["missing"]
        self.digest = notes["digest"]
        self.output.begin(notes["offset"])
        self.output.write(notes["lines"])
        return True

    def _same(self) -> dict[str, Any]:
        """What must not change between the runs of one stream."""
        output = self.plan.output
        return {
            "choice of columns": self.names,
            "--emit": self.plan.emit_releases,
            "--output": None if output is None else str(output.resolve()),
            "--output-format": self.plan.json_out,
        }

    # --- work -----------------------------------------------------------------------------------

    def work(self, rows: Rows, report: Console) -> None:
        """All blocks of the input."""
        source = iter(rows)
        if self.resumed and not self.plan.from_releases and self.plan.replay:
            self._skip(source)
        fresh = self._not_yet_used(source) if self.plan.from_releases else source
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
            if row.given["level"] not in (None, self.plan.level.fingerprint):
                raise InvalidInput(
                    "these releases were made with another level: state the same privacy (--level "
                    "or --epsilon with --delta and --move) and --lags."
                )
            if step is None:
                raise InvalidInput("releases need a column 'step' of whole numbers.")
            if step > taken:
                raise InvalidInput(f"the release of step {taken} is missing: step {step} follows.")
            if step < taken:
                self.repeated += 1
                continue
            taken += 1
            yield row

    def _block(self, block: list[Row]) -> None:
        features = np.array([row.features for row in block])
        values = np.array([row.value for row in block])
        release = self._release(values)
        if self.estimator is not None:
            H = np.insert(features, 0, 1.0, axis=1) if self.plan.intercept else features
            self.estimator.update(release, H)
        self.used += len(block)
        self.missing += 0 if release.missing is None else int(release.missing.sum())
        lines = self._released(release, features) if self.plan.emit_releases else self._estimated()
        if self.kept is not None:
            for row in block:
                self.digest = _chained(self.digest, row)
            notes = {
                "used": self.used,
                "missing": self.missing,
                "digest": self.digest,
                "offset": self.output.offset,
                "lines": lines,
            }
            self.output.sync()  # what the offset speaks of must be on disk before the checkpoint
            self.kept.save(pending=release, notes=notes | self._same())
        self.output.write(lines)
        if self.plan.picture is not None and self.estimator is not None:
            self._remember()

    def _remember(self) -> None:
        assert self.estimator is not None
        if self.estimator.identifiable:
            self.trail.add(
                self.estimator.steps - 1, self.estimator.estimate, self.estimator.standard_error
            )

    def _release(self, values: Array) -> StreamRelease:
        if self.mechanism is not None:
            return self.mechanism.simulate(values, self.noise)
        assert self.estimator is not None
        absent = np.isnan(values)
        missing = absent if absent.any() else None
        level = self.plan.level.fingerprint
        return StreamRelease(self.estimator.steps, len(values), values, missing, level, True)

    # --- lines ----------------------------------------------------------------------------------

    def _released(self, release: StreamRelease, features: Array) -> str:
        records = []
        for k, (z, h) in enumerate(zip(release.values.tolist(), features.tolist())):
            shown = None if release.missing is not None and release.missing[k] else z
            records.append(
                {"step": release.start + k, "level": release.fingerprint, "z": shown}
                | dict(zip(self.features, h))
            )
        return self._lines(records)

    def _estimated(self) -> str:
        assert self.estimator is not None
        record: dict[str, Any] = {"step": self.estimator.steps - 1}
        estimate: list[Any] = [None] * len(self.names)
        error = estimate
        known = self.estimator.identifiable
        if known:
            estimate = self.estimator.estimate.tolist()
            error = self.estimator.standard_error.tolist()
        if not self.plan.json_out:
            errors = dict(zip((f"{name}_error" for name in self.names), error))
            return self._lines([record | dict(zip(self.names, estimate)) | errors])
        record["identifiable"] = known
        if known:
            record["estimate"] = dict(zip(self.names, estimate))
            record["standard_error"] = dict(zip(self.names, error))
        else:
            record["hidden"] = self._hidden()
        return self._lines([record])

    def _hidden(self) -> list[str]:
        """The parameters that have a part in what is not identifiable yet."""
        assert self.estimator is not None
        part = np.abs(self.estimator.hidden_directions).max(axis=1)
        return [name for name, share in zip(self.names, part) if share > 1e-6]

    def _lines(self, records: list[dict[str, Any]]) -> str:
        if self.plan.json_out:
            return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.output.begun:
            writer.writerow(records[0])
        writer.writerows(["" if v is None else v for v in r.values()] for r in records)
        return text.getvalue()

    # --- summary ----------------------------------------------------------------------------------

    def summarise(self, report: Console, stopped: bool) -> None:
        """What was done, and the last estimate, for people."""
        parts = [f"{self.used:,} rows"]
        if self.missing:
            parts.append(f"{self.missing:,} of them without a reading")
        if self.repeated:
            parts.append(f"{self.repeated:,} repeated releases left out")
        if self.resumed:
            parts.append("resumed")
        if stopped:
            parts.append("stopped" if self.kept is None else "stopped; the same command goes on")
        report.print(Text("; ".join(parts) + "."))
        if self.plan.spent is not None:
            epsilon, delta, move = self.plan.spent
            report.print(
                Text(
                    f"All releases together, if a reading moves by {move:g}: ε = {epsilon:.4g} at "
                    f"δ = {delta:g} (for exact Gaussian noise)."
                )
            )
        if self.mechanism is not None:
            report.print(
                Text("The noise was simulated: for experiments, this is no protected release."),
                style="yellow",
            )
        if self.estimator is None:
            return
        if not self.estimator.identifiable:
            report.print(Text(f"Not yet identifiable: {', '.join(self._hidden())}."))
            return
        table = Table(title="Estimate from the releases", title_justify="left")
        table.add_column("parameter", overflow="fold")
        for heading in ("estimate", "standard error", "95 % interval"):
            table.add_column(heading, justify="right", no_wrap=True)
        for name, value, error in zip(
            self.names, self.estimator.estimate, self.estimator.standard_error
        ):
            low, high = value - BAND * error, value + BAND * error
            table.add_row(Text(name), f"{value:.5g}", f"{error:.3g}", f"{low:.4g} … {high:.4g}")
        report.print(table)
        if self.plan.picture is not None and self.trail.points:
            save_convergence(self.trail, self.names, self.plan.picture)
            report.print(Text(f"Picture: {self.plan.picture}"))


class _Output:
    """Standard output, or a file that is cut back to what was certain after a restart."""

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self.path, self.stack = path, stack
        self.file: Any = None
        self.offset = 0

    @property
    def begun(self) -> bool:
        return self.offset > 0

    def begin(self, offset: int) -> None:
        """Start at `offset`: whatever the file has beyond it was not certain."""
        self.offset = offset
        if self.path is None:
            self.file = sys.stdout.buffer
            return
        try:
            mode = "r+b" if offset else "wb"
            self.file = self.stack.enter_context(open(self.path, mode))  # noqa: SIM115
            if offset:
                if self.file.seek(0, io.SEEK_END) < offset:
                    raise CheckpointError(f"{self.path} is shorter than when it was saved.")
                self.file.truncate(offset)
                self.file.seek(offset)
        except OSError as error:
            if isinstance(error, CheckpointError):
                raise
            raise InvalidInput(f"cannot write {self.path}: {error.strerror}.") from None

    def sync(self) -> None:
        """Force a file to disk."""
        if self.path is not None and self.path.is_file():
            os.fsync(self.file.fileno())

    def write(self, text: str) -> None:
        """Print lines now, not later."""
        data = text.encode()
        self.file.write(data)
        self.file.flush()
        self.offset += len(data)


def _chained(digest: str, row: Row) -> str:
    """A digest of the features so far: public, so it tells nothing of the readings."""
    return hashlib.sha256((digest + repr(row.features)).encode()).hexdigest()


def _whole(value: Any) -> int | None:  # noqa: ANN401 - a cell
    try:
        return int(value)
    except (TypeError, ValueError):
        return None
