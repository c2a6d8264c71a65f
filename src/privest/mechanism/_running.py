"""What users really run, in the form that an audit takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.errors import InvalidInput
from privest.mechanism._affine import AffineMechanism
from privest.mechanism._vector import Mechanism, repeated
from privest.mechanism.source import Source
from privest.noise import GaussianLaw
from privest.privacy import PrivacyLevel, as_level

Draw = Callable[[Array, np.random.Generator | Source], ArrayLike]


@runtime_checkable
class Runnable(Protocol):
    """Whatever releases readings and can be audited: `StreamMechanism`, `Sensor`, a table release.

    `as_mechanism` gives it as a `Mechanism`: `simulate` runs its code, every draw from the start;
    density, score and information are those of the level that it claims.
    """

    def as_mechanism(self, *steps: int) -> Mechanism:
        """A mechanism on all readings at once: so many steps or rows, where there is a choice."""
        ...


class RunningMechanism(AffineMechanism):
    """Code that releases m readings, beside what it claims: z̃ = Ay + e, e ~ N(0, I), AᵀA = S.

    Symbols: `rows` A (q, m); `draw(y, rng)` runs the code once on readings (m,) and returns what
    left, (q,), in units of the noise. `simulate` calls it once a trial; nothing is kept between.
    The claims are not drawn from the code: an audit compares the two.

    >>> quiet = RunningMechanism(np.eye(1), lambda y, rng: y + 0.5 * rng.standard_normal(1), "half")
    >>> quiet.information([0.0]).matrix.tolist()  # what it claims
    [[1.0]]
    >>> round(float(quiet.simulate([0.0], np.random.default_rng(0), 1000).var()), 2)  # it does
    0.24
    """

    def __init__(self, rows: ArrayLike, draw: Draw, name: str) -> None:
        super().__init__(GaussianLaw(), rows)
        self.draw, self.name = draw, name

    @classmethod
    def at_level(
        cls, level: PrivacyLevel | ArrayLike, readings: int, draw: Draw, name: str
    ) -> RunningMechanism:
        """Code that releases z̃ = Lᵀy + e, the entries that show nothing left out."""
        S = as_level(level).for_size(readings)
        if S.rank == 0:
            raise InvalidInput("at level 0 nothing is released: there is nothing to audit.")
        return cls(S.factor_rows(np.eye(readings))[S.informative()], draw, name)

    def simulate(
        self, y: ArrayLike, rng: np.random.Generator | Source, trials: int | None = None
    ) -> Array:
        given = repeated(self._readings(y), trials)
        drawn = [self._once(row, rng) for row in given.reshape(-1, self.readings)]
        return np.reshape(drawn, (*given.shape[:-1], self.outputs))

    def _once(self, y: Array, rng: np.random.Generator | Source) -> Array:
        released = as_array(self.draw(y, rng), "what was released")
        if released.shape != (self.outputs,):
            raise InvalidInput(
                f"{self.name} claims {self.outputs} outputs; it released shape {released.shape}."
            )
        return released

    @property
    def parameters(self) -> dict[str, Any]:
        return {"code": self.name, "outputs": self.outputs}

    def __repr__(self) -> str:
        return f"RunningMechanism({self.name}, {self.readings} readings)"
