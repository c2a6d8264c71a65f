"""The charge of a table's release: its entry is on disk before the table appears.

The order: all of the table in a draft that nobody sees; the entry, with its SHA-256; the header,
with the entry; the table to its place. A killed run leaves a draft that no entry knows (it is drawn
anew) or one that is paid for (it is finished, the very same table).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from privest.arrays import AnyArray, Array
from privest.errors import BudgetExceeded, InvalidInput, LedgerError, PrivestError
from privest.files import part_path, require_writable
from privest.ledger import Account as LedgerAccount
from privest.ledger import (
    Amount,
    Budget,
    Cost,
    Entry,
    Ledger,
    as_budget,
    as_subject,
    marks_folder,
    require_none_before,
    spelled,
)
from privest.records import Record
from privest.workflow.document import LedgerPlace, TableRelease, digest, parsed_document
from privest.workflow.spec import Spec
from privest.workflow.terms import Column, Terms

LEDGER = "privest-ledger.db"
LEAST = 16  # different public rows: tables with fewer often agree by chance, and are not compared


class Account:
    """The account of a table's values in a ledger.

    ledger   a `Ledger`, or the path of one, which is made when something is spent.
    budget   of a new account; a number: a level. None: what this release costs.
    again    release once more what was released before; of a new account: these are other values.
    """

    subject: str
    budget: Budget | float | None
    again: bool

    def __init__(
        self,
        ledger: Ledger | str | os.PathLike[str],
        subject: str,
        budget: Budget | float | None = None,
        *,
        again: bool = False,
    ) -> None:
        self._own = not isinstance(ledger, Ledger)
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self.path: Path = ledger.path if isinstance(ledger, Ledger) else Path(ledger).resolve()
        self.subject, self.budget, self.again = subject, budget, again
        self._seen: int | None = None  # the last entry when it was opened

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(self.path)
        return self._ledger

    @property
    def _ledger_account(self) -> LedgerAccount:
        return self.ledger.account(self.subject)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._own and self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def __getstate__(self) -> dict[str, Any]:  # a copy opens the ledger anew
        return vars(self) | {"_own": True, "_ledger": None}

    def open(self, plan: Terms, folder: Path) -> None:
        self._require_allowed(plan, folder)
        if self.path.exists():
            self.ledger.require_writable()

    def _require_allowed(self, plan: Terms, folder: Path) -> None:
        self._seen = 0
        if not self.path.exists():  # nothing was spent yet
            as_subject(self.subject)
            require_none_before(self.path, marks_folder())
            for place in (self.path, marks_folder() / "mark"):
                require_writable(place)
            self._require_within(plan, None)
            return
        self._seen = self.ledger.head.sequence
        trouble = self.ledger.trouble
        if trouble is not None:
            raise LedgerError(trouble)
        self._require_newest(folder)
        before = self._releases()
        if before and not self.again:
            last = before[-1]
            raise BudgetExceeded(
                f"{self.subject!r} was released on {last.time[:16].replace('T', ' ')} (entry "
                f"{last.sequence} of {self.path}){self._left('; ')}. Use that release: the "
                "same values again, with new noise, reveal more of them. If that is meant, raise "
                "the budget and state `again`. Different values need their own `subject`."
            )
        self._require_one_measure(plan, before)
        known = self.subject in self.ledger.subjects()
        stated = self._ledger_account.budget if known else None
        if stated is not None and self.budget is not None and stated != self._budget(plan):
            raise InvalidInput(
                f"{self.subject!r} has an account with the budget {stated.in_words()}: a "
                "different one is stated here. Change the budget in the ledger, which records it."
            )
        self._require_within(plan, stated)

    def preview(self, plan: Terms, table: Path | None = None) -> Spending:
        """The cost of a release under `plan`, to be written at `table`; nothing is spent."""
        unfinished = table is not None and self._has_paid_draft(table)
        folder = Path() if table is None else table.resolve().parent
        refusal = None if unfinished else self._refusal(plan, folder, self.again)
        facts: dict[str, Any] = {
            "ledger": self.path, "subject": self.subject, "refusal": refusal,
            "refusal_again": refusal and self._refusal(plan, folder, True),
            "unfinished": unfinished,
        }  # fmt: skip
        try:
            known = self.path.exists() and self.subject in self.ledger.subjects()
        except LedgerError:  # it cannot be read: the refusal says why
            return Spending(**facts, level=float(plan.information), known=False)
        if not known:
            return Spending(**facts, known=False, **left_of(self._budget(plan), None, plan))
        stated, spent = self._ledger_account.budget, self._ledger_account.spent
        own = left_of(stated, spent, plan, charged=unfinished)
        return Spending(**facts, known=True, earlier=tuple(self._releases()), **own)

    def _refusal(self, plan: Terms, folder: Path, again: bool) -> str | None:
        ledger = self.path if self._ledger is None else self._ledger
        try:
            with Account(ledger, self.subject, self.budget, again=again) as same:
                same._require_allowed(plan, folder)
        except PrivestError as error:
            return str(error)
        return None

    def _require_one_measure(self, plan: Terms, before: Sequence[Entry]) -> None:
        own = plan.measure
        for entry in before:
            parts = (entry.key or "").split(".")
            if entry.key and own not in parts:
                raise InvalidInput(
                    f"{self.subject!r}: entry {entry.sequence} of {self.path} is of a release in "
                    "another measure (another transform, units, set of columns, or persons in "
                    "place of rows): their levels do not add up to one budget. Release in that "
                    "measure again, or decide by hand what both show together."
                )

    def _require_within(self, plan: Terms, stated: Budget | None) -> None:
        if stated is None:
            left = left_of(self._budget(plan), None, plan)["remaining"]
            fits = left is None or left >= 0
        else:
            fits = self._ledger_account.preview(plan.cost).fits
        if not fits:
            raise BudgetExceeded(
                f"{self.subject!r}: a release at level {float(plan.information):g} is more than "
                f"the budget allows{self._left('; ') if stated is not None else ''}. Nothing was "
                "drawn. Release at a lower level, or raise the budget in the ledger, which "
                "records it."
            )

    def charge(self, plan: Terms, found: TableRelease, rows: PublicRows) -> TableRelease:
        """The release with its entry, which is on disk now and holds public facts only."""
        known = rows.names(plan.model.target)
        key = ".".join([*known, plan.measure, found.sha256[:32]])
        rest = [found.dropped] if found.persons is None else [found.dropped, found.rows]
        numbers = np.append(
            np.frombuffer(bytes.fromhex(found.sha256), dtype="<i8"), np.array(rest, dtype=np.int64)
        )
        written = self._ledger_account.spend_and_write(
            plan.cost, 0, found.charged, _facts(found),
            lambda: (numbers, None), key=key, shared=() if self.again else known,
            since=self._seen, budget=self._budget(plan),
        )  # fmt: skip
        return self._sealed(found, written.entry)

    def paid(self, found: TableRelease) -> TableRelease | None:
        """The header of a draft that is paid for, by its SHA-256; None: it is not."""
        of_table = self._entry_of(found.sha256)
        if of_table is None:
            return None
        entry, (dropped, *rest) = of_table
        charged = (entry.stop or 0) - (entry.start or 0)
        whole = replace(found, rows=charged, dropped=dropped)
        if rest:  # of persons: an entry counts them, and not their rows
            whole = replace(whole, rows=rest[0], persons=charged)
        cost = entry.cost or Cost(0.0)
        self._ledger_account.spend_and_write(  # refused where the plan is another one now
            cost, 0, whole.charged, _facts(whole),
            lambda: (np.zeros(0, dtype=np.int64), None), key=entry.key or "",
        )  # fmt: skip
        return self._sealed(replace(whole, columns=_drawn_columns(whole, cost)), entry)

    def _entry_of(self, sha256: str) -> tuple[Entry, list[int]] | None:
        """The entry of a table and its numbers of rows; None: nobody paid for it."""
        for entry in reversed(self._releases() if self.path.exists() else []):
            written = self.ledger.written(entry)
            if written is None or len(written.integers) not in (5, 6):
                continue
            words, rest = np.split(written.integers, [4])
            if words.astype("<i8").tobytes().hex() == sha256:
                return entry, rest.tolist()
        return None

    def is_paid(self, sha256: str) -> bool:
        try:
            return self._entry_of(sha256) is not None
        except LedgerError:
            return False

    def _has_paid_draft(self, table: Path) -> bool:
        try:
            with part_path(table.resolve()).open("rb") as file:
                return self.is_paid(digest(file))
        except OSError:
            return False

    def _sealed(self, found: TableRelease, entry: Entry) -> TableRelease:
        place = LedgerPlace(self.ledger.id, self.subject, entry.sequence, entry.hash)
        charged = replace(found, entry=place)
        return replace(charged, signature=self.ledger.sign(charged.signed_text))

    def _budget(self, plan: Terms) -> Budget:
        if self.budget is not None:
            return as_budget(self.budget)
        own, pure = plan.information, plan.cost
        if pure.epsilon is None:
            return Budget(level=own)
        return Budget(level=own, epsilon=pure.epsilon, delta=0.0, sensitivity=pure.sensitivity)

    def _releases(self) -> list[Entry]:
        return [one for one in self.ledger.history(self.subject) if one.cost is not None]

    def _left(self, before: str) -> str:
        """The rest of a budget in levels, for a message; empty for one in ε."""
        left = self._ledger_account.remaining.level
        if left is None:
            return ""
        return before + (f"a level of {float(left):g} is left" if left else "nothing is left")

    def _require_newest(self, folder: Path) -> None:
        """Refuse a ledger that does not know a release which is there: an old copy."""
        head = self.ledger.head
        for name, place in _entries_in(folder):
            if place.ledger == self.ledger.id and place.sequence > head.sequence:
                raise LedgerError(
                    f"{name} is entry {place.sequence} of the ledger {self.path}, which "
                    f"ends at entry {head.sequence}: it is an old copy, and new noise would be put "
                    "on values that were released already. Put the newest copy back, or recover "
                    "the ledger by what was released since."
                )


def _facts(found: TableRelease) -> dict[str, object]:
    """The plan, columns and grid; computed numbers have six digits, since processors differ."""
    facts = found.to_dict()
    columns = [
        [one.target, f"{one.level:.6g}", f"{one.residual_variance or 0:.6g}", one.reference_rows]
        for one in found.columns
    ]
    return {"plan": facts["plan"], "columns": columns, "grid": facts["grid"]}


def _drawn_columns(found: TableRelease, cost: Cost) -> tuple[Column, ...]:
    """The columns at the levels that noise was drawn at, not at those computed now.

    The draft has those of sums; rows have one level, which is the cost.
    """
    levels = [one.level for one in found.sums] or [float(cost.largest_level or 0)]
    return tuple(replace(one, level=level) for one, level in zip(found.columns, levels))


def _entries_in(folder: Path) -> Iterator[tuple[str, LedgerPlace]]:
    names = os.listdir(folder) if folder.is_dir() else []
    for name in sorted(names):
        if name.endswith(".json"):
            try:
                yield name, LedgerPlace.read(parsed_document(folder / name)["entry"], "entry")
            except (PrivestError, OSError, KeyError, TypeError):
                continue


def account_name(spec: Spec) -> str:
    return spelled(f"{', '.join(spec.targets)} of {Path(spec.data).name}")


class PublicRows:
    """The mark of a table in a ledger: its first `features` columns."""

    def __init__(self, features: int) -> None:
        self.features = features
        self._digest, self._different = hashlib.sha256(), np.zeros((0, features))

    def through(self, blocks: Iterator[Sequence[AnyArray]]) -> Iterator[Sequence[AnyArray]]:
        for block in blocks:
            if self.features:
                self._add(np.column_stack(block[: self.features]) + 0.0)  # −0 is 0
            yield block

    def _add(self, rows: Array) -> None:
        self._digest.update(rows.astype("<f8").tobytes())
        if len(self._different) < LEAST:
            every = np.concatenate([self._different, rows])
            self._different = np.unique(every, axis=0)[:LEAST]

    def names(self, targets: Sequence[str]) -> list[str]:
        """A name for each target of these rows; none where too few of them differ."""
        if len(self._different) < LEAST:
            return []
        rows = self._digest.hexdigest()
        facts = [json.dumps([target, self.features, rows]) for target in targets]
        return ["t" + hashlib.sha256(fact.encode()).hexdigest()[:32] for fact in facts]


# --- previews ---


@dataclass(frozen=True, kw_only=True)
class Spending(Record):
    """The cost of a release to an account, and the rest.

    known       whether there is an account; else the release opens it with `budget`.
    unit        "level", or "mu2" where the account is limited by μ alone.
    remaining   after this release, less than 0 where it is too much; None: other units.
    refusal     why the release would be refused now; `refusal_again`: with `again`.
    unfinished  a paid draft is there, which the same release finishes for nothing.
    """

    ledger: Path
    subject: str
    known: bool
    level: float
    unit: str = "level"
    budget: float | None = None
    spent: float | None = None
    remaining: float | None = None
    refusal: str | None = None
    refusal_again: str | None = None
    unfinished: bool = False
    earlier: tuple[Entry, ...] = ()

    DERIVED: ClassVar[tuple[str, ...]] = ("fits",)

    @property
    def fits(self) -> bool:
        return self.remaining is None or self.remaining >= 0


def left_of(
    budget: Budget, before: Amount | None, plan: Terms, *, charged: bool = False
) -> dict[str, Any]:
    """The numbers of a `Spending`; charged: `plan` is in `before`."""
    limit, unit, left = budget.level, "level", None
    if limit is None and budget.mu is not None:
        limit, unit = budget.mu**2, "mu2"
    spent = Fraction(0) if before is None else getattr(before, unit)
    own = plan.counted(unit)
    if limit is not None and spent is not None and own is not None:
        left = float(limit - spent - own * (not charged))  # exact before it is rounded: 0 is 0
    return {
        "unit": unit, "level": float(plan.information if own is None else own), "remaining": left,
        "budget": None if limit is None else float(limit),
        "spent": None if spent is None else float(spent),
    }  # fmt: skip
