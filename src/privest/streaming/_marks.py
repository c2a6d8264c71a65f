"""Whether rows that come again are those that were sent: marks of them, kept by the ledger.

Of the public columns an entry has a hash. Of the readings it has an HMAC under the ledger's key,
never of fewer than `LEAST` of them: whoever has the file, and with it the key, could else try out
one reading after the other. They are those of the entry and, where it has too few, of the steps
before it, from the one on that the name of the mark says. What follows the last mark waits for the
next one. The first `LEAST` readings have a mark of their own, the same in blocks of whatever size,
by which the same stream is known under another name; none where most of them are alike (a sensor
that is off), as those of many streams are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from privest.arrays import Array

LEAST = 16
FIRST, READINGS, PUBLIC = "first readings", "readings from step ", "public "


class Window(NamedTuple):
    """Readings, one after the other, of the steps from `since` on, `width` of each."""

    since: int
    values: Array
    width: int

    @property
    def stop(self) -> int:
        return self.since + len(self.values) // self.width

    def after(self, step: int) -> Array:
        """Those of the steps from `step` on."""
        return self.values[(step - self.since) * self.width :]


class Marks:
    """Marks of the rows of one stream; `passed` after each release, which must be of all steps.

    width  readings of a step.
    """

    def __init__(self, sign: Callable[[bytes], str], width: int) -> None:
        self._sign, self._width = sign, width
        self._recent: Window  # the last readings, up to the next step
        self._waiting: int  # from this step on no mark covers them yet
        self._first: Array | None  # None: its mark is made, or it is not known
        self.restart(0)

    def new(self, readings: Array, public: Mapping[str, str]) -> dict[str, str]:
        """Of rows that are released now."""
        found, waiting = dict(public), self._joined(readings).after(self._waiting)
        if len(waiting) >= LEAST:
            found[f"{READINGS}{self._waiting}"] = self._mark(waiting)
        if self._first is not None:
            first = self.first_of(np.append(self._first, readings))
            found |= {} if first is None else {FIRST: first}
        return found

    def again(
        self, readings: Array, public: Mapping[str, str], stored: Mapping[str, str]
    ) -> dict[str, str]:
        """Of rows that come again, as far as they can be compared with what is stored."""
        found, window = dict(public), self._joined(readings)
        for name in stored:
            if name.startswith(READINGS):
                since = int(name.removeprefix(READINGS))
                if since >= window.since:
                    found[name] = self._mark(window.after(since))
        return found

    def first_of(self, readings: Array) -> str | None:
        """The mark of the beginning of a stream; None where it is too short or too much alike."""
        head = _plain(readings)[:LEAST]
        if len(head) < LEAST or 2 * len(np.unique(head)) < LEAST:
            return None
        return self._mark(head)

    def passed(self, readings: Array, marks: Mapping[str, str]) -> None:
        """These rows were sent, now or before, under these marks."""
        window = self._joined(readings)
        since = max(window.since, window.stop - self.remembered // self._width)
        self._recent = Window(since, window.after(since), self._width)
        marked = any(name.startswith(READINGS) for name in marks)
        self._waiting = window.stop if marked else max(self._waiting, since)
        if self._first is not None:
            first = np.append(self._first, _plain(readings))[:LEAST]
            self._first = None if len(first) == LEAST else first

    def restart(self, step: int) -> None:
        """What was before this step is not known here."""
        self._recent, self._waiting = Window(step, np.zeros(0), self._width), step
        self._first = None if step else np.zeros(0)

    @property
    def remembered(self) -> int:
        """How many readings before a step the next mark may be of."""
        return (LEAST // self._width + 1) * self._width

    def _joined(self, readings: Array) -> Window:
        """The last readings, with these."""
        recent = self._recent
        return recent._replace(values=np.concatenate([recent.values, _plain(readings)]))

    def _mark(self, readings: Array) -> str:
        data = np.ascontiguousarray(readings, dtype="<f8").tobytes()
        return self._sign(b"privest stream readings " + hashlib.sha256(data).digest())


def public_mark(
    names: Sequence[str], columns: Array, times: Sequence[tuple[str, ...]]
) -> dict[str, str]:
    """The mark of public columns; other columns have a mark of another name."""
    digest = hashlib.sha256(np.ascontiguousarray(columns + 0.0, dtype="<f8").tobytes())
    digest.update(repr(list(times)).encode())
    which = hashlib.sha256(repr(list(names)).encode()).hexdigest()[:16]
    return {f"{PUBLIC}{which}": digest.hexdigest()}


def _plain(readings: Array) -> Array:
    """In one row; −0 is 0, and what is missing is one NaN."""
    flat = np.ravel(readings) + 0.0
    return np.where(np.isnan(flat), np.nan, flat)
