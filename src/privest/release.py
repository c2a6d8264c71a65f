"""What leaves the data owner: z̃, and the public facts needed to use it. It cannot hold y."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from privest.arrays import Array, Flags, Index, plural
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.reading import read_count, read_flag, read_flags, read_number, read_numbers, read_text
from privest.records import ReadOnly, plain

if TYPE_CHECKING:
    from privest.privacy import StreamLevel

__all__ = ["Release", "ReleaseRecord"]


def extra_variance(grid: float) -> float:
    """3g²/4: what discrete noise (g²/2) and rounding (at most g²/4) add to unit noise."""
    return 0.75 * grid**2


class ReleaseRecord(ReadOnly):
    """What every release says of itself.

    values       z̃: what is shown, noise included; NaN where nothing is (a missing measurement).
    fingerprint  of the level; use with another level is refused.
    simulated    drawn with a simulation generator: for experiments, no protection.
    grid         of protected noise: the values are multiples of it, 2⁻¹⁰; 0 where simulated.
    """

    __slots__ = ()
    KIND: ClassVar[str] = "release"
    NDIM: ClassVar[int | tuple[int, ...] | None] = None  # of the values
    ON_GRID: ClassVar[bool] = True  # whether the values are those that the noise was put on

    values: Array
    fingerprint: str
    simulated: bool
    grid: float

    @property
    def unit_variance(self) -> float:
        """The largest variance of the noise on z̃: 1, and 3g²/4 of discrete noise and rounding.

        Estimators take it in place of 1 (section 6 of the proof page).
        """
        return 1.0 + extra_variance(self.grid)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, numbers exactly; missing ones are None. `from_dict` reads them."""
        record = {name: plain(getattr(self, name)) for name in self._names()}
        return {"kind": self.KIND} | record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`: every field checked, whatever was received."""
        if not isinstance(record, Mapping) or record.get("kind") != cls.KIND:
            raise InvalidInput(f"this is not a {cls.KIND}: a dictionary of that kind is needed.")
        names = set(cls._names())
        if names - set(record):
            raise InvalidInput(f"a {cls.KIND} needs {sorted(names)}; some of them are not there.")
        return cls(**cls._checked({name: record[name] for name in names}))

    @classmethod
    def _names(cls) -> list[str]:
        """The fields that travel; a level does not, its fingerprint does."""
        return [own.name for own in fields(cls) if own.name != "level"]  # type: ignore[arg-type]

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        """The fields as the constructor takes them."""
        record["values"] = read_numbers(record["values"], f"the values of a {cls.KIND}", cls.NDIM)
        record["fingerprint"] = read_text(record["fingerprint"], "the fingerprint of a level")
        record["simulated"] = read_flag(record["simulated"], "simulated")
        record["grid"] = _grid(record, cls.ON_GRID)
        return record

    def require(self, fingerprint: str) -> None:
        """Refuse to be used with another level than that of this fingerprint."""
        if self.fingerprint != fingerprint:
            raise InvalidInput(
                "This release was made with another level: both sides must use the same."
            )


@dataclass(frozen=True, eq=False, slots=True)
class Release(ReleaseRecord):
    """The releases z̃_k = A_kȲ_k + e_k of `steps` steps from step `start` (counted from 0).

    values     z̃ of these steps, one after another; NaN where a measurement was missing. Of many
               series: (series, steps, m).
    missing    (steps,) True where a measurement was missing: that step shows nothing (S_k = 0).
               None: none was. Where a part of a step was missing: one flag a value, (steps, m), or
               (1, values) where steps differ in size; of many series one flag a value. Which are
               missing is public.
    level      of the mechanism that made it; None where it was read from a record.
    """

    KIND: ClassVar[str] = "stream release"
    NDIM: ClassVar[tuple[int, ...]] = (1, 3)

    start: int
    steps: int
    values: Array
    missing: Flags | None
    fingerprint: str
    simulated: bool
    grid: float = 0.0
    level: StreamLevel | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.steps

    def part(self, first: int, last: int, sizes: Sequence[int]) -> Release:
        """The releases of the steps first..last−1 of these; `sizes` are the m_k of all of them."""
        before = sum(sizes[:first])
        inside = sum(sizes[first:last])
        values = self.values[before : before + inside]
        missing = self.missing
        if missing is not None and missing.size != self.steps:  # a part of these may miss no part
            missing = missing_in(np.isnan(values), sizes[first:last])
        elif missing is not None:
            missing = missing[first:last] if missing[first:last].any() else None
        return replace(
            self, start=self.start + first, steps=last - first, values=values, missing=missing
        )

    def require(self, fingerprint: str, *, series: bool = False) -> None:
        """Refuse a release of another level, and many series unless `series`."""
        ReleaseRecord.require(self, fingerprint)
        if self.values.ndim == 3 and not series:
            raise InvalidInput("This release is of many series: one stream is needed here.")

    def by_pattern(self) -> Iterator[tuple[Index, Release]]:
        """Groups of series that miss the same steps: their indices and their releases."""
        if self.missing is None:
            yield np.arange(len(self.values)), self
            return
        patterns, own = np.unique(self.missing, axis=0, return_inverse=True)
        for j, pattern in enumerate(patterns):
            members = np.flatnonzero(own.reshape(-1) == j)
            values = self.values[members]
            flags = self.missing[members]
            yield members, replace(self, values=values, missing=flags if pattern.any() else None)

    @classmethod
    def join(cls, releases: Sequence[Release]) -> Release:
        """Releases of one stream that follow one another, as one."""
        good = isinstance(releases, list | tuple) and len(releases) > 0
        if not good or not all(isinstance(own, cls) and own.values.ndim == 1 for own in releases):
            raise InvalidInput("releases must be a list of releases of a stream, and not empty.")
        first = releases[0]
        stop = first.start
        for own in releases:
            if own.start != stop or own.fingerprint != first.fingerprint:
                raise InvalidInput(
                    "Releases must follow one another at one level: expected step "
                    f"{stop}, received step {own.start}."
                )
            if own.grid != first.grid:
                raise InvalidInput("Simulated and protected releases cannot be joined into one.")
            stop += own.steps
        values = np.concatenate([own.values for own in releases])
        return cls(
            first.start, stop - first.start, values, _joined_flags(releases, values),
            first.fingerprint, any(own.simulated for own in releases), first.grid, first.level,
        )  # fmt: skip

    def __repr__(self) -> str:
        last = self.start + self.steps - 1
        which = f"step {self.start}" if self.steps == 1 else f"steps {self.start}..{last}"
        count = len(self.values)
        what = f"{count} series" if self.values.ndim == 3 else plural(count, "value")
        return f"Release({which}, {what}{', simulated' * self.simulated})"

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        record = super(Release, cls)._checked(record)
        record["start"] = read_count(record["start"], "start")
        steps = record["steps"] = read_count(record["steps"], "steps")
        values = record["values"]
        if values.ndim == 3:
            absent = np.isnan(values)
            if values.size == 0 or values.shape[1] != steps or np.isinf(values).any():
                raise InvalidInput(f"a release of {steps} steps cannot have these values.")
            return record | {"missing": absent if absent.any() else None}
        if not 1 <= steps <= len(values):
            raise InvalidInput(f"a release of {steps} steps cannot have {len(values)} values.")
        if record["missing"] is not None:
            record["missing"] = _flags(record["missing"], steps, len(values))
        _require_shown(values, record["missing"], steps)
        return record


def _joined_flags(releases: Sequence[Release], values: Array) -> Flags | None:
    """`missing` of releases one after another: a flag per step, or per value where one needs it."""
    if all(own.missing is None for own in releases):
        return None
    flags = [np.zeros(own.steps, bool) if own.missing is None else own.missing for own in releases]
    if all(own.ndim == 1 for own in flags):
        return np.concatenate(flags)
    by_step = all(len(own) == release.steps for own, release in zip(flags, releases))
    return np.isnan(values).reshape(sum(map(len, releases)) if by_step else 1, -1)


def missing_in(absent: Flags, sizes: Sequence[int]) -> Flags | None:
    """`missing` of a release whose values are `absent` (values,), of steps of these sizes."""
    if not absent.any():
        return None
    if len(absent) == len(sizes):
        return absent
    starts = np.cumsum([0, *sizes[:-1]])
    some = np.asarray(np.logical_or.reduceat(absent, starts))
    if np.array_equal(some, np.logical_and.reduceat(absent, starts)):
        return some
    return absent.reshape(len(sizes) if len(set(sizes)) == 1 else 1, -1)


def missing_entries(release: Release, sizes: Sequence[int]) -> Flags | None:
    """Which values of a release are missing, (values,), of steps of these sizes; None: none is."""
    missing = release.missing
    if missing is None or missing.size != release.steps or len(sizes) == sum(sizes):
        return None if missing is None else missing.ravel()
    return np.repeat(missing.ravel(), sizes)


def _flags(given: object, steps: int, count: int) -> Flags:
    """(steps,), or where steps have several values one flag a value: (steps, m) or (1, count)."""
    rows = list(given) if isinstance(given, list | tuple) else []
    if steps < count and len(rows) in (1, steps) and isinstance(rows[0], list | tuple):
        width = count // len(rows) if count % len(rows) == 0 else -1
        return np.stack([read_flags(row, width, "missing") for row in rows])
    return read_flags(given, steps, "missing")


def _grid(record: Mapping[str, Any], on_grid: bool) -> float:
    """The grid of a release that was read: that of protected noise, and its values are on it.

    A record cannot say that other noise was protected; a caller who is sure constructs the release.
    """
    grid = read_number(record["grid"], "grid")
    values = record["values"]
    good = grid == (0.0 if record["simulated"] else GRID)
    if good and grid and on_grid:
        good = bool(np.all(np.isnan(values) | (np.mod(values, grid) == 0)))
    if not good:
        raise InvalidInput(
            f"the values of a protected release are multiples of its grid, {GRID!r}, and a "
            "simulated one has none (0): this is neither, it was changed."
        )
    return grid


def _require_shown(values: Array, missing: Flags | None, steps: int) -> None:
    """Refuse a value of a missing step, and a step without a value that is not missing.

    How many values belong to each of several steps the level knows, not the release: where flags
    are of steps, unless it is one value each, only their number is compared.
    """
    absent = np.isnan(values)
    gone = np.zeros(steps, dtype=bool) if missing is None else missing.ravel()
    if len(values) == len(gone):
        good = np.array_equal(absent, gone)
    else:
        shown = len(values) - absent.sum()
        good = absent.any() == gone.any() and absent.sum() >= gone.sum() and shown >= (~gone).sum()
    if not good:
        raise InvalidInput(
            "the values of a release must be finite at the steps that are not missing, and absent "
            "at those that are."
        )
