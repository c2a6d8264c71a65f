"""A sensor of the network (`sys:multi/k=1`): its model, its level, and what it may send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_positive, plural
from privest.errors import InvalidInput
from privest.mechanism import GaussianMechanism, RunningMechanism
from privest.mechanism._rows import real_numbers
from privest.mechanism.source import Source, as_protected, as_source
from privest.model import LinearModel
from privest.network._seen import Seen, absent_coordinates
from privest.noise import JointNoise, ScalarLaw
from privest.privacy import PrivacyLevel, as_level
from privest.records import Record
from privest.release import Release


@dataclass(frozen=True, eq=False, slots=True)
class SensorRelease(Release):
    """z̃_i = L_iᵀy_i + e_i of one sensor, (r,) or (trials, r). It cannot hold y_i.

    values  NaN where they would read a reading that was missing.
    """

    KIND: ClassVar[str] = "sensor release"
    NDIM: ClassVar[tuple[int, ...]] = (1, 2)

    values: Array
    fingerprint: str
    simulated: bool
    grid: float = 0.0


@dataclass(frozen=True, eq=False)
class Contribution(Record):
    """What a sensor puts into the network (`algo:average`), a function of its release alone.

    x (n,) or (trials, n) = H_iᵀ(S_iΣ_i + I)⁻¹z_i ,   r (n, n) = H_iᵀ(S_iΣ_i + I)⁻¹S_iH_i ,
    the unit being the variance of the release noise. simulated: whether the release was; None
    where nobody said.
    """

    x: Array
    r: Array
    simulated: bool | None = None

    def __post_init__(self) -> None:
        _require_pair(self.x[None], self.r[None])


class Sensor:
    """y_i = H_iθ + w_i of any size, released at level S_i = L_iL_iᵀ.

        z̃_i = L_iᵀy_i + e_i ,  e_i ~ N(0, I) ;   [G_i, ζ_i] = C_i⁻¹[L_iᵀH_i, z̃_i] ,
        C_iC_iᵀ = L_iᵀΣ_iL_i + I ;   x_i = G_iᵀζ_i ,  r_i = G_iᵀG_i

    Symbols: matrix H_i (m_i, n), noise the law of w_i, level S_i (any rank; PrivacyLevel(0.0) is an
    agent that only passes messages on). H_i, Σ_i, S_i are public, and so is the `range` of the
    readings: beyond it they are clipped (`mechanism.GaussianMechanism`).
    `rows`, `information` and `release_share` are those of the bound. The noise of a real release
    has variance v = 1 + 3g²/4 in the place of 1, which `seen`, `contribution`, `fuse` and
    FusionCentre count.
    Assumes w_i and e_i independent across sensors and of each other.
    For non-Gaussian w_i the estimate is unbiased and has the covariance with Σ_i = cov w_i.
    Source: `algo:average/priv` in the whitened form: the paper's z_i = S_iy_i + d_i is L_i z̃_i, and
    H_iᵀ(S_iΣ_i + I)⁻¹z_i = G_iᵀζ_i without an inverse of S_i.

    >>> import privest as pv
    >>> sensor = Sensor([[2.0]], pv.noise.Gaussian(cov=0.5), PrivacyLevel(4.0))
    >>> sensor.information.round(12).tolist()  # 2·4·2/(4·0.5 + 1)
    [[5.333333333333]]
    """

    def __init__(
        self,
        matrix: ArrayLike,
        noise: ScalarLaw | JointNoise | Sequence[ScalarLaw],
        level: PrivacyLevel | ArrayLike,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        self.model = LinearModel(matrix, noise=noise)
        self.readings, self.parameters = self.model.readings, self.model.parameters  # m_i, n
        self.level = as_level(level)
        self.level_matrix = self.level.for_size(self.readings)
        self.range = range
        self._views = {1.0: Seen(self.model, self.level_matrix)}  # by the variance of the noise
        if range is not None:
            _ = self.mechanism  # a range is checked here, never when there are readings

    @cached_property
    def mechanism(self) -> GaussianMechanism | None:
        """What the sensor releases through; None at level 0, where nothing is released."""
        if self.level_matrix.rank == 0:
            return None
        return GaussianMechanism(self.level, self.readings, range=self.range)

    def as_mechanism(self) -> RunningMechanism:
        """The code of `simulate` as a mechanism, for an audit."""

        def draw(y: Array, rng: np.random.Generator | Source) -> Array:
            return self.simulate(y, rng).values

        return RunningMechanism.at_level(self.level, self.readings, draw, repr(self))

    @property
    def outputs(self) -> int:
        """Length of z̃_i: the rank of S_i."""
        return 0 if self.mechanism is None else self.mechanism.outputs

    @property
    def rows(self) -> Array:
        """G_i (m_i, n); rows of zeros where S_i is singular."""
        return self._views[1.0].rows

    @property
    def information(self) -> Array:
        """r_i = G_iᵀG_i (n, n): what the sensor adds to PI at most. Public."""
        return self._views[1.0].information

    @property
    def release_share(self) -> Array | None:
        """G_iᵀ(C_iC_iᵀ)⁻¹G_i (n, n): the part of r_i's variance that is e_i, the rest being w_i.

        None for a sensor with more than 256 readings whose level or noise ties them together.
        """
        return self._views[1.0].release_share

    @cached_property
    def exposed(self) -> Array:
        """I_Z(y_i) (m_i, m_i): what an eavesdropper of ALL messages of ALL rounds learns about y_i.

            I_Z(y_i) = L_i P L_iᵀ ≤ S_i ,   P the projector on the rows of G_iᵀC_i⁻¹

        Every message is a function of the x_j,0, and of y_i only x_i,0 = G_iᵀC_i⁻¹z̃_i speaks: at
        most n combinations of the readings. (The certificate of `thm:eff/fusion`; = S_i where
        rank S_i ≤ n and G_i has full row rank.) The fusion centre sees z̃_i, hence S_i.
        """
        lower_t = self.level_matrix.factor_rows(np.eye(self.readings))
        whiten = self._views[1.0].kernel.whiten
        map_t = whiten(np.eye(self.readings)).T @ self.rows  # (G_iᵀC_i⁻¹)ᵀ
        map_t = map_t * self.level_matrix.informative()[:, None]
        left, values, _ = np.linalg.svd(map_t, full_matrices=False)
        tolerance = values[0] * max(map_t.shape) * np.finfo(float).eps
        half = left[:, values > tolerance].T @ lower_t
        return np.asarray(half.T @ half)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> SensorRelease:
        """z̃_i for readings (m_i,) or (trials, m_i), with simulated noise: for experiments."""
        given = self._of_size(as_array(y, "the readings of a sensor", ndim=(1, 2)))
        source = as_source(rng)
        values = np.zeros((*given.shape[:-1], 0))
        if self.mechanism is not None:
            values = self.mechanism.simulate(given, source)
        return SensorRelease(values, self.level.fingerprint, source.simulated)

    def release(self, y: ArrayLike, source: Source | None = None) -> SensorRelease:
        """z̃_i for readings (m_i,) or (trials, m_i), with protected noise; it has no seed.

        I(y_i) ≤ S_i for every y_i. Nothing is refused because of a value: beyond the range it is
        clipped, NaN is missing, and all of z̃_i that would read it is NaN. Two releases of one
        reading show twice S_i: with `mechanism.source.Kept` a run that failed sends the same.
        """
        protected = as_protected(source)
        given = self._of_size(real_numbers(y))
        values = np.zeros((*given.shape[:-1], 0))
        if self.mechanism is not None:
            values = self.mechanism.release(given, protected)
        return SensorRelease(values, self.level.fingerprint, protected.simulated, protected.grid)

    def _of_size(self, given: Array) -> Array:
        if given.ndim not in (1, 2) or given.shape[-1] != self.readings:
            raise InvalidInput(
                f"the sensor has {self.readings} readings; received shape {given.shape}."
            )
        return given

    def seen(self, release: SensorRelease) -> Seen:
        """What this release shows of θ: G_i with the variance of its noise, less what is missing.

        Raises InvalidInput for a release of another sensor or level.
        """
        if not isinstance(release, SensorRelease):
            raise InvalidInput(
                f"a sensor's release is a SensorRelease; received {type(release).__name__}."
            )
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
            return Seen(self.model, self.level_matrix, v, absent)
        return self._views.setdefault(v, Seen(self.model, self.level_matrix, v))

    def whitened(self, release: SensorRelease) -> Array:
        """ζ_i (m_i, trials) of a release, the mean of w_i taken off."""
        return self.seen(release).whitened(np.atleast_2d(release.values))

    def contribution(self, release: SensorRelease) -> Contribution:
        """(x_i, r_i), the state with which agent i starts; made of its release only."""
        view = self.seen(release)
        x = (view.rows.T @ view.whitened(np.atleast_2d(release.values))).T
        x = x[0] if release.values.ndim == 1 else x
        return Contribution(x, view.information, release.simulated)

    def __repr__(self) -> str:
        return f"Sensor({self.readings} readings, {self.parameters} parameters, {self.level!r})"


@dataclass(frozen=True, eq=False)
class Contributions(Record):
    """(x_i, r_i) of all agents: x (N, n) or (N, trials, n), r (N, n, n).

    simulated: whether any release was; None where it is not known of all of them.
    """

    x: Array
    r: Array
    simulated: bool | None = None

    def __post_init__(self) -> None:
        _require_pair(self.x, self.r)

    @classmethod
    def of(cls, parts: Sequence[Contribution] | Contributions) -> Contributions:
        """Put the agents' contributions together."""
        if isinstance(parts, Contributions):
            return parts
        if len(parts) == 0 or not all(isinstance(part, Contribution) for part in parts):
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
            any_simulated([part.simulated for part in parts]),
        )

    @classmethod
    def scalar(
        cls,
        matrix: ArrayLike,
        variance: ArrayLike,
        level: ArrayLike,
        releases: ArrayLike,
        *,
        unit_variance: float = 1.0,
    ) -> Contributions:
        """One reading an agent, all agents in one pass: h_i (N, n), σ_i² and s_i numbers or (N,).

            x_i = h_i √s_i z̃_i/(v + s_iσ_i²) ,   r_i = h_ih_iᵀ s_i/(v + s_iσ_i²)

        `releases` z̃ = √s_i y_i + e_i, (N,) or (N, trials), with noise e_i of variance v =
        `unit_variance` (`Release.unit_variance`). For networks of very many agents.
        """
        H = as_array(matrix, "H", ndim=2)
        z = as_array(releases, "the releases", ndim=(1, 2))
        s = one_each(as_array(level, "the levels", ndim=(0, 1)), len(H), "levels")
        sigma = one_each(as_array(variance, "the variances", ndim=(0, 1)), len(H), "variances")
        if len(z) != len(H) or (s < 0).any() or (sigma < 0).any():
            raise InvalidInput(
                f"H has {len(H)} agents; releases have shape {z.shape}; levels and variances must "
                "be ≥ 0."
            )
        below = as_positive(unit_variance, "unit_variance") + s * sigma
        weighted = (np.sqrt(s) / below)[:, None] * z.reshape(len(H), -1)
        x = weighted[:, :, None] * H[:, None, :]
        r = (s / below)[:, None, None] * H[:, :, None] * H[:, None, :]
        return cls(x[:, 0] if z.ndim == 1 else x, r)

    @property
    def agents(self) -> int:
        return len(self.x)


def any_simulated(parts: Sequence[bool | None]) -> bool | None:
    """True if any was, None where of one it is not known."""
    return None if True not in parts and None in parts else True in parts


def one_each(values: Array, agents: int, what: str) -> Array:
    """(N,) of a number or one an agent."""
    if values.ndim and len(values) != agents:
        raise InvalidInput(f"{what} are a number or one an agent: {agents}, not {len(values)}.")
    return np.broadcast_to(values, agents)


def _require_pair(x: Array, r: Array) -> None:
    """x (N, n) or (N, trials, n), r (N, n, n) symmetric, both finite."""
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
