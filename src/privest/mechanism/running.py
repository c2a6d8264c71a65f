"""Running code beside the release that it claims, z̃ = Ay + e: an audit compares the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput, NotReleasable
from privest.mechanism._additive import Additive
from privest.mechanism._mechanism import Componentwise, Mechanism, repeated
from privest.mechanism.source import Source
from privest.noise import Gaussian
from privest.privacy import Statement

Draw = Callable[[Array, np.random.Generator | Source], ArrayLike]
Released = Callable[[Array, Source | None], ArrayLike]


@runtime_checkable
class Runnable(Protocol):
    """A data owner's object that can be audited, such as `StreamMechanism`."""

    def as_mechanism(self, *steps: int) -> Mechanism:
        """Its code as a mechanism on all measurements at once."""
        ...


class RunningMechanism(Componentwise):
    """Code beside its claim z̃ = Ay + e, e ~ N(0, I), AᵀA = S; an audit compares the two.

    `draw(y, rng)` runs the code once on y (m,) and returns what left, (q,), in units of the noise;
    `released(y, source)` is its real path, if it has one.

    >>> quiet = RunningMechanism(np.eye(1), lambda y, rng: y + 0.5 * rng.standard_normal(1), "half")
    >>> quiet.information([0.0]).dense().tolist()  # the claim
    [[1.0]]
    >>> round(float(quiet.simulate([0.0], np.random.default_rng(0), 1000).var()), 2)
    0.24
    """

    draw: Draw
    name: str
    released: Released | None

    costly_draws = True
    matrix: Array

    def __init__(
        self, rows: ArrayLike, draw: Draw, name: str, released: Released | None = None
    ) -> None:
        super().__init__(Additive(Gaussian()), rows)
        self.draw, self.name, self.released = draw, name, released

    def real(self) -> RunningMechanism:
        """The same claim beside the real path."""
        path = self._real_path()
        return RunningMechanism(
            self.matrix, lambda y, rng: path(y, None), f"the release of {self.name}", path
        )

    def simulate(
        self, y: ArrayLike, rng: np.random.Generator | Source, trials: int | None = None
    ) -> Array:
        given = repeated(self._given(y), trials)
        return self._all(given, lambda row: as_array(self.draw(row, rng), "what was released"))

    def release(
        self, y: ArrayLike, source: Source | None = None, trials: int | None = None
    ) -> Array:
        path = self._real_path()
        given = self._as_they_come(y, trials)
        return self._all(given, lambda row: np.asarray(path(row, source), dtype=np.float64))

    def statement(self, sensitivity: float, *, delta: float = 1e-6) -> Statement:
        raise NotReleasable(f"{self.name} is an audit's claim: ask the mechanism itself.")

    def _real_path(self) -> Released:
        if self.released is None:
            raise NotReleasable(f"{self.name} was given without a real path: it only simulates.")
        return self.released

    def _all(self, given: Array, once: Callable[[Array], Array]) -> Array:
        drawn = [once(row) for row in given.reshape(-1, self.measurements)]
        for released in drawn:
            if released.shape != (self.outputs,):
                raise InvalidInput(
                    f"{self.name} claims {self.outputs} outputs; it released shape "
                    f"{released.shape}."
                )
        return np.reshape(drawn, (*given.shape[:-1], self.outputs))

    def __repr__(self) -> str:
        return f"RunningMechanism({self.name}, {self.measurements} measurements)"
