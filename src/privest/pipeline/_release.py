"""Estimate, then release: θ̂ from the raw readings, plus noise for a budget tr I_z(Y) ≤ s.

The named exception to the way through the house: here the estimate comes before the release. What
leaves is z = Tθ̂ + d, with d independent of the data and a covariance made of public inputs only.

**What the budget means here.** The information tr I_z(Y) depends on the readings. For K → ∞ it
tends to s (`thm:rate_attainablility`); at finite K it is above s on about half of all data sets,
and no bound holds for every conceivable Y. `safety` fixes in advance a factor by which s is
undercut; the realised value is shown to the data holder by `for_data_holder`, and to nobody else.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_count, as_number, as_positive
from privest.errors import FewReadings, InvalidInput, NotReleasable
from privest.linalg.batched import substitute
from privest.mechanism.source import Generated, Source, as_protected, as_source, require_room
from privest.model import LinearModel
from privest.noise import GaussianLaw, ScalarLaw
from privest.noise._law import as_generator
from privest.pipeline import _roots as roots
from privest.pipeline._admission import largest_leverage, one_law
from privest.pipeline._descent import Design, Roots
from privest.pipeline._estimate import PrivateEstimate
from privest.pipeline._finite import FiniteLoss, finite_loss
from privest.pipeline._holder import HolderReport, realised, simulated_ratios
from privest.pipeline._protected import law_of, noisy, readings_of, widening
from privest.pipeline._score import Score
from privest.pipeline._sensitivity import Stage, root_stage, root_stages
from privest.pipeline._shape import NoiseShape, Shape, noise_shape
from privest.pipeline._ties import Tie, nearest_tie

# Fewer readings a parameter than FEW, or a row of more leverage than HIGH: the error is simulated,
# not taken from the limit. Beyond them it is above the limit by some percent (Laplace 3 to 10).
FEW, HIGH = 100, 0.2
SIMULATED, LEAST, READINGS = 1000, 100, 4 * 10**6  # data sets for that: as many, within READINGS
TOLD = 1.1  # a warning where the error is so many times the limit
READINGS_A_PARAMETER = 5  # fewer, and "for large K" has no meaning
OWN = ("noise", "steps", "_asked")  # what a kind of release was made with, beside the rest
PARTS = (0.5, 0.998, 0.002)  # of the law, on which the residuals are compared with it


class ScoreRelease(ABC):
    """z = Tθ̂ + d for one model, one budget and one score: the part that all pipelines share.

    model    y = Hθ + w with independent w_k of one law (H public, deterministic).
    budget   s in tr I_z(Y) ≤ s, met for K → ∞.
    shape    "trace" (least tr MSE, the default) or "paper" (`algo:mult`).
    weight   W for the loss tr(W·MSE); singular: only Bᵀθ is released, W = BBᵀ.
    safety   ≥ 1: noise for s/safety.

    `release` is for real, and never depends on the readings but by what it releases (`_protected`
    says how). `simulate` is a trial: whether an estimate exists depends on the readings, so its
    errors tell something about them, and are for the data holder.
    """

    name = "estimate with noise"
    score: Score
    noise: ScalarLaw = GaussianLaw(variance=1.0)  # unit information, each component of D^½·d

    def __init__(
        self,
        model: LinearModel,
        budget: float,
        *,
        shape: Shape = "trace",
        weight: ArrayLike | None = None,
        safety: float = 1.0,
    ) -> None:
        self.model = model
        self._options: dict[str, Any] = {"shape": shape, "weight": weight, "safety": safety}
        self.budget = as_positive(budget, "budget")
        self.safety = as_number(safety, "safety")
        if self.safety < 1:
            raise InvalidInput(f"safety must be ≥ 1; received {self.safety:g}.")
        self.law = one_law(model)
        count, n = model.matrix.shape
        if count < READINGS_A_PARAMETER * n:
            raise InvalidInput(
                f"{count} readings are too few for {n} parameters: the release noise is right for "
                f"large K; at least {READINGS_A_PARAMETER} readings a parameter are needed."
            )
        self.design = Design(model.matrix)
        self.leverage = largest_leverage(self.design)
        self.shape: NoiseShape = noise_shape(
            self.design.triangle, self.budget / self.safety, shape, weight
        )
        self.score = self._score()

    @abstractmethod
    def _score(self) -> Score:
        """The score for this law and shape."""

    def __repr__(self) -> str:
        safe = f", safety={self.safety:g}" if self.safety > 1 else ""
        return f"{type(self).__name__}({self.model!r}, budget={self.budget:g}{safe})"

    # --- what is known before any data ------------------------------------------------------------

    @property
    def privacy(self) -> Array:
        """Covariance of the release noise."""
        spread = self.noise.variance * self.noise.fisher_information  # 1 for Gaussian noise
        return self.information_scale * spread

    @property
    def information_scale(self) -> Array:
        """D with I_z(Tθ̂) = D⁻¹: the covariance of Gaussian noise."""
        return self.score.sensitivity * self.shape.unit

    @property
    def sampling(self) -> Array:
        """Covariance of Tθ̂: `limit_sampling`, or simulated where there are few readings."""
        return self.limit_sampling if self.finite is None else self.finite.sampling

    @property
    def limit_sampling(self) -> Array:
        """Covariance of Tθ̂ for large K: E ψ²/(E ψ')²·T(HᵀH)⁻¹Tᵀ."""
        return self.score.sampling * self.shape.spread

    @cached_property
    def finite(self) -> FiniteLoss | None:
        """The simulated error where it is used; None where the limit is.

        Used for fewer than 100 readings a parameter or a leverage above 0.2, unless the estimate
        is linear in the readings, when the limit is exact. Made once, with a generator of its own:
        the same for the same public inputs. Up to some seconds.
        Warns (`errors.FewReadings`) where the error is more than 1.1 times that of many readings.
        """
        count, n = self.model.matrix.shape
        if self.score.linear is not None or (count >= FEW * n and self.leverage <= HIGH):
            return None
        sets = max(LEAST, min(SIMULATED, READINGS // count))
        found = finite_loss(self, np.random.default_rng([count, n]), sets)
        if found.factor > TOLD:
            warnings.warn(
                f"with {count} readings and a largest leverage of {self.leverage:.2f} the loss is "
                f"{found.factor:.3g} times that of many readings (simulated; loss and standard "
                "errors count it).",
                FewReadings,
                stacklevel=3,
            )
        return found

    @property
    def classical(self) -> Array:
        """T Σ_CR Tᵀ = T(HᵀH)⁻¹Tᵀ/I; zero for a law of infinite information."""
        return self.shape.spread / self.law.fisher_information

    @property
    def private_bound(self) -> float:
        """tr WΣ_CR + (tr Ã^½)²/s: no mechanism with tr I_z(Y) ≤ s is better."""
        shape = self.shape
        return shape.gram / self.law.fisher_information + shape.strength**2 / self.budget

    @property
    def loss(self) -> float:
        """tr(W·(sampling + privacy))."""
        return float(np.sum(self.shape.loss * (self.sampling + self.privacy)))

    @property
    def limit_loss(self) -> float:
        """The loss for large K: tr(W·(limit_sampling + privacy))."""
        return float(np.sum(self.shape.loss * (self.limit_sampling + self.privacy)))

    def finite_loss(self, rng: np.random.Generator, data_sets: int = 1000) -> FiniteLoss:
        """The loss at this very number of readings, from simulated data sets, next to the limit."""
        return finite_loss(self, as_generator(rng), as_count(data_sets, "data_sets", least=2))

    def ratios(self, rng: np.random.Generator, data_sets: int = 1000) -> Array:
        """tr I_z(Y)/s of data sets simulated from the public model, (data_sets,).

        How often, and by how much, a data set exceeds the budget: a quantile of this, for safety 1,
        is a safety factor that is enough so often. NaN where there is no estimate.
        """
        count = as_count(data_sets, "data_sets", least=1)
        return simulated_ratios(self, as_generator(rng), count)

    # --- with data --------------------------------------------------------------------------------

    def estimate(self, y: ArrayLike) -> Array:
        """θ̂ without noise, (n,) or (trials, n). For the data holder's eyes only.

        Raises NumericalFailure where the estimating equation has no proper root, InvalidInput
        where the residuals do not look like the noise law at all, and, for one data set,
        BudgetExceeded where a second root is too nearly as good (`HolderReport.require_no_tie`;
        many at once are an experiment, and none is left out).
        """
        given = self._readings(y)
        theta = self._estimated(np.atleast_2d(given))
        if len(theta) == 1:
            one = given.ravel()
            tie = self._tie(one, theta[0])
            if tie is not None:
                realised(self, one, theta[0], tie).require_no_tie()
        return theta if given.ndim == 2 else theta[0]

    def _estimated(self, y: Array) -> Array:
        """θ̂ (trials, n), near a tie too."""
        found = self.solve(y)
        roots.require_converged(found)
        self._require_fit(y, found.theta)
        return found.theta

    def solve(self, y: Array) -> Roots:
        """The estimates of readings y (trials, K), before any check."""
        return roots.solve(self.score, self.design, y)

    def stages(self, y: Array, theta: Array) -> list[Stage]:
        """How θ̂ was made from readings y, (K,) or (trials, K): what its sensitivity needs."""
        H, score = self.model.matrix, self.score
        make = root_stage if y.ndim == 1 else root_stages
        return [make(score, H, y - theta @ H.T)]

    def _tie(self, y: Array, theta: Array) -> Tie | None:
        """The nearest tie that was found, for readings y (K,)."""
        begin = roots.tie_starts(self.score, self.design, y)
        return None if begin is None else nearest_tie(self.score, self.design, y, theta, begin)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> PrivateEstimate:
        """The release with noise from a simulation generator: for experiments, not for release."""
        source = as_source(rng)
        return self._described(self._noisy(self.estimate(y), source), source)

    def release(self, y: ArrayLike, source: Source | None = None) -> PrivateEstimate:
        """z = Tθ̂ + d with protected noise; it has no seed. y: (K,), or (trials, K).

        The noise is exact: every coordinate of F⁻¹Tθ̂, as it was computed, is shown with
        information at most 1. The budget tr I_z(Y) ≤ s stays a promise for many readings, as in
        `simulate`; least squares keeps it for every Y. Nothing is refused because of a reading,
        and nothing said: ask `for_data_holder` before. NaN is missing: its row of H is left out,
        and the noise is that of the smaller model (one data set at a time).
        Raises NotReleasable, for public reasons: noise that is neither Gaussian nor Laplacian, or
        an equation that can have several roots, where the estimate jumps (`FixedStepsRelease`).
        """
        protected = as_protected(source)
        law_of(self.noise)
        self._require_continuous()
        given = readings_of(self, y)
        missing = np.isnan(given)
        if missing.any():
            return self._without(missing).release(given[~missing], protected)
        _ = self.finite  # now: what can fail must not fail after the noise is drawn
        return self._described(noisy(self, given, protected), protected)

    def _require_continuous(self) -> None:
        if not self.score.one_root:
            raise NotReleasable(
                f"the estimating equation can have several roots under {self.law!r}: where two are "
                "equally good the estimate jumps, and the release shows without bound; to refuse "
                "such readings would tell about them. FixedStepsRelease is continuous in the "
                "readings, at the same loss for many of them."
            )

    def _without(self, missing: Flags) -> ScoreRelease:
        """The same release for a model without these rows."""
        model = self.model
        kept = LinearModel(
            model.matrix[~missing], model.noise, names=model.names, accuracy=model.accuracy
        )
        smaller = object.__new__(type(self))
        vars(smaller).update({name: vars(self)[name] for name in OWN if name in vars(self)})
        ScoreRelease.__init__(smaller, kept, self.budget, **self._options)
        return smaller

    def simulate_scaled(
        self, y: ArrayLike, rng: np.random.Generator | Source, *, margin: float = 1.1
    ) -> PrivateEstimate:
        """The release with noise scaled to the readings at hand: D(Y) = margin·r(Y)·D.

        r(Y) = tr I_z(Y)/s realised with D. The scale depends on the data, so it tells about it:

            tr I_z(Y) = s/margin + (q/2)‖∂ ln r/∂Y‖²    (q numbers released)

        is counted, both terms, and the release is refused where it exceeds s (a refusal is itself
        seen: choose `margin` large enough for it to be rare). Gaussian noise only. The margin takes
        the place of the safety factor, which drops out of D(Y). For trials only: see the refusal.
        """
        if isinstance(rng, Source) and not rng.simulated:
            raise NotReleasable(
                "noise scaled to the readings is for simulation only: its scale is a function of "
                "the readings, which no exact noise covers, and a release that would show too much "
                "is refused, which tells about them. Release with fixed noise and a safety factor."
            )
        if not isinstance(self.noise, GaussianLaw):
            raise InvalidInput("noise scaled to the data is counted for Gaussian noise only.")
        if as_number(margin, "margin") <= 1:
            raise InvalidInput(f"margin must be > 1; received {margin:g}.")
        report = self.for_data_holder(y)
        report.require_no_tie()
        report.require_scaled(margin)
        spread = margin * report.ratio
        # D was made for s/safety, so that r ≈ 1/safety: the noise is about margin·D/safety.
        expected = margin / self.safety
        source = as_source(rng)
        return self._described(self._noisy(report.estimate, source, spread), source, expected)

    def for_data_holder(self, y: ArrayLike) -> HolderReport:
        """What this release would show about these very readings. Private: never release it.

        Cost: one solve and two passes over the rows; where ψ is not monotone also the search for
        a second root, some ten solves.
        """
        given = self._readings(y)
        if given.ndim != 1:
            raise InvalidInput("one vector of readings, please.")
        theta = self._estimated(given[None])[0]
        return realised(self, given, theta, self._tie(given, theta))

    def _described(self, estimate: Array, source: Source, expected: float = 1.0) -> PrivateEstimate:
        """`expected` times the usual noise is what may be said of it in public."""
        if not source.simulated:
            expected *= widening(self.noise, source.grid)
        privacy = expected * self.privacy
        return PrivateEstimate(
            estimate=estimate,
            covariance=self.sampling + privacy,
            sampling=self.sampling,
            classical=self.classical,
            names=self.model.names if self.shape.whole else (),
            simulated=source.simulated,
            private_bound=self.private_bound,
            loss=self.loss + (expected - 1) * float(np.sum(self.shape.loss * self.privacy)),
            budget=self.budget,
            safety=self.safety,
            method=self.name,
            factor=1.0 if self.finite is None else self.finite.factor,
        )

    def _noisy(self, theta: Array, source: Source, scale: float = 1.0) -> Array:
        """Tθ̂ + Fe, e of unit information: Gaussian through the source, other laws simulated."""
        exact = theta @ self.shape.targets.T
        # Cholesky, not eigenvectors: columns of H may differ by many orders of magnitude.
        factor = np.sqrt(scale) * np.linalg.cholesky(self.information_scale)
        if isinstance(self.noise, GaussianLaw):
            unit = substitute(factor, exact.T, lower=True).T
            return np.asarray(source.add_noise(unit) @ factor.T)
        if not isinstance(source, Generated):
            raise InvalidInput(
                f"release noise of the law {self.noise!r} is drawn with a numpy Generator only: it "
                "is there for comparison. Gaussian noise takes any source."
            )
        require_room(substitute(factor, exact.T, lower=True))
        drawn = self.noise.sample(exact.shape, source.rng)
        return np.asarray(exact + np.sqrt(self.noise.fisher_information) * drawn @ factor.T)

    def _readings(self, y: ArrayLike) -> Array:
        given = as_array(y, "the readings", ndim=(1, 2))
        if given.shape[-1] != self.model.readings:
            raise InvalidInput(
                f"the model has {self.model.readings} readings; received shape {given.shape}."
            )
        return given

    @cached_property
    def _middles(self) -> Array:
        """Ends of the middle parts of the law, (3, 2)."""
        part = np.array(PARTS)
        return self.law.quantile(np.stack([(1 - part) / 2, (1 + part) / 2], axis=1))

    def _require_fit(self, y: Array, theta: Array) -> None:
        """The middle 50, 99.8 and 0.2 % of the law hold about these parts of the residuals.

        The last two see a law that is wrong by orders of magnitude with few readings.
        """
        count, n = self.model.matrix.shape
        residual = y - theta @ self.model.matrix.T
        for part, (low, high) in zip(PARTS, self._middles):
            off = ((residual > low) & (residual < high)).mean(axis=1) - part
            worst = float(off[np.abs(off).argmax()])
            # 0.2: a law off by a factor of about 2.5. n/K: readings that the estimate fits exactly.
            # Six standard deviations of the share.
            if abs(worst) > 0.2 + n / count + 6 * np.sqrt(part * (1 - part) / count):
                word = "narrower" if worst > 0 else "wider"
                raise InvalidInput(
                    f"the residuals are far {word} than the noise law says: its scale is wrong, "
                    "or its kind. The release noise would be wrong too. Take the law from a "
                    "reference set."
                )
