"""Affine mechanisms z = Ay + b + Bd (`ex:affine`), and running code that claims to be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, runtime_checkable

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput, NotCalibratable, NotReleasable
from privest.linalg import PSD
from privest.mechanism._additive import Additive, stretched
from privest.mechanism._mechanism import Componentwise, Mechanism
from privest.mechanism.inputs import of_size, real_numbers, repeated
from privest.mechanism.source import Source
from privest.noise import Distribution, Gaussian
from privest.privacy import PrivacyLevel, Statement, as_level

# 1/condition of B below which B⁻¹z would lose more than half of the digits.
SINGULAR = 1e-8


class AffineMechanism(Mechanism):
    """z = A y + b + B d, A (q×m), B (q×q) invertible, d_1 … d_q independent, of one distribution.

        B⁻¹z = u + d ,  u = B⁻¹(Ay + b) :   I_z(y) = i_d Aᵀ(BBᵀ)⁻¹A  for every y

    with i_d the information of d. Unbiased for Ay + b where E d = 0. A (nearly) singular B is
    refused: a combination of measurements would be released without noise.

    >>> from privest.noise import Laplace
    >>> mechanism = AffineMechanism(Laplace(1.0), matrix=[[2.0]], spread=[[4.0]], offset=[1.0])
    >>> float(mechanism.information([3.0])[0, 0])  # (2/4)²
    0.25
    >>> round(float(np.exp(mechanism.log_density([7.0], [3.0]))), 12)  # f(0)/4 = 1/8
    0.125
    """

    def __init__(
        self,
        law: Distribution,
        matrix: ArrayLike,
        spread: ArrayLike | None = None,
        offset: ArrayLike = 0.0,
    ) -> None:
        A = as_array(matrix, "A", ndim=2)
        self.outputs, self.measurements = A.shape
        self.spread = _invertible(np.eye(self.outputs) if spread is None else spread, self.outputs)
        self.law, self.matrix, self.offset = law, A, self._one_each(offset, "b")
        shift = np.broadcast_to(self.offset, (self.outputs,))
        solved = np.linalg.solve(self.spread, np.column_stack([A, shift]))
        self.inner = Componentwise(Additive(law), solved[:, :-1], solved[:, -1])
        self._log_det = float(np.linalg.slogdet(self.spread)[1])

    @classmethod
    def calibrated(
        cls,
        level: PrivacyLevel | ArrayLike,
        law: Distribution,
        matrix: ArrayLike,
        spread: ArrayLike | None = None,
        offset: ArrayLike = 0.0,
    ) -> Self:
        """The noise widened until i_d Aᵀ(BBᵀ)⁻¹A ≤ S."""
        unit = cls(law, matrix, spread, offset)
        assert unit.inner.matrix is not None
        if not unit.inner.matrix.any():
            raise NotCalibratable(
                "A is zero: the release does not depend on the measurements. Give A a row that is "
                "not zero."
            )
        S = as_level(level).for_size(unit.measurements)
        wide = stretched(law, 1.0 / _exposure(unit.inner.matrix, S))
        return cls(wide, matrix, spread, offset)

    def simulate(self, y: ArrayLike, rng: np.random.Generator, trials: int | None = None) -> Array:
        return self.inner.simulate(y, rng, trials) @ self.spread.T

    def release(
        self, y: ArrayLike, source: Source | None = None, trials: int | None = None
    ) -> Array:
        """z = B(u + d), d protected noise, for Laplace and Gaussian noise; else NotReleasable.

        I_z(y) ≤ i_d(B⁻¹A)ᵀB⁻¹A for the doubles B⁻¹A (`inner.matrix`), literally.
        """
        inner = self.inner.release(y, source, trials)
        absent = np.isnan(inner)
        released = np.where(absent, 0.0, inner) @ self.spread.T
        if absent.any():
            released[absent.astype(float) @ (self.spread != 0).T.astype(float) > 0] = np.nan
        return np.asarray(released)

    def statement(self, sensitivity: float, *, delta: float = 1e-6) -> Statement:
        return self.inner.statement(sensitivity, delta=delta)

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        return np.asarray(self.inner.log_density(self._solved(z), y) - self._log_det)

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        return self.inner.score(self._solved(z), y)

    def information(self, y: ArrayLike) -> Array:
        return self.inner.information(y)

    def worst_information(self) -> Array:
        return self.inner.worst_information()

    def epsilon(self, sensitivity: float) -> float:
        return self.inner.epsilon(sensitivity)

    def __repr__(self) -> str:
        return f"AffineMechanism({self.law!r}, A {self.outputs}×{self.measurements})"

    def _solved(self, z: ArrayLike) -> Array:
        """B⁻¹z."""
        given = self._outputs(z)
        columns = given.reshape(-1, self.outputs).T
        return np.asarray(np.linalg.solve(self.spread, columns).T.reshape(given.shape))


def _invertible(value: ArrayLike, outputs: int) -> Array:
    B = as_array(value, "B", ndim=2)
    if B.shape != (outputs, outputs):
        raise InvalidInput(
            f"B must be square, one row for each of {outputs} outputs; received shape {B.shape}. "
            "With Gaussian noise and more columns than rows give a Cholesky factor of BBᵀ."
        )
    sizes = np.linalg.svd(B, compute_uv=False)
    if sizes[-1] <= SINGULAR * sizes[0]:
        raise InvalidInput(
            f"B must be invertible; its singular values run from {sizes[0]:.3g} to "
            f"{sizes[-1]:.3g}. A singular B releases a combination of measurements without noise: "
            "drop that output or give it noise of its own."
        )
    return B


def _exposure(rows: Array, S: PSD) -> float:
    """The largest eigenvalue of S^{-½}MS^{-½}, M = rowsᵀrows; NotCalibratable where S hides M."""
    values, vectors = np.linalg.eigh(S.dense())
    seen = rows @ vectors
    kept = values > 1e-11 * max(float(values[-1]), 0.0)
    if not kept.all() and np.abs(seen[:, ~kept]).max() > 1e-9 * np.abs(rows).max():
        raise NotCalibratable(
            "the level hides a combination of the measurements that A reveals: no noise of finite "
            "width is enough. Leave that combination out of A."
        )
    return float(np.linalg.norm(seen[:, kept] / np.sqrt(values[kept]), 2) ** 2)


# --- running code

Draw = Callable[[Array, np.random.Generator | Source], ArrayLike]
Released = Callable[[Array, Source | None], ArrayLike]


@runtime_checkable
class Runnable(Protocol):
    """A data owner's object that can be audited, such as `StreamMechanism`."""

    def as_mechanism(self, *steps: int) -> Mechanism:
        """Its code as a mechanism on all measurements at once."""
        ...


class RunningMechanism(AffineMechanism):
    """Code beside its claim z̃ = Ay + e, e ~ N(0, I), AᵀA = S; an audit compares the two.

    `draw(y, rng)` runs the code once on y (m,) and returns what left, (q,), in units of the noise;
    `released(y, source)` is its real path, if it has one.

    >>> quiet = RunningMechanism(np.eye(1), lambda y, rng: y + 0.5 * rng.standard_normal(1), "half")
    >>> quiet.information([0.0]).tolist()  # the claim
    [[1.0]]
    >>> round(float(quiet.simulate([0.0], np.random.default_rng(0), 1000).var()), 2)
    0.24
    """

    def __init__(
        self, rows: ArrayLike, draw: Draw, name: str, released: Released | None = None
    ) -> None:
        super().__init__(Gaussian(), rows)
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
        given = repeated(of_size(real_numbers(y), self.measurements), trials)
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
