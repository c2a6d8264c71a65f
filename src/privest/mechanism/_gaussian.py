"""The optimal mechanism: Gaussian noise that carries exactly the information S (Theorem 2)."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.mechanism._vector import Information, Mechanism, repeated
from privest.mechanism.source import Source, as_source
from privest.privacy import Move, PrivacyLevel, as_level


class GaussianMechanism(Mechanism):
    """z̃ = Lᵀy + e, e ~ N(0, I_r), S = L Lᵀ of any rank r ≥ 1.

        ln p = −½‖z̃ − Lᵀy‖² − (r/2) ln 2π ,   score L(z̃ − Lᵀy) ,   I_z(y) = S for every y

    Attained by: the bound of `coro:ppcr` is, with Gaussian w. The paper's release z = Sy + d,
    d ~ N(0, S), is z = L z̃ (`paper_release`) and shows the same; for singular S it has no
    density, z̃ has one. Unbiased: E z̃ = Lᵀy. No finite ε; exactly μ-GDP (`mu`).
    Structure is kept: s·I on a million readings is one number.

    >>> mechanism = GaussianMechanism.calibrated([[4.0, 2.0], [2.0, 1.0]], 2)
    >>> mechanism.outputs  # rank one: S = (2, 1)ᵀ(2, 1)
    1
    >>> abs(mechanism.score([6.0], [1.0, 1.0])).tolist()  # (2, 1)·(6 − 3) up to sign: of L
    [6.0, 3.0]
    >>> mechanism.information([1.0, 1.0]).matrix.tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """

    def __init__(self, level: PrivacyLevel | ArrayLike, readings: int) -> None:
        self.level = as_level(level)
        self.readings = int(readings)
        self._S = self.level.for_size(self.readings)
        if self._S.rank == 0:
            raise InvalidInput("at level 0 nothing may be released: there is no mechanism.")
        self._kept = self._S.informative()
        self.outputs = int(self._kept.sum())

    @classmethod
    def calibrated(cls, level: PrivacyLevel | ArrayLike, readings: int) -> Self:
        """The mechanism with I_z(y) = S."""
        return cls(level, readings)

    def simulate(
        self, y: ArrayLike, rng: np.random.Generator | Source, trials: int | None = None
    ) -> Array:
        return as_source(rng).add_noise(repeated(self._shown(y), trials))

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        rest = self._rest(z, y)
        return np.asarray(
            -0.5 * (rest**2).sum(axis=-1) - 0.5 * self.outputs * math.log(2.0 * math.pi)
        )

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        return self._times_factor(self._rest(z, y))

    def information(self, y: ArrayLike) -> Information:
        self._readings(y)
        return Information(self._S.dense(), 0.0)

    def worst_information(self) -> Array:
        return self._S.dense()

    def mu(self, move: float | Move) -> float:
        """μ: the release is exactly μ-GDP when one reading moves by at most `move`."""
        return self.level.to_mu(move=move)

    def paper_release(self, z: ArrayLike) -> Array:
        """z = L z̃ = Sy + d, d ~ N(0, S): the paper's form of a release z̃."""
        return self._times_factor(self._outputs(z))

    @property
    def parameters(self) -> dict[str, Any]:
        return {"level": self.level, "rank": self.outputs}

    def __repr__(self) -> str:
        return f"GaussianMechanism({self.level!r}, {self.readings} readings)"

    def _shown(self, y: ArrayLike) -> Array:
        """Lᵀy without the zero rows, (..., r)."""
        given = self._readings(y)
        columns = given.reshape(-1, self.readings).T
        shown = self._S.factor_rows(columns)[self._kept]
        return np.asarray(shown.T.reshape(*given.shape[:-1], self.outputs))

    def _times_factor(self, x: Array) -> Array:
        """L x, (..., m)."""
        full = np.zeros((*x.shape[:-1], self.readings))
        full[..., self._kept] = x
        columns = full.reshape(-1, self.readings).T
        return np.asarray(self._S.times_factor(columns).T.reshape(full.shape))

    def _rest(self, z: ArrayLike, y: ArrayLike) -> Array:
        return self._outputs(z) - self._shown(y)
