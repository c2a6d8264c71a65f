"""What an estimator of a stream knows at a step, from what it was shown until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from privest.arrays import AnyArray, Array, fingerprint_of
from privest.bounds import parameter_list
from privest.errors import CheckpointError, InfiniteInformation, InvalidInput, NotIdentifiable
from privest.estimator._reference import pooled_variance
from privest.estimator._step_rows import StepRows, under
from privest.estimator.inference._serial import BlockSums, SerialErrors, serial_errors
from privest.estimator.result import Result
from privest.linalg._running import RunningLeastSquares
from privest.noise import JointNoise
from privest.privacy import SequentialLevel
from privest.reading import state_array, state_count


class LearntSoFar:
    """θ̂_k, its covariance and what else follows from the sums over the steps so far.

    `PrivateRLS` fills the sums; this says what they mean, and puts them down and takes them up.
    """

    level: SequentialLevel
    parameters: int
    noise: JointNoise
    steps: int
    readings: int
    simulated: bool  # whether some release was
    _fit: RunningLeastSquares
    _open: RunningLeastSquares | None  # H in units of its noise, for Σ_CR
    _rows: StepRows
    _blocks: BlockSums | None  # the same rows by blocks of time
    _one: tuple[float, float] | None  # one reading a step, U = 0: variance and mean of its noise
    _alike: bool  # whether all readings had one level and one law
    _gaussian: bool
    _largest: float | None  # variance of the noise of the releases so far

    @property
    def unit_variance(self) -> float:
        """The largest variance of the noise on a release, `Release.unit_variance`; 1 or more."""
        return self._largest or 1.0

    @property
    def identifiable(self) -> bool:
        """Whether the releases so far show all of θ."""
        return self._fit.full

    @property
    def hidden_directions(self) -> Array:
        """Orthonormal basis (n, h) of what the releases do not show yet."""
        return self._fit.root().hidden if not self._fit.full else np.zeros((self.parameters, 0))

    @property
    def estimate(self) -> Array:
        """θ̂_k."""
        self._require()
        return self._fit.solution()

    @property
    def covariance(self) -> Array:
        """The covariance of θ̂_k: Σ_PPCR,k for Gaussian noise."""
        self._require()
        return self._fit.inverse()

    @property
    def standard_error(self) -> Array:
        """√ of the diagonal of the covariance."""
        return np.sqrt(np.diagonal(self.covariance))

    def result(self, names: Sequence[str] = (), *, reference: int | None = None) -> Result:
        """The estimate, its covariance, and what of it is known without privacy, at this step.

        Where all readings had one level s and one law of variance σ² and information I, every
        covariance is a multiple of one: sampling σ², classical 1/I, bound 1/I + 1/s against
        σ² + 1/s. Elsewhere the bound is known for Gaussian noise, `classical` where it was kept.

        `reference`: σ² is an estimate with so many degrees of freedom, of Gaussian noise. With one
        level for all it is `pooled` with what the releases scatter, which scales every covariance
        and not the estimate; elsewhere it stays, and intervals are those of t with `reference`
        degrees of freedom, which is enough (cov θ̂ grows at most in proportion to σ²).
        """
        covariance = self.covariance
        classical = None if self._open is None else self._open.inverse()
        # A release with noise of variance v > 1 has at most v times the least covariance.
        sampling, bound = None, covariance / self.unit_variance if self._gaussian else None
        freedom = None if reference is None else float(reference)
        if self._alike and self._one is not None:
            level, own = self._one_level / self.unit_variance, self._one[0]
            unit = level / (1.0 + level * own)
            if reference is not None:
                own, freedom = self.pooled(reference)
                covariance = (own + 1.0 / level) * unit * covariance
                unit = level / (1.0 + level * own)
            sampling = unit * own * covariance
            with suppress(InfiniteInformation):  # a law that jumps: there is no floor above 0
                known = float(self.noise.inverse_information(1).diagonal()[0])
                floor = known if reference is None else own  # Gaussian
                classical = unit * floor * covariance
                least = (floor + 1.0 / self._one_level) * unit
                whole = floor == own and self.unit_variance == 1.0
                bound = covariance if whole else least * covariance
        return Result(
            estimate=self.estimate,
            covariance=covariance,
            sampling=sampling,
            classical=classical,
            bound=bound,
            names=tuple(names),
            simulated=self.simulated,
            degrees_of_freedom=freedom,
        )

    def block_errors(self, *, whole: bool = True) -> SerialErrors:
        """Errors of the estimate by blocks of time, which hold where readings remember.

        CR2 with Bell-McCaffrey degrees of freedom from 8 to 16 blocks; `covariance` holds where the
        noise of readings is independent from one to the next, and of the stated variance.
        `whole=False`: standard errors alone, without degrees of freedom: a third less time.
        """
        if self._blocks is None:
            raise InvalidInput("errors by blocks need PrivateRLS(…, blocks=True) from the start.")
        return serial_errors(self._blocks, self.estimate, whole=whole)

    @property
    def one_level(self) -> float | None:
        """s, where all readings had one level, one law, and were shown one by one; else None."""
        return self._one_level if self._alike and self._one is not None else None

    @property
    def _one_level(self) -> float:
        """s, where all readings have one level."""
        return float(np.ravel(self.level.pointwise(0, 1))[0])  # type: ignore[arg-type]

    def pooled(self, reference: int) -> tuple[float, float]:
        """σ² and its degrees of freedom: that of `noise`, an estimate with `reference` of its own.

        Where all readings had one level, none was missing and the noise is Gaussian it is pooled
        with what the releases scatter (`pooled_variance`); elsewhere as it was.
        """
        variance = float(self.noise.covariance(1).diagonal()[0])
        if not (self._alike and self._gaussian):
            return variance, float(reference)
        added, left = self.unit_variance / self._one_level, self.readings - self.parameters
        return pooled_variance(variance, reference, self.misfit * (variance + added), left, added)

    @property
    def information(self) -> Array:
        """PI_k, also before θ is identifiable."""
        return self._fit.root().information

    @property
    def misfit(self) -> float:
        """‖Gθ̂ − ζ‖²: χ² with (readings shown − n) degrees of freedom if the model is right."""
        self._require()
        return self._fit.misfit

    def _require(self) -> None:
        if not self._fit.full:
            hidden = self._fit.root().hidden
            raise NotIdentifiable(
                f"After {self.steps} steps θ is not yet identifiable: {hidden.shape[1]} of "
                f"{self.parameters} directions are hidden ({parameter_list(hidden)}).",
                hidden,
            )

    def _see(self, simulated: bool, variance: float) -> None:
        """What kind of release this was. Two kinds: their covariances are no multiples of one."""
        if variance != self._largest:
            self._alike &= self._largest is None
            self._largest = max(variance, self.unit_variance)
        self.simulated |= simulated

    # --- put down and taken up ------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Tells estimators apart by what they assume: level, n, and the noise of a step."""
        size = self.noise.size or 1
        noise = self.noise.covariance(size).dense()
        mean = np.asarray(self.noise.expectation(size), dtype=float)
        floor = np.zeros_like(noise)  # what a law of infinite information has
        with suppress(InfiniteInformation):
            floor = self.noise.inverse_information(size).dense()
        own = fingerprint_of(str(self.parameters), noise, floor, mean)
        return f"{self.level.fingerprint}/{own}"

    def state(self) -> dict[str, AnyArray]:
        """What the next steps need, as arrays. Public: made of releases only."""
        result: dict[str, AnyArray] = {
            "steps": np.array(self.steps),
            "readings": np.array(self.readings),
            "facts": np.array([self.simulated, self._alike, self._gaussian]),
            "noise": np.array([self._largest or 0.0]),
        }
        result |= {f"fit.{name}": array for name, array in self._fit.state().items()}
        if self._open is not None:
            result |= {f"open.{name}": array for name, array in self._open.state().items()}
        result |= self._rows.state()
        if self._blocks is not None:
            result |= {f"blocks.{name}": array for name, array in self._blocks.state().items()}
        return {name: array.copy() for name, array in result.items()}

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Take up a state again: all of it, or nothing of one that is not of this stream.

        Raises InvalidInput for what no `state` of such an estimator can be.
        """
        kept = {name: array.copy() for name, array in self.state().items()}
        try:
            self._take(state)
        except (InvalidInput, CheckpointError):
            self._take(kept)
            raise

    def _take(self, state: Mapping[str, AnyArray]) -> None:
        steps, readings = state_count(state, "steps"), state_count(state, "readings")
        if self.level.readings_before(steps) != readings:
            raise InvalidInput(f"{steps} steps at this level do not have {readings} readings.")
        self.steps, self.readings = steps, readings
        facts = state_array(state, "facts", (3,), "b")
        self.simulated, self._alike, self._gaussian = facts.tolist()
        largest = float(state_array(state, "noise", (1,))[0])
        if largest != 0 and not 1.0 <= largest <= 2.0:
            raise InvalidInput("the state 'noise' must be the variance of the noise of releases.")
        self._largest = largest or None
        self._fit.restore(under(state, "fit."))
        if self._open is not None:
            self._open.restore(under(state, "open."))
        self._rows.readings = self.readings
        self._rows.restore(state)
        if self._blocks is not None:
            kept = under(state, "blocks.")
            if not kept:
                raise CheckpointError(
                    "this stream was saved without sums by blocks of time, as an older privest "
                    "did: they cannot be made up. Finish it with the privest that began it, or "
                    "estimate anew from its releases."
                )
            self._blocks.restore(kept, steps)
