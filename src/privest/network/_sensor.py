"""A sensor of the network (`sys:multi/k=1`): its model, its level, its release and contribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_kind, plural
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator.result import Estimate
from privest.linalg import PSD, Whitening, batched, whitening
from privest.linalg.tolerances import rank_tolerance
from privest.mechanism import GaussianMechanism
from privest.mechanism.inputs import real_numbers
from privest.mechanism.source import Source, as_protected, as_source
from privest.model import LinearModel
from privest.noise import Distribution, JointNoise
from privest.privacy import PrivacyLevel, as_level
from privest.records import Record
from privest.release import ReleaseRecord

SMALL = 256  # measurements up to which m×m matrices are formed


@dataclass(frozen=True, eq=False, slots=True)
class SensorRelease(ReleaseRecord):
    """z̃_i = L_iᵀy_i + e_i of one sensor, (r,) or (trials, r). It cannot hold y_i.

    values  NaN where they would show a measurement that was missing.
    level   None where it was read from a record.
    """

    KIND: ClassVar[str] = "sensor release"
    NDIM: ClassVar[tuple[int, ...]] = (1, 2)

    values: Array
    fingerprint: str
    simulated: bool
    grid: float = 0.0
    level: PrivacyLevel | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Contribution(Record):
    """The state with which an agent starts (`algo:average`), a function of its release alone.

        x (n,) or (trials, n) = H_iᵀ(S_iΣ_i + I)⁻¹z_i ,   r (n, n) = H_iᵀ(S_iΣ_i + I)⁻¹S_iH_i ,

    the unit being the variance of the privacy noise. The sum of some is that of the sensors
    together, and `result` the efficient estimate from them. r (N, n, n) with x (N, n) or
    (N, trials, n): those of N agents. simulated: whether a release was; None: not known.

    >>> import privest as pv
    >>> sensor, rng = Sensor([[1.0]], pv.noise.Gaussian(cov=0.5), 2.0), np.random.default_rng(0)
    >>> roof, yard = (sensor.contribution(sensor.simulate([1.0], rng)) for _ in range(2))
    >>> (roof + yard).result().covariance.round(12).tolist()  # (1/2 + 0.5)/2
    [[0.5]]
    """

    x: Array
    r: Array
    simulated: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one = self.r.ndim == 2
        _require_pair(self.x[None] if one else self.x, self.r[None] if one else self.r)

    def __add__(self, other: Contribution) -> Contribution:
        if not isinstance(other, Contribution):
            return NotImplemented
        if (self.x.shape, self.r.shape) != (other.x.shape, other.r.shape):
            raise InvalidInput(
                "contributions to the same θ and the same number of trials add; received x of "
                f"shapes {self.x.shape} and {other.x.shape}."
            )
        return Contribution(
            self.x + other.x, self.r + other.r, _any_simulated([self.simulated, other.simulated])
        )

    def result(self) -> Estimate:
        """θ̂ = r⁻¹x and its covariance r⁻¹. Raises NotIdentifiable where r does not show θ."""
        if self.r.ndim != 2:
            raise InvalidInput("add the contributions of several agents first: r is (n, n) then.")
        lower, ready = batched.cholesky_of_many(self.r[None])
        if not ready.all():
            raise not_identifiable(self.r, "these contributions")
        theta = batched.solve_of_many(lower, np.atleast_2d(self.x)[None])[0]
        covariance = np.linalg.inv(self.r)
        return Estimate(
            value=theta.reshape(self.x.shape), covariance=covariance, simulated=self.simulated
        )

    @classmethod
    def stack(cls, parts: Sequence[Contribution] | Contribution) -> Contribution:
        """The contributions of all agents as one, r (N, n, n)."""
        if isinstance(parts, Contribution) and parts.r.ndim == 3:
            return parts
        if (
            isinstance(parts, Contribution)
            or len(parts) == 0
            or not all(isinstance(part, Contribution) for part in parts)
        ):
            raise InvalidInput("give one Contribution an agent, and at least one.")
        shapes = {(part.x.shape, part.r.shape) for part in parts}
        if len(shapes) > 1:
            raise InvalidInput(
                "all agents must contribute to the same θ and the same number of trials; received "
                f"(x, r) of shapes {sorted(shapes)}."
            )
        return cls(
            np.stack([part.x for part in parts]),
            np.stack([part.r for part in parts]),
            _any_simulated([part.simulated for part in parts]),
        )


def _any_simulated(parts: Sequence[bool | None]) -> bool | None:
    return None if True not in parts and None in parts else True in parts


def _require_pair(x: Array, r: Array) -> None:
    fits = x.ndim in (2, 3) and r.shape == (len(x), x.shape[-1], x.shape[-1])
    if not fits or len(x) == 0 or x.shape[-1] == 0:
        raise InvalidInput(
            "a contribution is x (n,) or (trials, n) and r (n, n) of every agent; received shapes "
            f"{x.shape} and {r.shape} for all of them."
        )
    as_array(x, "x of a contribution")
    as_array(r, "r of a contribution")
    # Only half of r travels: it must be the same as the other half (rounding of a product aside).
    unit = np.sqrt(np.abs(np.diagonal(r, axis1=-2, axis2=-1)))
    gap = np.abs(r - r.swapaxes(-1, -2)) - 1e-10 * unit[:, :, None] * unit[:, None, :]
    if gap.max() > 0:
        raise InvalidInput(f"r of agent {int(gap.max(axis=(1, 2)).argmax())} is not symmetric.")


def not_identifiable(r: Array, who: str) -> NotIdentifiable:
    diagonal = np.diagonal(r)
    unit = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    values, vectors = np.linalg.eigh(r * unit[:, None] * unit)
    hidden = values <= rank_tolerance(len(r))
    hidden[0] = True
    return NotIdentifiable(
        f"{who} together show {len(r) - int(hidden.sum())} of {len(r)} directions of θ (better "
        "than 1e-11 of the others).",
        np.linalg.qr(vectors[:, hidden] * unit[:, None])[0],
    )


@dataclass(frozen=True, eq=False)
class View:
    """A model through a level, with privacy noise of variance v, some coordinates absent.

    G = C⁻¹LᵀH ,   ζ = C⁻¹z̃ ,   CCᵀ = LᵀΣL + v I = v (Lᵀ(Σ/v)L + I)
    """

    model: LinearModel
    level: PSD
    variance: float = 1.0  # v
    absent: Flags | None = None  # (m,)

    @cached_property
    def kernel(self) -> Whitening:
        """√v C⁻¹Lᵀ."""
        sigma = self.model.covariance
        own = sigma if self.variance == 1.0 else sigma.scaled(1.0 / self.variance)
        return whitening(self.level, own, self.absent)

    @cached_property
    def rows(self) -> Array:
        """G (m, n); zero rows where S is singular or a coordinate is absent."""
        return self._in_units(self.kernel.rows(self.model.matrix))

    @cached_property
    def information(self) -> Array:
        """GᵀG (n, n)."""
        return np.asarray(self.rows.T @ self.rows)

    @cached_property
    def release_share(self) -> Array | None:
        """v GᵀC⁻¹C⁻ᵀG (n, n): the variance of Gᵀζ due to e; None where that is not cheap."""
        if self.level.pointwise is not None and self.model.covariance.pointwise is not None:
            half = self.kernel.whiten(self.rows)  # C is diagonal
        elif self.model.measurements <= SMALL:
            half = self.kernel.whiten(np.eye(self.model.measurements)).T @ self.rows
        else:
            return None
        return np.asarray(half.T @ half)

    def whitened(self, values: Array) -> Array:
        """ζ (m, trials) of z̃ (trials, r), the mean of w taken off."""
        table = np.zeros((self.model.measurements, len(values)))
        table[self.level.informative()] = values.T
        mean = np.asarray(self.model.noise.expectation(self.model.measurements))
        if mean.any():
            column = np.broadcast_to(mean, self.model.measurements)[:, None]
            table -= self.level.factor_rows(column)
        return self._in_units(self.kernel.whiten(table))

    def _in_units(self, rows: Array) -> Array:
        return rows if self.variance == 1.0 else rows / math.sqrt(self.variance)


def absent_coordinates(values: Array, level: PSD) -> Flags | None:
    """(m,): where z̃ (trials, r) is missing (NaN); None: nowhere."""
    gone = np.isnan(values)
    if not gone.any():
        return None
    if not (gone == gone[0]).all():
        raise InvalidInput(
            "the trials of this release miss different measurements: use those that miss the same "
            "ones together."
        )
    absent = np.zeros(level.size, dtype=bool)
    absent[level.informative()] = gone[0]
    return absent


class Sensor:
    """y_i = H_iθ + w_i of any size, released at level S_i = L_iL_iᵀ.

        z̃_i = L_iᵀy_i + e_i ,  e_i ~ N(0, I) ;   [G_i, ζ_i] = C_i⁻¹[L_iᵀH_i, z̃_i] ,
        C_iC_iᵀ = L_iᵀΣ_iL_i + I ;   x_i = G_iᵀζ_i ,  r_i = G_iᵀG_i

    matrix  H_i (m_i, n); noise: the distribution of w_i.
    level   S_i of any rank; PrivacyLevel(0.0) is an agent that only passes messages on.
    range   of the measurements, beyond which they are clipped (`mechanism.GaussianMechanism`).
    All of them are public. Assumes w_i and e_i independent across sensors and of each other. For
    non-Gaussian w_i the estimate is unbiased, with the covariance of Σ_i = cov w_i.
    Source: `algo:average/priv`, whitened: the paper's z_i = S_iy_i + d_i is L_i z̃_i.

    >>> import privest as pv
    >>> sensor = Sensor([[2.0]], pv.noise.Gaussian(cov=0.5), PrivacyLevel(4.0))
    >>> sensor.information.round(12).tolist()  # 2·4·2/(4·0.5 + 1)
    [[5.333333333333]]
    """

    measurements: int
    parameters: int

    def __init__(
        self,
        matrix: ArrayLike,
        noise: Distribution | JointNoise | Sequence[Distribution],
        level: PrivacyLevel | ArrayLike,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        self.model: LinearModel = LinearModel(matrix, noise=noise)
        self.measurements, self.parameters = (
            self.model.measurements,
            self.model.parameters,
        )  # m_i, n
        self.level: PrivacyLevel = as_level(level)
        self.level_matrix: PSD = self.level.for_size(self.measurements)
        self.range = range
        self._views = {1.0: View(self.model, self.level_matrix)}  # by the variance of the noise
        if range is not None:
            _ = self.mechanism  # a range is checked here, never when there are measurements

    @cached_property
    def mechanism(self) -> GaussianMechanism | None:
        if self.level_matrix.rank == 0:
            return None
        return GaussianMechanism(self.level, self.measurements, range=self.range)

    @property
    def outputs(self) -> int:
        """Length of z̃_i: the rank of S_i."""
        return 0 if self.mechanism is None else self.mechanism.outputs

    @property
    def information(self) -> Array:
        """r_i = G_iᵀG_i (n, n), the sensor's part of PI. Public."""
        return self._views[1.0].information

    @cached_property
    def exposed(self) -> Array:
        """I_Z(y_i) (m_i, m_i): the information about y_i in ALL messages of ALL rounds.

            I_Z(y_i) = L_i P L_iᵀ ≤ S_i ,   P the projector on the rows of G_iᵀC_i⁻¹

        Every message is a function of the x_j,0, and only x_i,0 = G_iᵀC_i⁻¹z̃_i depends on y_i. (The
        certificate of `thm:eff/fusion`.) A fusion centre sees z̃_i, hence S_i.
        """
        lower_t = self.level_matrix.factor_rows(np.eye(self.measurements))
        view = self._views[1.0]
        map_t = view.kernel.whiten(np.eye(self.measurements)).T @ view.rows  # (G_iᵀC_i⁻¹)ᵀ
        map_t = map_t * self.level_matrix.informative()[:, None]
        left, values, _ = np.linalg.svd(map_t, full_matrices=False)
        tolerance = values[0] * max(map_t.shape) * np.finfo(float).eps
        half = left[:, values > tolerance].T @ lower_t
        return np.asarray(half.T @ half)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> SensorRelease:
        """z̃_i of measurements (m_i,) or (trials, m_i), with simulated noise: for experiments."""
        return self._released(y, as_source(rng), GaussianMechanism.simulate)

    def release(self, y: ArrayLike, source: Source | None = None) -> SensorRelease:
        """z̃_i of measurements (m_i,) or (trials, m_i), with protected noise.

        I(y_i) ≤ S_i for every y_i. No value is refused: beyond the range it is clipped, NaN is
        missing, and all of z̃_i that would show it is NaN. Two releases of one measurement reveal
        twice S_i: with `mechanism.source.Kept` a run that failed sends the same.
        """
        return self._released(y, as_protected(source), GaussianMechanism.release)

    def _released(
        self,
        y: ArrayLike,
        source: Source,
        draw: Callable[[GaussianMechanism, Array, Source], Array],
    ) -> SensorRelease:
        given = self._of_size(real_numbers(y))
        values = np.zeros((*given.shape[:-1], 0))
        if self.mechanism is not None:
            values = draw(self.mechanism, given, source)
        return SensorRelease(
            values, self.level.fingerprint, source.simulated, source.grid, self.level
        )

    def _of_size(self, given: Array) -> Array:
        if given.ndim not in (1, 2) or given.shape[-1] != self.measurements:
            raise InvalidInput(
                f"the sensor has {self.measurements} measurements; received shape {given.shape}."
            )
        return given

    def view(self, release: SensorRelease) -> View:
        """G_i of this release. Raises InvalidInput for one of another sensor or level."""
        as_kind(release, SensorRelease, "a sensor's release is a SensorRelease")
        release.require(self.level.fingerprint)
        values = release.values
        if values.ndim not in (1, 2) or values.shape[-1] != self.outputs:
            raise InvalidInput(
                f"a release of this sensor has {plural(self.outputs, 'value')}; received "
                f"shape {values.shape}."
            )
        if np.isinf(values).any():
            raise InvalidInput("the release of a sensor must be finite, or NaN: missing.")
        v = release.unit_variance
        absent = absent_coordinates(np.atleast_2d(values), self.level_matrix)
        if absent is not None:
            return View(self.model, self.level_matrix, v, absent)
        return self._views.setdefault(v, View(self.model, self.level_matrix, v))

    def contribution(self, release: SensorRelease) -> Contribution:
        """(x_i, r_i) of a release."""
        view = self.view(release)
        x = (view.rows.T @ view.whitened(np.atleast_2d(release.values))).T
        x = x[0] if release.values.ndim == 1 else x
        return Contribution(x, view.information, release.simulated)

    def __repr__(self) -> str:
        size = f"{self.measurements} measurements, {self.parameters} parameters"
        return f"Sensor({size}, {self.level!r})"
