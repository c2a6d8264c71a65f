"""What leaves the data holder: z̃, and the public facts needed to use it. It cannot hold y."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privest.arrays import Array, Flags, as_array
from privest.errors import InvalidInput


@dataclass(frozen=True, eq=False, slots=True)
class StreamRelease:
    """The releases z̃_k = A_kȲ_k + e_k of `steps` steps from step `start` (counted from 0).

    values     z̃ of these steps, one after another; NaN where a reading was missing.
    missing    (steps,) True where a reading was missing: that step shows nothing (S_k = 0).
               None: none was. Which readings are missing is public.
    level      fingerprint of the level; an estimator with another level refuses the release.
    simulated  drawn with a simulation generator: for experiments, no protection.
    """

    start: int
    steps: int
    values: Array
    missing: Flags | None
    level: str
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
            self.level,
            self.simulated,
        )

    def __repr__(self) -> str:
        last = self.start + self.steps - 1
        which = f"step {self.start}" if self.steps == 1 else f"steps {self.start}..{last}"
        kind = ", simulated" if self.simulated else ""
        return f"StreamRelease({which}, {len(self.values)} values{kind})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; they come back exactly."""
        return {
            "start": self.start,
            "steps": self.steps,
            "values": [None if math.isnan(z) else z for z in self.values.tolist()],
            "missing": None if self.missing is None else np.flatnonzero(self.missing).tolist(),
            "level": self.level,
            "simulated": self.simulated,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> StreamRelease:
        """The inverse of `to_dict`."""
        try:
            start, steps = int(record["start"]), int(record["steps"])
            numbers = [math.nan if z is None else z for z in record["values"]]
            values = np.asarray(numbers, dtype=np.float64)
            missing = None
            absent = record["missing"] or []
            if any(not 0 <= int(k) < steps for k in absent) or steps > len(values):
                raise InvalidInput(
                    f"a release of {steps} steps cannot have {len(values)} values, or missing "
                    "steps outside of it."
                )
            if absent:
                missing = np.zeros(steps, dtype=bool)
                missing[[int(k) for k in absent]] = True
            if missing is None:
                as_array(values, "the values of a release", ndim=1)
            level, simulated = str(record["level"]), bool(record["simulated"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"this is not a release: {error!r}.") from None
        if start < 0 or steps < 1:
            raise InvalidInput(f"a release cannot have {steps} steps from step {start}.")
        return cls(start, steps, values, missing, level, simulated)
