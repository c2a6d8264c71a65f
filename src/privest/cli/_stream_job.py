"""A stream at work, block by block; can be killed and resumed.

Every block of rows is: read, released (with a ledger: written down there), used, saved with the
lines it will print, printed. What was saved but perhaps not printed is printed again after a
restart, with the same numbers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from rich.console import Console

import privest as pv
from privest.arrays import Array
from privest.cli._console import print_promise, print_spent, shown, tell_file, tell_simulated
from privest.cli._holder import CLIPPED, REMEMBERED, Holder, holder_of
from privest.cli._receiver import Receiver
from privest.cli._rows import Row, Rows
from privest.cli._stream_lines import (
    LineOutput,
    as_lines,
    estimated_record,
    print_estimate,
    released_records,
    sent_since,
)
from privest.cli._stream_plan import StreamPlan
from privest.data._release_lines import facts_of, linked
from privest.errors import CheckpointError, InvalidInput
from privest.files import make_folder
from privest.reading import optional, read_count, read_fields, read_number, require_parameters
from privest.report import Trail, save_convergence

INTERCEPT = "intercept"


class Job:
    """The two sides that are wanted here, the place in the input, and the output."""

    def __init__(self, plan: StreamPlan, features: Sequence[str], stack: ExitStack) -> None:
        self.plan, self.features = plan, list(features)
        self.names = [INTERCEPT, *features] if plan.intercept else self.features
        require_parameters(len(self.names), "the features")
        self.side: Holder | Receiver = self._side(stack)
        self.estimator = None
        if plan.variance is not None:
            noise = pv.noise.Gaussian(cov=plan.variance)
            self.estimator = pv.PrivateRLS(plan.level, len(self.names), noise)
        self.chain = ""  # hash of the last line of releases
        self.told = -1  # the last step that the output has
        self.used, self.missing = 0, 0
        self.trail = Trail()
        self.digest = hashlib.sha256(repr(self.features).encode()).hexdigest()
        self.output = LineOutput(plan.output.output, stack)
        self.kept: pv.Checkpoint | None = None
        if plan.checkpoint is not None:
            make_folder(plan.checkpoint)
            holder = self.side if isinstance(self.side, Holder) else None
            self.kept = stack.enter_context(
                pv.Checkpoint(
                    plan.checkpoint,
                    mechanism=None if holder is None else holder.mechanism,
                    estimator=self.estimator,
                    source=None if holder is None else holder.source,
                )
            )
        self.resumed = self._resume()

    def _side(self, stack: ExitStack) -> Holder | Receiver:
        plan = self.plan
        if plan.sides.from_releases:
            return Receiver(plan.level)
        return holder_of(
            "stream", pv.StreamMechanism(plan.level, range=plan.span), plan.trial, plan.account,
            stack, input_=plan.source, columns=plan.target, move=plan.move,
        )  # fmt: skip

    @property
    def grid(self) -> float | None:
        """0: simulated; None: not yet known."""
        return self.side.source.grid if isinstance(self.side, Holder) else self.side.grid

    # --- taking up ------------------------------------------------------------------------------

    def _resume(self) -> bool:
        plan = self.plan
        if self.kept is not None or plan.known is not None or plan.account.ledger is not None:
            self._require_replay_known()
        resumed = self.kept is not None and self.kept.resume()
        notes: dict[str, Any] = self._notes() if resumed else {"offset": 0, "lines": ""}
        real = isinstance(self.side, Holder) and not self.side.source.simulated
        if not resumed and (plan.known is None or not real):
            again = "Continue it with its --checkpoint, or with --known (what it holds is then not "
            again += "drawn again), or "
            if real and plan.account.ledger is not None and plan.replay is not False:
                again = "The ledger sends what it has of them again, as it was: "
            plan.output.require_free(f"it may hold releases of these readings. {again}")
        if isinstance(self.side, Holder) and real:
            known = max(self._sent(notes), -1 if plan.known is None else plan.known)
            self.side.start_from(known, rows_again=plan.replay is not False)
        self.output.begin(notes["offset"])
        if notes["lines"]:
            self.output.write(notes["lines"])
        return resumed

    def _sent(self, notes: dict[str, Any]) -> int:
        """The last step that the output holds beyond what was saved, −1 if none.

        It goes on after that, and `notes` say so.
        """
        path = self.plan.output.output
        begins = not notes["offset"] and self.plan.known is None and not notes["lines"]
        if path is None or not path.is_file() or begins:
            return -1
        found = sent_since(path, notes["offset"], notes["lines"])
        if found is None:
            return -1
        self.told, self.chain = found.whole, found.chain
        notes |= {"offset": found.end, "lines": ""}
        return found.step

    def _notes(self) -> dict[str, Any]:
        """What an earlier run noted, of the form that `_save` gives it, taken up."""
        assert self.kept is not None
        said, path = self.kept.notes, self.kept.path
        changed = [what for what, value in self._same().items() if said.get(what) != value]
        if changed:
            raise CheckpointError(
                f"{path} was saved by a command with another {changed[0]}: use the same."
            )
        counts = dict.fromkeys(("used", "missing", "offset"), read_count)
        texts = dict.fromkeys(("digest", "lines", "chain"), _text)
        form = {**counts, **texts, "grid": optional(read_number)}
        try:
            notes = read_fields(said, form, "its notes", others=True)
        except InvalidInput as error:
            raise CheckpointError(f"{path} was saved by another command: {error}") from None
        self.used, self.missing = notes["used"], notes["missing"]
        self.digest, self.chain = notes["digest"], notes["chain"]
        if isinstance(self.side, Receiver):
            self.side.grid = notes["grid"]
        return notes

    def _require_replay_known(self) -> None:
        if self.plan.replay is None and not self.plan.sides.from_releases:
            raise InvalidInput(
                "standard input with a checkpoint, a ledger or --known: say whether after a "
                "restart it begins again (--replay: rows already used are skipped) or goes on with "
                "new readings (--continue). A reading must not be released twice."
            )

    def _same(self) -> dict[str, Any]:
        """What must not change between the runs of one stream."""
        plan, output = self.plan, self.plan.output.output
        return {
            "choice of columns": self.names,
            "--emit": plan.sides.to_releases,
            "--output": None if output is None else str(output.resolve()),
            "--output-format": plan.json_out,
            "--simulate": plan.trial.simulate,
            "--seed": plan.trial.seed,
            "--range": None if plan.span is None else list(plan.span),
        }

    # --- work -----------------------------------------------------------------------------------

    def work(self, rows: Rows, report: Console) -> None:
        """All blocks of the input."""
        source, side = iter(rows), self.side
        if isinstance(side, Receiver):
            assert self.estimator is not None
            source = side.fresh(source, self.estimator.steps)
        elif self.plan.replay is False:
            self._burn(side)
        elif self.resumed:
            self._skip(source)
        with report.status("reading ...") if report.is_terminal else ExitStack() as status:
            while block := list(itertools.islice(source, self._rows())):
                self._block(block)
                if not isinstance(status, ExitStack):
                    status.update(f"{self.used:,} rows")

    def _rows(self) -> int:
        """How many the next block has."""
        block, side = self.plan.block, self.side
        return side.rows(block) if isinstance(side, Holder) else block

    def _burn(self, side: Holder) -> None:
        """Steps that were sent and whose rows do not come again: nothing is known of them."""
        while side.burning:
            count = side.rows(self.plan.block)
            self._finish(side.burn(count), np.full((count, len(self.features)), np.nan))

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

    def _block(self, block: list[Row]) -> None:
        features = np.array([row.features for row in block])
        values = np.array([row.value for row in block])
        if isinstance(self.side, Holder):
            release = self.side.release(values)
        else:
            assert self.estimator is not None
            release = self.side.release(self.estimator.steps, values)
        self.used += len(block)
        if self.kept is not None:
            for row in block:
                self.digest = _chained(self.digest, row)
        self._finish(release, features)

    def _finish(self, release: pv.StreamRelease, features: Array) -> None:
        """Use a release, save it, print it, in this order."""
        if self.estimator is not None:
            H = np.nan_to_num(features)  # unknown ones are of steps that show nothing
            H = np.insert(H, 0, 1.0, axis=1) if self.plan.intercept else H
            self.estimator.update(release, H)
        self.missing += 0 if release.missing is None else int(release.missing.sum())
        lines = self._lines(release, features)
        if self.kept is not None:
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
        known = self.estimator
        if self.plan.output.png is not None and known is not None and known.identifiable:
            self.trail.add(known.steps - 1, known.estimate, known.standard_error)

    def _lines(self, release: pv.StreamRelease, features: Array) -> str:
        """What is written of a block: what the output has already is not."""
        begun, nested = self.output.begun, self.plan.json_out
        if self.estimator is not None:
            if self.estimator.steps - 1 <= self.told:
                return ""
            estimate = estimated_record(self.estimator, self.names, nested=nested)
            return as_lines([estimate], json_lines=nested, heading=not begun)
        records = released_records(release, features, self.features)
        records = records[max(self.told + 1 - release.start, 0) :]
        if not nested or not records:
            return as_lines(records, json_lines=False, heading=not begun) if records else ""
        assert isinstance(self.side, Holder)
        records[-1] |= self.side.entry
        every = records if begun else [self._facts(self.side), *records]
        sign = None if self.side.ledger is None else self.side.ledger.sign
        lines, self.chain = linked(every, self.chain, sign)
        return lines

    def _facts(self, side: Holder) -> dict[str, Any]:
        """The first line of releases."""
        plan = self.plan
        return facts_of(
            plan.level, simulated=side.source.simulated, grid=side.source.grid,
            readings=[plan.target], features=self.features, range=plan.span, ledger=side.account(),
        )  # fmt: skip

    # --- the end --------------------------------------------------------------------------------

    def summarise(self, report: Console, stopped: bool) -> None:
        """What was done, and the last estimate, for people."""
        goes_on = "" if self.kept is None else "; the same command goes on"
        side = self.side
        repeated = side.repeated if isinstance(side, Receiver) else 0
        burnt, resent = (side.burnt, side.resent) if isinstance(side, Holder) else (0, 0)
        parts = {
            f"{self.used:,} rows": True,
            f"{self.missing:,} of them without a reading": self.missing,
            f"{repeated:,} repeated releases left out": repeated,
            f"{resent:,} steps sent again as they were": resent,
            "resumed": self.resumed,
            f"stopped{goes_on}": stopped,
        }
        report.print(shown("; ".join(part for part, there in parts.items() if there) + "."))
        if burnt:
            report.print(
                shown(
                    f"{burnt:,} steps were sent before, and what was sent is not here: they were "
                    "not drawn again, and count as missing."
                )
            )
        if self.grid == 0.0:
            print_spent(report, self.plan.spent)
            tell_simulated(report)
        else:
            print_promise(report, self.plan.said)
        if self.grid and isinstance(side, Holder) and self.kept is None and side.ledger is None:
            report.print(shown(REMEMBERED))
        if self.estimator is not None:
            print_estimate(report, self.estimator, self.names)
            if self.plan.span is not None:
                report.print(shown(CLIPPED))
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
