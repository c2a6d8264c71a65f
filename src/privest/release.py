"""What leaves the data holder: z̃, and the public facts needed to use it. It cannot hold y."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from privest.arrays import AnyArray, Array, Flags, as_array
from privest.errors import InvalidInput
from privest.records import plain

__all__ = ["Release", "StreamRelease"]


class Release:
    """What every release says of itself.

    values       z̃: what is shown, noise included; NaN where nothing is (a missing reading).
    fingerprint  of the level; whoever uses the release with another level is refused.
    simulated    drawn with a simulation generator: for experiments, no protection.
    """

    __slots__ = ()
    KIND: ClassVar[str] = "release"

    values: Array
    fingerprint: str
    simulated: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, numbers exactly; missing ones are None. `from_dict` reads them."""
        record = {field.name: plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.KIND} | record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`: every field checked, whatever was received."""
        if not isinstance(record, Mapping) or record.get("kind") != cls.KIND:
            raise InvalidInput(f"this is not a {cls.KIND}: a dictionary of that kind is needed.")
        names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        if names - set(record):
            raise InvalidInput(f"a {cls.KIND} needs {sorted(names)}; some of them are not there.")
        return cls(**cls._checked({name: record[name] for name in names}))

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        """The fields as the constructor takes them."""
        record["values"] = read_numbers(record["values"], "the values of a release")
        record["fingerprint"] = read_text(record["fingerprint"], "the fingerprint of a release")
        record["simulated"] = read_flag(record["simulated"], "simulated")
        return record

    def _require(self, fingerprint: str) -> None:
        if self.fingerprint != fingerprint:
            raise InvalidInput(
                "This release was made with another level. Both sides must use the same; a level "
                "of matrices travels by its save and privacy.load_level."
            )


@dataclass(frozen=True, eq=False, slots=True)
class StreamRelease(Release):
    """The releases z̃_k = A_kȲ_k + e_k of `steps` steps from step `start` (counted from 0).

    values     z̃ of these steps, one after another; NaN where a reading was missing.
    missing    (steps,) True where a reading was missing: that step shows nothing (S_k = 0).
               None: none was. Which readings are missing is public.
    """

    KIND: ClassVar[str] = "stream release"

    start: int
    steps: int
    values: Array
    missing: Flags | None
    fingerprint: str
    simulated: bool

    def __len__(self) -> int:
        return self.steps

    def part(self, first: int, last: int, sizes: Sequence[int]) -> StreamRelease:
        """The releases of the steps first..last−1 of these; `sizes` are the m_k of all of them."""
        before, inside = sum(sizes[:first]), sum(sizes[first:last])
        missing = None if self.missing is None else self.missing[first:last]
        return StreamRelease(
            self.start + first,
            last - first,
            self.values[before : before + inside],
            missing if missing is not None and missing.any() else None,
            self.fingerprint,
            self.simulated,
        )

    def __repr__(self) -> str:
        last = self.start + self.steps - 1
        which = f"step {self.start}" if self.steps == 1 else f"steps {self.start}..{last}"
        kind = ", simulated" if self.simulated else ""
        return f"StreamRelease({which}, {len(self.values)} values{kind})"

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        start, steps = read_count(record["start"], "start"), read_count(record["steps"], "steps")
        values = read_numbers(record["values"], "the values of a release", ndim=1)
        if steps < 1 or steps > len(values):
            raise InvalidInput(f"a release of {steps} steps cannot have {len(values)} values.")
        missing = record["missing"]
        if missing is not None:
            missing = read_flags(missing, steps, "missing")
        elif np.isnan(values).any():
            raise InvalidInput("the values of a release must be finite where no step is missing.")
        given = super(StreamRelease, cls)._checked(record)
        return given | {"start": start, "steps": steps, "values": values, "missing": missing}


# --- reading what somebody sent -------------------------------------------------------------------


def read_numbers(given: object, name: str, *, ndim: int | tuple[int, ...] | None = None) -> Array:
    """Floats from nested lists; None is NaN. Refuses infinities and anything else."""
    try:
        raw: AnyArray = np.array(_filled(given), dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidInput(f"{name} must be numbers, in rows of one length.") from None
    as_array(np.where(np.isnan(raw), 0.0, raw), name, ndim=ndim)
    return raw


def _filled(given: object) -> object:
    if isinstance(given, list | tuple):
        return [_filled(part) for part in given]
    if given is None:
        return math.nan
    if isinstance(given, bool | str) or not isinstance(given, int | float):
        raise TypeError
    return given


def read_flags(given: object, count: int, name: str) -> Flags:
    """True and False, `count` of them."""
    flags = isinstance(given, list | tuple) and all(isinstance(flag, bool) for flag in given)
    if not flags or len(given) != count:  # type: ignore[arg-type]
        raise InvalidInput(f"{name} must be {count} times true or false.")
    return np.array(given, dtype=bool)


def read_count(given: object, name: str) -> int:
    """A whole number ≥ 0."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**62:
        raise InvalidInput(f"{name} must be a whole number ≥ 0.")
    return given


def read_flag(given: object, name: str) -> bool:
    """True or False."""
    if not isinstance(given, bool):
        raise InvalidInput(f"{name} must be true or false.")
    return given


def read_text(given: object, name: str) -> str:
    """A text."""
    if not isinstance(given, str):
        raise InvalidInput(f"{name} must be a text.")
    return given
