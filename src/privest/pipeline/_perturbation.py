"""Output perturbation: θ̂ from the raw measurements, plus noise for a budget tr I_z(Y) ≤ s.

**The budget.** tr I_z(Y) depends on the measurements. For K → ∞ it tends to s
(`thm:rate_attainablility`); at finite K it is above s on about half of all data sets, and no bound
holds for every Y. The realised value is in `for_data_owner`, which is private.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from privest.arrays import (
    Array,
    ArrayLike,
    Flags,
    as_array,
    as_choice,
    as_count,
    as_kind,
    as_positive,
)
from privest.errors import InvalidInput, NotReleasable, SmallSampleWarning
from privest.estimator import Estimate
from privest.linalg.batched import substitute
from privest.mechanism.inputs import real_numbers
from privest.mechanism.source import Generated, Source, as_protected, as_source, require_room
from privest.model import LinearModel
from privest.noise import Distribution, Gaussian, Independent
from privest.pipeline import _roots as roots
from privest.pipeline._noise import NoiseShape, Shape, law_of, noise_shape, noisy, widening
from privest.pipeline._report import (
    FiniteLoss,
    OwnerReport,
    finite_loss,
    owner_report,
    root_jacobian,
    simulated_ratios,
)
from privest.pipeline._roots import ROWS_AT_ONCE, Design, Roots
from privest.pipeline._score import LinearScore, Score, likelihood_score, optimal_score

Choice = Literal["optimal", "likelihood", "least_squares", "one_step"]
METHODS: dict[str, str] = {
    "optimal": "optimal score with noise",
    "likelihood": "maximum likelihood with noise (algo:mult)",
    "least_squares": "least squares with noise",
    "one_step": "one step with noise",
}

# Fewer measurements a parameter than FEW, or a row of more leverage than HIGH: the error is
# simulated, not taken from the limit. Beyond them it is above the limit by 3 to 10 % (Laplace).
FEW, HIGH = 100, 0.2
SIMULATED, LEAST, MEASUREMENTS = 1000, 100, 4 * 10**6  # data sets for that, within MEASUREMENTS
TOLD = 1.1  # times the limit: a warning from here
MEASUREMENTS_A_PARAMETER = 5  # fewer, and "for large K" has no meaning
LEVERAGE = 0.95  # the most that one row may determine
PARTS = (0.5, 0.998, 0.002)  # of the law, on which the residuals are compared with it


class OutputPerturbation:
    """z = Tθ̂ + d: estimate, then release, with d independent of the data.

        Σ ψ(y_k − H_kθ̂) H_kᵀ = 0 ,   cov d = (E ψ'²/(E ψ')²)·D₀ ,   MSE → J(ψ)·(ΣHᵀH)⁻¹

    model      y = Hθ + w with independent w_k of one distribution.
    budget     s in tr I_z(Y) ≤ s, met for K → ∞.
    score      "optimal": ψ* of least loss, for every density.
               "likelihood": `algo:mult`, where E l''² < ∞; else with a `bandwidth` h, the density
               smoothed by N(0, h²) ("best": the h of least loss).
               "least_squares": tr I_z(Y) = s for every Y. Needs a finite variance.
               "one_step": θ₀ + (E ψ*' ΣHᵀH)⁻¹ Σ ψ*(y_k − H_kθ₀) H_kᵀ, θ₀ the root of the bounded
               ψ₀: continuous in Y, for heavy tails too, and for large K as good as the root.
    noise      of the release under "least_squares", scaled to the same budget; by default Gaussian.
    shape      "trace" (least tr MSE, the default) or "paper" (D₀ = (n/s)(ΣHᵀH)⁻¹).
    weight     W for the loss tr(W·MSE); singular: only Bᵀθ is released, W = BBᵀ.

    `release` depends on the measurements by what it releases alone. Errors of `simulate` depend on
    the measurements, and are for the data owner.
    Source: `algo:mult`, `thm:rate_attainablility`, `concl:ML` (under `assum:mult`);
    section 7 of the theory page.

    >>> import privest as pv
    >>> model = pv.LinearModel([[1.0]] * 100, noise=pv.noise.Laplace(1.0))
    >>> own = OutputPerturbation(model, budget=100.0)
    >>> round(own.loss * 100, 6)  # b² + λ/2 + b√(λ + λ²/4b²), λ = 1/100
    1.105125
    """

    def __init__(
        self,
        model: LinearModel,
        budget: float,
        *,
        score: Choice = "optimal",
        bandwidth: float | str | None = None,
        noise: Distribution | None = None,
        shape: Shape = "trace",
        weight: ArrayLike | None = None,
    ) -> None:
        self.model = model
        self._options: dict[str, Any] = {
            "score": score, "bandwidth": bandwidth, "noise": noise, "shape": shape,
            "weight": weight,
        }  # fmt: skip
        self.method: str = METHODS[as_choice(score, get_args(Choice), "score")]
        self.budget: float = as_positive(budget, "budget")
        if (bandwidth is not None and score != "likelihood") or (
            noise is not None and score != "least_squares"
        ):
            raise InvalidInput(
                "bandwidth goes with score='likelihood', noise with score='least_squares'."
            )
        self.law: Distribution = _one_law(model)
        # unit information, each component of D^-½·d
        self.noise: Distribution = Gaussian(cov=1.0) if noise is None else _centred(noise)
        count, n = model.matrix.shape
        if count < MEASUREMENTS_A_PARAMETER * n:
            raise InvalidInput(
                f"{count} measurements are too few for {n} parameters: the release noise is right "
                f"for large K; at least {MEASUREMENTS_A_PARAMETER} measurements a parameter are "
                "needed."
            )
        self.design: Design = Design(model.matrix)
        self.leverage: float = _largest_leverage(self.design)
        self.shape: NoiseShape = noise_shape(self.design.triangle, self.budget, shape, weight)
        self.score: Score
        if score == "least_squares":
            self.score = LinearScore(self.law)
        elif score == "likelihood":
            self.score = likelihood_score(self.law, self.shape.weight, bandwidth)
        else:
            self.score = optimal_score(self.law, self.shape.weight)
        self._one_step = score == "one_step"

    def __repr__(self) -> str:
        score = self._options["score"]
        return f"OutputPerturbation({self.model!r}, budget={self.budget:g}, score={score!r})"

    # --- what is known before any data ------------------------------------------------------------

    @property
    def bandwidth(self) -> float | None:
        return getattr(self.score, "bandwidth", None)

    @property
    def privacy(self) -> Array:
        spread = self.noise.variance * self.noise.fisher_information  # 1 for Gaussian noise
        return self.information_scale * spread

    @property
    def information_scale(self) -> Array:
        """D with I_z(Tθ̂) = D⁻¹: the covariance of Gaussian noise."""
        return self.score.sensitivity * self.shape.unit

    @property
    def sampling(self) -> Array:
        """Covariance of Tθ̂: `limit_sampling`, or simulated where there are few measurements."""
        return self.limit_sampling if self.finite is None else self.finite.sampling

    @property
    def limit_sampling(self) -> Array:
        """Covariance of Tθ̂ for large K: E ψ²/(E ψ')²·T(HᵀH)⁻¹Tᵀ."""
        return self.score.sampling * self.shape.spread

    @cached_property
    def finite(self) -> FiniteLoss | None:
        """The error simulated from public inputs, or None where the limit for large K is used.

        For fewer than 100 measurements a parameter or a leverage above 0.2, unless the estimate is
        linear. Up to some seconds. Warns (`SmallSampleWarning`) beyond 1.1 times the limit.
        """
        count, n = self.model.matrix.shape
        if isinstance(self.score, LinearScore) or (count >= FEW * n and self.leverage <= HIGH):
            return None
        sets = max(LEAST, min(SIMULATED, MEASUREMENTS // count))
        found = finite_loss(self, np.random.default_rng([count, n]), sets)
        if found.factor > TOLD:
            warnings.warn(
                f"with {count} measurements and a largest leverage of {self.leverage:.2f} the loss "
                f"is {found.factor:.3g} times that of many measurements (simulated; loss and "
                "standard errors count it).",
                SmallSampleWarning,
                stacklevel=3,
            )
        return found

    @property
    def classical(self) -> Array:
        """T Σ_CR Tᵀ = T(HᵀH)⁻¹Tᵀ/I; zero for infinite information."""
        return self.shape.spread / self.law.fisher_information

    @property
    def private_bound(self) -> float:
        """tr WΣ_CR + (tr Ã^½)²/s: no unbiased estimate with tr I_z(Y) ≤ s has less loss."""
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

    def ratios(self, rng: np.random.Generator, data_sets: int = 1000) -> Array:
        """tr I_z(Y)/s of data sets simulated from the public model; NaN without an estimate.

        A budget divided by a quantile of this is kept so often.
        """
        return simulated_ratios(self, rng, as_count(data_sets, "data_sets", least=1))

    # --- with data --------------------------------------------------------------------------------

    def estimate(self, y: ArrayLike) -> Array:
        """θ̂ without noise, (n,) or (trials, n). Private: for the data owner only.

        Raises NumericalFailure where the estimating equation has no proper root, InvalidInput where
        the residuals do not fit the noise distribution. An equation that can have several roots is
        solved from that of ψ₀.
        """
        given = self._measurements(y)
        theta = self._estimated(np.atleast_2d(given))
        return theta if given.ndim == 2 else theta[0]

    def _estimated(self, y: Array) -> Array:
        found = self.solve(y)
        roots.require_converged(found)
        self._require_fit(y, found.theta)
        return found.theta

    def solve(self, y: Array) -> Roots:
        """The estimates of measurements y (trials, K), before any check."""
        if not self._one_step:
            return roots.solve(self.score, self.design, y)
        start = roots.convex_start(self.score, self.design, y)
        reached = start.reached + self._step(y, start.reached)
        theta = np.where(start.converged[:, None], reached, np.nan)
        return Roots(theta, start.converged, start.steps, reached)

    def _step(self, y: Array, theta: Array) -> Array:
        """(E ψ' ΣHᵀH)⁻¹ Σψ(y − Hθ)Hᵀ, (trials, n)."""
        H = self.model.matrix
        pull = self.score(y - theta @ H.T) @ H
        return self.design.back(self.design.whitened(pull)) / self.score.moments.slope

    def jacobian(self, y: Array, theta: Array) -> Array:
        """∂θ̂/∂Y (trials, n, K) at y (trials, K) with estimates θ̂. Private.

        One step from θ₀ with J₀: J = J₀ + L Hᵀdiag(ψ')(I − HJ₀), L = (E ψ' ΣHᵀH)⁻¹.
        """
        H = self.model.matrix
        if not self._one_step:
            return root_jacobian(self.score, H, y - theta @ H.T)
        start = roots.convex_start(self.score, self.design, y)
        residual = y - np.where(start.converged[:, None], start.theta, 0.0) @ H.T
        first = root_jacobian(self.score.bounded, H, residual)
        left = self.design.back(self.design.whitened(np.eye(len(H.T)))) / self.score.moments.slope
        own = left @ (H.T * self.score.slope(residual)[:, None, :])
        return np.asarray(first + own - (own @ H) @ first)

    def for_data_owner(self, y: ArrayLike) -> OwnerReport:
        """The information that a release would reveal of these measurements. Private."""
        given = self._measurements(y)
        if given.ndim != 1:
            raise InvalidInput("the report is for one data set: give measurements (K,).")
        return owner_report(self, given, self._estimated(given[None])[0])

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Estimate:
        """The release with simulated noise: for experiments."""
        source = as_source(rng)
        return self._described(self._noisy(self.estimate(y), source), source)

    def release(self, y: ArrayLike, source: Source | None = None) -> Estimate:
        """z = Tθ̂ + d of y (K,) or (trials, K), with protected noise.

        The noise is exact: every coordinate of F⁻¹Tθ̂ is shown with information at most 1.
        tr I_z(Y) ≤ s is a promise for many measurements; least squares keeps it for every Y. No
        measurement is refused: look at `for_data_owner` before. NaN is missing: its row of H is
        left out (one data set at a time).
        Raises NotReleasable, for public reasons: noise that is neither Gaussian nor Laplacian, or
        an equation that can have several roots, where the estimate jumps (use "one_step").
        """
        protected = as_protected(source)
        law_of(self.noise)
        self._require_continuous()
        given = self._as_they_come(y)
        missing = np.isnan(given)
        if missing.any():
            return self._without(missing).release(given[~missing], protected)
        _ = self.finite  # now: what can fail must not fail after the noise is drawn
        return self._described(noisy(self, given, protected), protected)

    def _require_continuous(self) -> None:
        if not (self._one_step or self.score.one_root):
            raise NotReleasable(
                f"the estimating equation can have several roots under {self.law!r}: where two are "
                "equally good the estimate jumps, and the release reveals without bound; to refuse "
                "such measurements would reveal something about them. score='one_step' is "
                "continuous in the measurements, at the same loss for many of them."
            )

    def _without(self, missing: Flags) -> OutputPerturbation:
        """The same release for a model without these rows."""
        model = self.model
        kept = LinearModel(
            model.matrix[~missing], model.noise, names=model.names, accuracy=model.accuracy
        )
        return OutputPerturbation(kept, self.budget, **self._options)

    def _described(self, estimate: Array, source: Source) -> Estimate:
        wider = 1.0 if source.simulated else widening(self.noise, source.grid)
        privacy = wider * self.privacy
        return Estimate(
            value=estimate,
            covariance=self.sampling + privacy,
            sampling=self.sampling,
            classical=self.classical,
            names=self.model.names if self.shape.whole else (),
            simulated=source.simulated,
            method=self.method,
        )

    def _noisy(self, theta: Array, source: Source) -> Array:
        """Tθ̂ + Fe, e of unit information."""
        exact = theta @ self.shape.targets.T
        # Cholesky, not eigenvectors: columns of H may differ by many orders of magnitude.
        factor = np.linalg.cholesky(self.information_scale)
        unit = substitute(factor, exact.T, lower=True).T
        if isinstance(self.noise, Gaussian):
            return np.asarray(source.add_noise(unit) @ factor.T)
        if not isinstance(source, Generated):
            raise InvalidInput(
                f"privacy noise {self.noise!r} is drawn with a numpy Generator only, for "
                "comparison. Gaussian noise takes any source."
            )
        require_room(unit)
        drawn = self.noise.sample(exact.shape, source.rng)
        return np.asarray(exact + np.sqrt(self.noise.fisher_information) * drawn @ factor.T)

    # --- checks -----------------------------------------------------------------------------------

    def _measurements(self, y: ArrayLike) -> Array:
        return self._of_size(as_array(y, "the measurements", ndim=(1, 2)))

    def _as_they_come(self, y: ArrayLike) -> Array:
        given = self._of_size(real_numbers(y))
        if given.ndim == 2 and np.isnan(given).any():
            raise InvalidInput("measurements are missing (NaN): release one data set at a time.")
        return given

    def _of_size(self, given: Array) -> Array:
        if given.ndim not in (1, 2) or given.shape[-1] != self.model.measurements:
            raise InvalidInput(
                f"the model has {self.model.measurements} measurements; "
                f"received shape {given.shape}."
            )
        return given

    @cached_property
    def _middles(self) -> Array:
        part = np.array(PARTS)
        return self.law.quantile(np.stack([(1 - part) / 2, (1 + part) / 2], axis=1))

    def _require_fit(self, y: Array, theta: Array) -> None:
        """The middle 50, 99.8 and 0.2% of the noise hold about these parts of the residuals."""
        count, n = self.model.matrix.shape
        residual = y - theta @ self.model.matrix.T
        for part, (low, high) in zip(PARTS, self._middles):
            off = ((residual > low) & (residual < high)).mean(axis=1) - part
            worst = float(off[np.abs(off).argmax()])
            # 0.2: a law off by a factor of about 2.5. n/K: measurements that the estimate fits
            # exactly. Six standard deviations of the share.
            if abs(worst) > 0.2 + n / count + 6 * np.sqrt(part * (1 - part) / count):
                word = "narrower" if worst > 0 else "wider"
                raise InvalidInput(
                    f"the residuals are far {word} than the noise distribution says: its scale "
                    "is wrong, or its kind. The privacy noise would be wrong too. Take the "
                    "distribution from a reference set."
                )


def _one_law(model: LinearModel) -> Distribution:
    noise = as_kind(model, LinearModel, "a LinearModel is needed").noise
    if not isinstance(noise, Independent) or noise.size is not None:
        raise InvalidInput(
            "this release needs independent noise of one distribution in all measurements; "
            f"received {noise!r}. Divide measurements and rows of H by known scales first."
        )
    return noise.laws[0]


def _centred(noise: Distribution) -> Distribution:
    if not np.isfinite(noise.fisher_information):
        raise InvalidInput(f"{noise!r} has infinite information: no budget allows it.")
    mean, variance = noise.mean, noise.variance
    if not (np.isfinite(variance) and abs(mean) <= 1e-9 * np.sqrt(variance)):
        raise InvalidInput(
            f"release noise needs mean 0 and a finite variance; {noise!r} has mean {mean:g} and "
            f"variance {variance:g}."
        )
    return noise


def _largest_leverage(design: Design) -> float:
    """The largest leverage; refused where a row carries a direction of θ almost alone."""
    H = design.matrix
    most, where = 0.0, 0
    for at in range(0, len(H), ROWS_AT_ONCE):
        leverage = np.sum(design.whitened(H[at : at + ROWS_AT_ONCE]) ** 2, axis=1)
        best = int(leverage.argmax())
        if leverage[best] > most:
            most, where = float(leverage[best]), at + best
    if most > LEVERAGE:
        raise InvalidInput(
            f"row {where} of H determines a direction of θ almost alone (leverage {most:.2f}; at "
            f"most {LEVERAGE:g}): the release noise is right for many measurements only. Leave out "
            "the parameter or the row, or release the measurement itself with noise."
        )
    return most
