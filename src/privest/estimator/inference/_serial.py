"""Errors of an autocorrelated stream: CR2 with blocks of time as groups, in fixed memory.

Whitened rows x_k = [g_k, ζ_k] are kept as triangles of 8 to 16 blocks of equal length, which
doubles when a 17th would begin. With c_l = Σ_k r_kr_{k+l} of the residuals,

    φ̂ = (c_2 + … + c_16)/(c_1 + … + c_15) ,   where (c_1 + … + c_8)/c_0 > 3√(8/K), else 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from privest.arrays import AnyArray, Array, Flags
from privest.errors import InvalidInput
from privest.estimator.inference._cluster import ClusterErrors, cluster_errors
from privest.reading import state_array, state_count
from privest.records import Record, standard_errors

MOST = 16  # blocks
LAGS, FIRST = 16, 8  # of the residuals, to see how long they remember, and whether they do
SEEN = 3.0  # standard deviations beyond which a correlation is no chance
SHORT = 50  # steps a stream needs for each step that its noise remembers
FEW = 3.0  # degrees of freedom below which Student's t does not fit (covers .93 to .97 from there)
WARNED = 1.5  # times the stated error: by chance in .027, .010, .004 with 8, 12, 16 blocks


class BlockSums:
    """Triangles of [g, ζ] of 8 to 16 blocks of time, and Σ x_kx_{k+l}ᵀ for 16 lags."""

    def __init__(self, parameters: int, width: int = 1) -> None:
        self.parameters, self.width = parameters, width
        size = parameters + 1
        self.length = 1  # steps of a block
        self.counts: list[int] = []  # steps of every block so far
        self.triangles: list[Array] = []
        self._recent: Array = np.zeros((LAGS, size))  # the last rows, zeros before the first
        self._crossed: Array = np.zeros((LAGS, size, size))  # Σ x_kx_{k+l}ᵀ

    @property
    def steps(self) -> int:
        return sum(self.counts)

    def add(self, rows: Array) -> None:
        """Rows (steps·width, n + 1) of the next steps; zeros where nothing was shown."""
        if self.width == 1:
            self._cross(rows)
        left, at = len(rows) // self.width, 0
        while left:
            if not self.counts or self.counts[-1] == self.length:
                self._begin()
            taken = min(self.length - self.counts[-1], left)
            end = at + taken * self.width
            self.triangles[-1] = _merged(self.triangles[-1], rows[at:end])
            self.counts[-1] += taken
            left, at = left - taken, end

    def _begin(self) -> None:
        if len(self.counts) == MOST:
            self.length *= 2
            self.counts = [self.length] * (MOST // 2)
            pairs = zip(self.triangles[::2], self.triangles[1::2])
            self.triangles = [_merged(first, second) for first, second in pairs]
        self.counts.append(0)
        self.triangles.append(np.zeros((self.parameters + 1,) * 2, order="F"))

    def _cross(self, rows: Array) -> None:
        every = np.concatenate([self._recent, rows])
        if len(rows) == 1:
            self._crossed += self._recent[::-1, :, None] * rows
            self._recent = every[1:]
            return
        for lag in range(1, LAGS + 1):
            self._crossed[lag - 1] += every[LAGS - lag : -lag].T @ rows
        self._recent = every[-LAGS:].copy()

    def groups(self, estimate: Array) -> tuple[Array, Array]:
        """M_b (B, n, n) and G_bᵀ(ζ_b − G_bθ̂) (B, n)."""
        n = self.parameters
        triangles = np.stack(self.triangles)
        roots = triangles[:, :n, :n]
        residual = triangles[:, :n, n] - roots @ estimate
        return roots.swapaxes(1, 2) @ roots, np.einsum("bij,bi->bj", roots, residual)

    def correlation(self, estimate: Array) -> float | None:
        """φ̂ of the residuals, 0 within chance; None: not computed. 1 or more: too long to see."""
        if self.width > 1:
            return None
        weights = np.append(-estimate, 1.0)
        lags = np.einsum("i,lij,j->l", weights, self._crossed, weights)
        own = sum(float(np.square(triangle @ weights).sum()) for triangle in self.triangles)
        if not lags[:FIRST].sum() > SEEN * math.sqrt(FIRST / max(self.steps, 1)) * own:
            return 0.0
        before = float(lags[:-1].sum())
        return float(lags[1:].sum()) / before if before > 0 else 1.0

    def mark(self) -> tuple[object, ...]:
        kept = [triangle.copy(order="F") for triangle in self.triangles]
        return self.length, [*self.counts], kept, self._recent, self._crossed.copy()

    def rollback(self, mark: tuple[object, ...]) -> None:
        self.length, self.counts, self.triangles, self._recent, self._crossed = mark  # type: ignore[assignment]

    def state(self) -> dict[str, AnyArray]:
        size = self.parameters + 1
        return {
            "steps": np.array(self.steps),
            "triangles": np.array(self.triangles).reshape(-1, size, size),
            "recent": self._recent, "crossed": self._crossed,
        }  # fmt: skip

    def restore(self, state: Mapping[str, AnyArray], steps: int) -> None:
        """Restore a state of this number of steps; InvalidInput for any other."""
        size = self.parameters + 1
        if state_count(state, "steps") != steps:
            raise InvalidInput(f"the blocks of the state must have {steps} steps together.")
        length = 1 << max(0, (steps - 1) // MOST).bit_length()
        count = -(-steps // length)
        triangles = state_array(state, "triangles", (count, size, size))
        recent = state_array(state, "recent", (LAGS, size))
        crossed = state_array(state, "crossed", (LAGS, size, size), squares=False)
        self.length = length
        self.counts = [length] * (count - 1) + [steps - length * (count - 1)] * bool(count)
        self.triangles = [np.asfortranarray(triangle) for triangle in triangles]
        self._recent, self._crossed = recent, crossed


def _merged(triangle: Array, rows: Array) -> Array:
    found: Array = scipy.linalg.lapack.dtpqrt(0, len(triangle), triangle, rows)[0]
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class SerialErrors(Record):
    """CR2 errors by `blocks` of `length` values; `correlation` φ̂; `refused`: no interval."""

    covariance: Array
    degrees_of_freedom: Array
    blocks: int
    length: int
    steps: int
    correlation: float | None
    alone: Flags

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error", "refused", "memory", "method")

    @property
    def standard_error(self) -> Array:
        return standard_errors(self.covariance)

    @property
    def memory(self) -> float | None:
        """Autocorrelation time 1/(1 − φ̂), in steps; ∞: too long to see."""
        if self.correlation is None:
            return None
        return 1.0 / (1.0 - self.correlation) if self.correlation < 1 else math.inf

    @property
    def too_short(self) -> bool:
        """Whether 1/(1 − φ̂) > K/50 (shorter memory: 95% intervals cover .87 to .97)."""
        return bool(self.correlation) and (self.memory or 0.0) > self.steps / SHORT

    @property
    def refused(self) -> Flags:
        few = ~(self.degrees_of_freedom >= FEW)
        return np.asarray(self.alone | few | self.too_short)

    @property
    def method(self) -> str:
        of = "a reading" if self.length == 1 else f"{self.length} readings"
        return f"by {self.blocks} blocks of {of} (CR2)"

    def reasons(self, names: Sequence[str]) -> list[str]:
        if self.too_short:
            known = math.isfinite(self.memory or 0)
            lasting = f"about {self.memory:.0f}" if known else "many"
            least = f"About {SHORT * (self.memory or 0.0):.0f}" if known else "Many more"
            return [
                f"No interval: what the features do not explain goes on for {lasting} "
                f"measurements, and {self.steps} are too few to see how much such a stream varies. "
                f"{least} measurements would do; or a feature is missing that would explain it."
            ]
        found = []
        alone = [name for name, flag in zip(names, self.alone) if flag]
        if alone:
            found.append(
                f"No interval for {', '.join(alone)}: it changes within one block of time only, "
                "and how much it would vary from one to the next cannot be seen. A longer "
                "stream is needed, or leave it out."
            )
        few = [name for name, flag, one in zip(names, self.refused, self.alone) if flag and not one]
        if few:
            found.append(
                f"No interval for {', '.join(few)}: too few blocks of time show it (less than "
                f"{FEW:.0f} degrees of freedom). A longer stream is needed."
            )
        return found

    def exceeding(self, stated: Array, names: Sequence[str]) -> list[str]:
        """Coefficients whose error by blocks is more than 1.5 times the stated one."""
        with np.errstate(invalid="ignore"):
            beyond = self.standard_error > WARNED * stated
        return [name for name, flag in zip(names, beyond) if flag]


def serial_errors(sums: BlockSums, estimate: Array, *, whole: bool = True) -> SerialErrors:
    """Errors of θ̂ by blocks; `whole=False`: without degrees of freedom and φ̂."""
    found: ClusterErrors = cluster_errors(*sums.groups(estimate), freedom=whole)
    return SerialErrors(
        covariance=found.covariance, degrees_of_freedom=found.degrees_of_freedom,
        blocks=found.groups, length=sums.length * sums.width, steps=sums.steps * sums.width,
        correlation=sums.correlation(estimate) if whole else None, alone=found.refused,
    )  # fmt: skip
