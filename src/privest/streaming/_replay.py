"""A file of readings as a stream, for one who looks on: released block by block, and estimated from
the releases alone.

Two sides, as on two machines: a job that holds the readings, draws noise, charges the ledger, saves
and writes what leaves; and one that sees what has left. What is shown of a block was paid for and
saved before. A replay that is begun again goes on where it was, from what was written.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator._stream_conclusion import StreamConclusion
from privest.records import Record
from privest.release import extra_variance
from privest.report import Trail
from privest.streaming._holder import Holder
from privest.streaming._job import Block, Job
from privest.streaming._lines import Unwritten, hidden_names
from privest.streaming._opening import opened_rows, require_different_files
from privest.streaming._replay_plan import ReplayPlan
from privest.streaming._words import counts_of

LAST = 240  # releases that are kept to be shown


class Seen(NamedTuple):
    """One reading as others see it: NaN where nothing is shown."""

    number: int
    time: str
    value: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayState(Record):
    """Where a replay is.

    counts         what was done, in a sentence.
    last           the last releases, each as a reading with its noise, of deviation `noise`.
    found          the estimate from all releases; None: `hidden` names what they do not show yet.
    spent, budget  levels of a reading in the ledger, and what is `left`; None in a trial.
    """

    names: tuple[str, ...]
    used: int
    finished: bool
    resumed: bool
    counts: str
    noise: float
    last: tuple[Seen, ...]
    found: StreamConclusion | None
    hidden: tuple[str, ...]
    spent: float | None = None
    left: float | None = None
    budget: float | None = None


class Replay:
    """A file that is released as a stream; `next_block` is the only thing that releases.

    Use it in a `with`, which lets go of the files, the ledger and the locks. Raises as `privest
    stream` does: InvalidInput, CheckpointError, BudgetExceeded.
    """

    def __init__(self, plan: ReplayPlan) -> None:
        self.plan, self.finished = plan, False
        self._last: deque[Seen] = deque(maxlen=LAST)
        with ExitStack() as stack:
            held = plan.held()
            require_different_files(held)
            held.output.require_possible()
            self._require_own(plan)
            rows, _ = opened_rows(held, stack)
            if rows.empty:
                raise InvalidInput("the file has no rows: nothing can be released.")
            output = Unwritten() if plan.output is None else None
            self.holder = Job(held, rows.features, stack, rows.times, None, output)
            followed = plan.followed(self.holder.used)
            self.follower = Job(followed, rows.features, stack, rows.times, None, Unwritten())
            self._catch_up()
            self.holder.take_up(rows)
            self._stack = stack.pop_all()

    @staticmethod
    def _require_own(plan: ReplayPlan) -> None:
        """A file of releases that is there is gone on with, never written over."""
        output, kept = plan.output, plan.checkpoint
        if output is None or kept is None or kept.exists():
            return
        if output.is_file() and output.stat().st_size:
            raise InvalidInput(
                f"{output.name} is there already, and what is needed to go on with it is not: "
                "choose another name for the releases."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _catch_up(self) -> None:
        """What was written before is read as any receiver reads it."""
        if not self.holder.resumed:
            self.follower.output.begin(0)
            return
        with ExitStack() as stack:
            rows, _ = opened_rows(self.follower.plan, stack)
            if rows.empty:
                return
            self.follower.take_up(rows)
            while (block := self.follower.next_block()) is not None:
                self._see(block)

    def next_block(self) -> bool:
        """Release the next rows and follow; False where there are none."""
        block = None if self.finished else self.holder.next_block()
        if block is None:
            self.finished = True
            return False
        if block.release is not None:
            self.follower.finish(block.release, block.public)
            self._see(block)
        return True

    def _see(self, block: Block) -> None:
        if block.release is None:
            return
        width, public = self.holder.width, block.public
        values = as_readings(self.plan.promise.level, block.release.values)
        first = block.release.start * width
        for k, value in enumerate(values.tolist()):
            self._last.append(Seen(first + k, " ".join(public.time(k).values()), value))

    @property
    def trail(self) -> Trail:
        """The estimates along the stream, for a picture."""
        return self.follower.trail

    def state(self) -> ReplayState:
        """Where it is now; nothing in it comes from a reading but through a release."""
        follower, side = self.follower, self.holder.side
        assert isinstance(side, Holder)
        assert follower.estimator is not None
        return ReplayState(
            names=tuple(follower.names),
            used=self.holder.used,
            finished=self.finished,
            resumed=self.holder.resumed,
            counts=counts_of(self.holder, stopped=False),
            noise=noise_of_reading(self.plan.promise.level, side.source.grid),
            last=tuple(self._last),
            found=follower.concluded(),
            hidden=tuple(hidden_names(follower.estimator, follower.names)),
            **self._account(side),
        )

    def _account(self, side: Holder) -> dict[str, float | None]:
        """Levels of the account, where there is one."""
        ledger, place = side.ledger, side.account()
        if ledger is None or place is None:
            return {}
        subject = place["subject"]
        amounts = {
            "spent": ledger.spent(subject).level,
            "left": ledger.remaining(subject).level,
            "budget": ledger.budget(subject).level,
        }
        return {name: None if value is None else float(value) for name, value in amounts.items()}


def as_readings(level: pv.EndlessLevel, values: Array) -> Array:
    """Releases as readings with their noise, y + A⁻¹e, for a level that shows each step once.

    >>> as_readings(pv.EndlessLevel(4.0), np.array([1.0, np.nan]))
    array([0.5, nan])
    """
    root = _root(level)
    found: Array = np.linalg.solve(root, values.reshape(-1, level.block).T).T.ravel()
    return found


def noise_of_reading(level: pv.EndlessLevel, grid: float) -> float:
    """The deviation of that noise, of a reading.

    >>> noise_of_reading(pv.EndlessLevel(4.0), 0.0)
    0.5
    """
    inverse = np.linalg.inv(_root(level))
    return float(np.sqrt((1 + extra_variance(grid)) * (inverse**2).sum(axis=1).max()))


def _root(level: pv.EndlessLevel) -> Array:
    """A of z̃ = A·y + e."""
    if level.reach:
        raise InvalidInput("releases that look back show sums of readings, no single ones.")
    root: Array = level.blocks(0, 1)[0, 0]
    return root
