"""Sensor fusion: the efficient estimate where one place hears every sensor (`algo:average/eff`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from privest.arrays import Array, as_count, plural
from privest.bounds import Bound, bound, classical_bound
from privest.errors import InfiniteInformation, InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator.result import Result
from privest.linalg import PSD, Blocks, Diagonal, least_squares, root_of_rows
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rank_tolerance
from privest.model import LinearModel
from privest.network._seen import Seen
from privest.network._sensor import Contribution, Sensor, SensorRelease
from privest.noise import JointNoise
from privest.privacy import PrivacyLevel


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fused(Result):
    """θ̂ (n,) or (trials, n), its covariance Σ'_PPCR (n, n), and of how many sensors."""

    sensors: int


def fuse(sensors: Sequence[Sensor], releases: Sequence[SensorRelease]) -> Fused:
    """The efficient estimate from the releases of N sensors of any sizes.

        θ̂ = (Σ_i G_iᵀG_i)⁻¹ Σ_i G_iᵀζ_i ,   covariance (Σ_i G_iᵀG_i)⁻¹

    Guarantees: unbiased; for Gaussian noise its covariance is the bound (`fusion_bound`), the floor
    for every mechanism with I_{z_i}(y_i) ≤ S_i (for real releases to within 3·2⁻²², the variance
    that discrete noise and rounding add, which is counted).
    Raises NotIdentifiable, with the hidden directions, if the sensors together do not show θ.
    Numerics: QR of the stacked whitened rows, O(Σ m_i n²).
    Source: `algo:average/priv`, `algo:average/eff`, `thm:eff/fusion`.
    """
    _require_sensors(sensors)
    if len(releases) != len(sensors):
        raise InvalidInput(f"{len(sensors)} sensors sent {len(releases)} releases.")
    views = [sensor.seen(release) for sensor, release in zip(sensors, releases)]
    rows = np.concatenate([view.rows for view in views])
    right = [view.whitened(np.atleast_2d(release.values)) for view, release in zip(views, releases)]
    if len({part.shape[1] for part in right}) > 1 or len({r.values.ndim for r in releases}) > 1:
        raise InvalidInput("the releases of the sensors have different numbers of trials.")
    solution, root = least_squares(rows, np.concatenate(right))
    estimate = solution[:, 0] if releases[0].values.ndim == 1 else solution.T
    covariance = root.inverse()
    return Fused(
        estimate=estimate,
        covariance=covariance,
        sampling=_sampling(covariance, views),
        classical=_classical(sensors),
        bound=_floor(covariance, sensors, views),
        simulated=any(release.simulated for release in releases),
        sensors=len(sensors),
    )


def fusion_bound(sensors: Sequence[Sensor]) -> Bound:
    """The floor for N sensors with levels S_i: `bound` of the stacked model, diag{S_1, …, S_N}."""
    _require_sensors(sensors)
    level = _side_by_side([sensor.level_matrix for sensor in sensors])
    return bound(_stacked(sensors), PrivacyLevel.from_matrix(level))


def _stacked(sensors: Sequence[Sensor]) -> LinearModel:
    matrix = np.concatenate([sensor.model.matrix for sensor in sensors])
    return LinearModel(matrix, noise=_SideBySide(sensors))


def _classical(sensors: Sequence[Sensor]) -> Array | None:
    """Σ_CR of all readings; None where there is none, or double precision does not reach it."""
    try:
        return classical_bound(_stacked(sensors))
    except (InfiniteInformation, NotIdentifiable, NumericalFailure):
        return None


def _floor(covariance: Array, sensors: Sequence[Sensor], views: Sequence[Seen]) -> Array | None:
    """Σ'_PPCR of what was released; None where it is not known.

    It is the covariance where all noise has variance 1, else that of the same rows with unit noise.
    """
    if not all(sensor.model.noise.gaussian for sensor in sensors):
        return None
    if all(view.variance == 1.0 for view in views):
        return covariance
    unit = [replace(view, variance=1.0).rows for view in views]
    return root_of_rows(np.concatenate(unit)).inverse()


def _sampling(covariance: Array, views: Sequence[Seen]) -> Array | None:
    """The covariance without what the release noise e_i adds; None where that is not cheap."""
    shares = [view.release_share for view in views]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return None
    return np.asarray(covariance - covariance @ np.sum(known, axis=0) @ covariance)


class FusionCentre:
    """Releases as they come, sensors that join and drop out.

    Whitened Grams add, so each sensor keeps a triangle [R_i, q_i] of its own; the estimate is that
    of all triangles together. A sensor that drops out is left out by putting the others together
    anew: nothing is subtracted, so no digits are lost. What it has released stays released.
    Cost: O(m_i n² + n³) a release, O(N n³) after a drop.
    Assumes every release is about new readings: two releases of one reading add their information.

    >>> import privest as pv
    >>> centre, rng = FusionCentre(1), np.random.default_rng(0)
    >>> sensor = Sensor([[1.0]], pv.noise.Gaussian(cov=0.5), PrivacyLevel(2.0))
    >>> for name in ("roof", "yard"):
    ...     centre.add(name, sensor, sensor.simulate([1.0], rng))
    >>> centre.covariance.round(12).tolist()  # (1/2 + 0.5)/2
    [[0.5]]
    >>> centre.drop("roof")
    >>> centre.covariance.round(12).tolist()
    [[1.0]]
    """

    def __init__(self, parameters: int) -> None:
        self.parameters = as_count(parameters, "parameters", least=1)
        self._parts: dict[Hashable, RunningLeastSquares] = {}
        self._total = self._empty()
        self.simulated = False  # whether any release was

    def _empty(self) -> RunningLeastSquares:
        return RunningLeastSquares(self.parameters, rank_tolerance(self.parameters))

    @property
    def sensors(self) -> tuple[Hashable, ...]:
        """Who takes part."""
        return tuple(self._parts)

    def add(self, name: Hashable, sensor: Sensor, release: SensorRelease) -> None:
        """Use a release; a name that is new joins. One release at a time (no trials)."""
        if sensor.parameters != self.parameters:
            raise InvalidInput(
                f"the centre estimates {plural(self.parameters, 'parameter')}, this sensor sees "
                f"{sensor.parameters}."
            )
        view = sensor.seen(release)
        right = view.whitened(np.atleast_2d(release.values))
        if right.shape[1] != 1:
            raise InvalidInput("add takes one release; received several trials.")
        self.simulated = self.simulated or release.simulated
        rows = np.concatenate([view.rows, right], axis=1)
        part = self._parts.setdefault(name, self._empty())
        for fit in (part, self._total):
            fit.add(rows, np.abs(rows[:, :-1]))

    def drop(self, name: Hashable) -> None:
        """Leave out all that a sensor has sent."""
        if name not in self._parts:
            raise InvalidInput(f"no sensor {name!r} has joined.")
        del self._parts[name]
        self._total = self._empty()
        for part in self._parts.values():
            # `natural` is not kept up once the rank of a part is full: its columns are then.
            size = np.maximum(part.natural, np.hypot.reduce(part.triangle[:, :-1], axis=0))
            self._total.add(part.triangle, size[None])

    def result(self) -> Fused:
        """θ̂ and its covariance now. Raises NotIdentifiable until the sensors show θ."""
        return Fused(
            estimate=self.estimate,
            covariance=self.covariance,
            simulated=self.simulated,
            sensors=len(self._parts),
        )

    @property
    def estimate(self) -> Array:
        """θ̂ of the sensors that take part. Raises NotIdentifiable until they show θ."""
        return self._identified().solution()

    @property
    def covariance(self) -> Array:
        """Σ'_PPCR of the sensors that take part."""
        return self._identified().inverse()

    def contribution(self) -> Contribution:
        """(x, r) = (Rᵀq, RᵀR) of all that came in: a centre may itself be an agent of a network."""
        n, triangle = self.parameters, self._total.triangle
        upper = triangle[:n, :n]
        return Contribution(upper.T @ triangle[:n, n], upper.T @ upper, self.simulated)

    def _identified(self) -> RunningLeastSquares:
        if not self._total.full:
            root = self._total.root()
            raise NotIdentifiable(
                f"the {len(self._parts)} sensors together show {root.rank} of {self.parameters} "
                "directions of θ.",
                root.hidden,
            )
        return self._total


class _SideBySide(JointNoise):
    """Independent noise of several sensors."""

    def __init__(self, sensors: Sequence[Sensor]) -> None:
        self.sensors = sensors
        self.size = sum(sensor.readings for sensor in sensors)

    @property
    def gaussian(self) -> bool:
        return all(sensor.model.noise.gaussian for sensor in self.sensors)

    def covariance(self, size: int) -> PSD:
        return _side_by_side([sensor.model.covariance for sensor in self.sensors])

    def inverse_information(self, size: int) -> PSD:
        return _side_by_side([sensor.model.inverse_information for sensor in self.sensors])

    def expectation(self, size: int) -> Array:
        parts = [
            np.broadcast_to(sensor.model.noise.expectation(sensor.readings), sensor.readings)
            for sensor in self.sensors
        ]
        return np.concatenate(parts)

    def sample(self, size: int, rng: np.random.Generator, trials: int | None = None) -> Array:
        drawn = [sensor.model.noise.sample(sensor.readings, rng, trials) for sensor in self.sensors]
        return np.concatenate(drawn, axis=-1)


def _side_by_side(matrices: Sequence[PSD]) -> PSD:
    if all(matrix.pointwise is not None for matrix in matrices):
        return Diagonal(np.concatenate([matrix.diagonal() for matrix in matrices]))
    blocks: list[Array] = []
    for matrix in matrices:
        blocks.extend(matrix.matrices if isinstance(matrix, Blocks) else [matrix.dense()])
    return Blocks(blocks)


def _require_sensors(sensors: Sequence[Sensor]) -> None:
    if len(sensors) == 0 or not all(isinstance(sensor, Sensor) for sensor in sensors):
        raise InvalidInput("give a list of Sensor, at least one.")
    sizes = sorted({sensor.parameters for sensor in sensors})
    if len(sizes) > 1:
        raise InvalidInput(f"the sensors see different numbers of parameters: {sizes}.")
