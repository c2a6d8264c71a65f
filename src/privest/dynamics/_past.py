"""The last releases of a stream, and where the filter stood before them: the fixed-lag smoother.

x_{k−L} given z̃_0 … z̃_k: filter and smoother over the last L + 1 steps, from the estimate before
them, which holds all that earlier releases told. Exact; time O(L N³) a step and memory O(L).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_positive
from privest.dynamics._filtering import Now, Smoothed, run_filter, smooth
from privest.dynamics._observed import of_entries
from privest.dynamics._releases import Given
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput
from privest.privacy import SequentialLevel


class Part(NamedTuple):
    """Releases of some steps, the inputs (steps, p) of these, and the filter before them."""

    now: Now
    given: Given
    inputs: Array

    @property
    def steps(self) -> int:
        return len(self.given.values)


class Past:
    """Parts that cover the last `lag` + 1 steps, as long as there are so many."""

    def __init__(self, lag: int) -> None:
        self.lag = lag
        self.parts: list[Part] = []

    def require(self, unit: float) -> None:
        """Refuse releases of other noise than those that are kept."""
        if self.parts and self.parts[-1].given.unit != unit:
            raise InvalidInput(
                "Simulated and protected releases cannot be smoothed together: start a filter for "
                "each."
            )

    def add(self, now: Now, given: Given, inputs: ArrayLike | None) -> None:
        known = np.zeros((len(given.values), 0)) if inputs is None else as_array(inputs, "inputs")
        own = given._replace(values=given.values.copy())  # the release is the caller's
        self.parts.append(Part(now, own, known.reshape(len(own.values), -1).copy()))
        left = sum(part.steps for part in self.parts)
        while left - self.parts[0].steps > self.lag:
            left -= self.parts.pop(0).steps

    def joined(self) -> Part:
        """All parts as one."""
        given = [part.given for part in self.parts]
        missing = _joined([own.missing for own in given], given[0].values.shape[-1])
        whole = Given(
            np.concatenate([own.values for own in given]), missing, given[0].unit,
            any(own.simulated for own in given),
        )  # fmt: skip
        return Part(self.parts[0].now, whole, np.concatenate([part.inputs for part in self.parts]))

    def smoothed(
        self, system: StateSpace, level: SequentialLevel, compiled: bool | None
    ) -> Smoothed:
        """Of the last lag + 1 steps, or of as many as there were."""
        if not self.parts:
            raise InvalidInput("There is nothing to smooth: update with a release first.")
        whole = self.joined()
        inputs = whole.inputs if system.inputs else None
        found, _ = run_filter(system, level, whole.given, inputs, whole.now, compiled=compiled)
        back = smooth(found)
        first = max(0, whole.steps - self.lag - 1)
        return Smoothed(back.estimate[first:], back.covariance[first:], back.simulated)


def _joined(missing: list[Flags], m: int) -> Flags:
    if all(own.ndim == 1 for own in missing):
        return np.concatenate(missing)
    return np.concatenate([np.broadcast_to(of_entries(own), (len(own), m)) for own in missing])


def restored_part(before: Now, state: Mapping[str, Array], steps: int, m: int, p: int) -> Part:
    """A part from the arrays of a state, checked."""
    absent = {"values", "missing", "scale", "inputs", "simulated"} - set(state)
    if absent:
        raise InvalidInput(f"the past of the state of a filter lacks {', '.join(sorted(absent))}.")
    missing: Flags = np.array(state["missing"])
    if missing.dtype != np.bool_ or missing.shape != (steps, m):
        raise InvalidInput(f"missing of the past must be truth values {(steps, m)}.")
    values = np.array(state["values"], dtype=np.float64)
    if values.shape != (steps, m) or not (np.isfinite(values) | missing).all():
        raise InvalidInput(f"values of the past must be {(steps, m)}, finite where not missing.")
    whole = bool((missing == missing[:, :1]).all())
    given = Given(
        values, missing[:, 0].copy() if whole else missing,
        as_positive(state["scale"], "scale of the past"), flag_of(state, "simulated"),
    )  # fmt: skip
    return Part(before, given, part_of(state, "inputs", (steps, p)))


def part_of(state: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """An array of a state, of this shape."""
    part = as_array(state[name], f"{name} of the state").copy()
    if part.shape != shape:
        raise InvalidInput(
            f"{name} of the state must have shape {shape} for this system and level; received "
            f"{part.shape}."
        )
    return part


def flag_of(state: Mapping[str, Array], name: str) -> bool:
    """A truth value of a state."""
    flag = np.asarray(state[name])
    if flag.shape or flag.dtype != bool:
        raise InvalidInput(f"{name} of the state must be True or False.")
    return bool(flag)
