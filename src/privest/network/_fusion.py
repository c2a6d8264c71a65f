"""Sensor fusion: the efficient estimate where one place hears every sensor (`algo:average/eff`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privest.arrays import Array
from privest.bounds import classical_bound
from privest.errors import InfiniteInformation, InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator.result import Estimate
from privest.linalg import PSD, Blocks, Diagonal, least_squares, root_of_rows
from privest.model import LinearModel
from privest.network._sensor import Sensor, SensorRelease, View
from privest.noise import JointNoise
from privest.privacy import PrivacyLevel


def fuse(sensors: Sequence[Sensor], releases: Sequence[SensorRelease]) -> Estimate:
    """The efficient estimate from the releases of N sensors of any sizes.

        θ̂ = (Σ_i G_iᵀG_i)⁻¹ Σ_i G_iᵀζ_i ,   covariance (Σ_i G_iᵀG_i)⁻¹

    Guarantees: unbiased; for Gaussian noise its covariance is the bound of `joint_model`, the floor
    for every mechanism with I_{z_i}(y_i) ≤ S_i (for real releases to within 3·2⁻²², counted).
    Raises NotIdentifiable, with the hidden directions, if the sensors together do not show θ.
    Source: `algo:average/priv`, `algo:average/eff`, `thm:eff/fusion`. O(Σ m_i n²), by QR.
    """
    _require_sensors(sensors)
    if len(releases) != len(sensors):
        raise InvalidInput(f"{len(sensors)} sensors sent {len(releases)} releases.")
    views = [sensor.view(release) for sensor, release in zip(sensors, releases)]
    rows = np.concatenate([view.rows for view in views])
    right = [view.whitened(np.atleast_2d(release.values)) for view, release in zip(views, releases)]
    if len({part.shape[1] for part in right}) > 1 or len({r.values.ndim for r in releases}) > 1:
        raise InvalidInput("the releases of the sensors have different numbers of trials.")
    solution, root = least_squares(rows, np.concatenate(right))
    estimate = solution[:, 0] if releases[0].values.ndim == 1 else solution.T
    covariance = root.inverse()
    return Estimate(
        value=estimate,
        covariance=covariance,
        sampling=_sampling(covariance, views),
        classical=_classical(sensors),
        bound=_floor(covariance, sensors, views),
        simulated=any(release.simulated for release in releases),
    )


def joint_model(sensors: Sequence[Sensor]) -> tuple[LinearModel, PrivacyLevel]:
    """The stacked model of N sensors and its level diag{S_1, …, S_N}.

    `pv.bound(*joint_model(sensors))` is the floor of `fuse` and `consensus`.
    """
    _require_sensors(sensors)
    level = _side_by_side([sensor.level_matrix for sensor in sensors])
    return _stacked(sensors), PrivacyLevel.from_matrix(level)


def _stacked(sensors: Sequence[Sensor]) -> LinearModel:
    matrix = np.concatenate([sensor.model.matrix for sensor in sensors])
    return LinearModel(matrix, noise=_SideBySide(sensors))


def _classical(sensors: Sequence[Sensor]) -> Array | None:
    try:
        return classical_bound(_stacked(sensors))
    except (InfiniteInformation, NotIdentifiable, NumericalFailure):
        return None


def _floor(covariance: Array, sensors: Sequence[Sensor], views: Sequence[View]) -> Array | None:
    """Σ'_PPCR of what was released, the covariance with unit noise; None if w is not Gaussian."""
    if not all(sensor.model.noise.gaussian for sensor in sensors):
        return None
    if all(view.variance == 1.0 for view in views):
        return covariance
    unit = [replace(view, variance=1.0).rows for view in views]
    return root_of_rows(np.concatenate(unit)).inverse()


def _sampling(covariance: Array, views: Sequence[View]) -> Array | None:
    """The covariance without the part of the privacy noise; None where that is not cheap."""
    shares = [view.release_share for view in views]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return None
    return np.asarray(covariance - covariance @ np.sum(known, axis=0) @ covariance)


class _SideBySide(JointNoise):
    def __init__(self, sensors: Sequence[Sensor]) -> None:
        self.sensors = sensors
        self.size = sum(sensor.measurements for sensor in sensors)

    @property
    def gaussian(self) -> bool:
        return all(sensor.model.noise.gaussian for sensor in self.sensors)

    def covariance(self, size: int) -> PSD:
        return _side_by_side([sensor.model.covariance for sensor in self.sensors])

    def inverse_information(self, size: int) -> PSD:
        return _side_by_side([sensor.model.inverse_information for sensor in self.sensors])

    def expectation(self, size: int) -> Array:
        parts = [
            np.broadcast_to(
                sensor.model.noise.expectation(sensor.measurements), sensor.measurements
            )
            for sensor in self.sensors
        ]
        return np.concatenate(parts)

    def sample(self, size: int, rng: np.random.Generator, trials: int | None = None) -> Array:
        drawn = [
            sensor.model.noise.sample(sensor.measurements, rng, trials) for sensor in self.sensors
        ]
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
