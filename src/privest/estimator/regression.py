"""Private linear regression as a scikit-learn estimator: release y, then least squares on it."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from privest.aggregate import FeatureRows, kind_of, release_sums, split, sum_covariance, sum_design
from privest.arrays import CONFIDENCE, Array, as_choice, as_flag, as_positive, plural
from privest.errors import InvalidInput, MissingDependency, NotIdentifiable
from privest.estimator._clipped import estimate_clipped
from privest.estimator._rls import PrivateRLS
from privest.estimator.result import Estimate
from privest.ledger import Account, Budget, Cost, LedgerSource, cost_of
from privest.linalg import RunningLeastSquares
from privest.mechanism import StreamMechanism, as_range
from privest.mechanism.source import Source, as_protected, seeded
from privest.noise import Distribution, Gaussian, as_joint
from privest.privacy import PrivacyLevel, Range, StreamLevel, as_stream_level, gdp
from privest.release import Release

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

    from privest.estimator._samples import (
        BOTH_ENDS,
        NoiseLimit,
        as_weights,
        clipped_samples,
        design,
        fit_samples,
        measurements_of,
        released_samples,
    )
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "sklearn":
        raise
    raise MissingDependency(
        'PrivateLinearRegression needs scikit-learn: pip install "privest[learn]"'
    ) from missing

RESULTS = (
    "coef_", "intercept_", "result_", "covariance_", "bound_", "classical_", "efficiency_",
    "noise_variance_", "noise_upper_", "noise_source_", "n_samples_seen_",
)  # fmt: skip
CENTRED = 1e-8  # largest mean of the noise, in standard deviations: the error of a quadrature


class PrivateLinearRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc] # untyped
    """Linear regression from private releases of y, as a scikit-learn estimator.

        y = intercept + X·coef + w ,   z̃_k = √S·y_k + e_k ,   e_k ~ N(0, 1)
        cov θ̂ = ((1/S + σ²)⁻¹ HᵀH)⁻¹ ,   H = [1, X] ,   θ = (intercept, coef)

    for one level S; other levels as in `PrivateRLS`. X is public, y is sensitive.

    Parameters
        level           privacy level of each y: a number, a vector with one a sample, a stream
                        level of scalars, or a `PrivacyLevel`. An unbiased guess of a y from the
                        release alone has a standard deviation of 1/√S or more.
        noise           the variance σ² of y given X, or its centred distribution. None: errors
                        come from the residuals of the release (HC3 from 25 degrees of freedom on,
                        Student's t below; with a vector of levels REML). With a range σ² is
                        estimated with the coefficients.
        fit_intercept   whether θ has an intercept.
        random_state    seed of a simulation; a release has none.
        account         `Ledger(path).account(subject)`, charged before anything is drawn; without a
                        budget it gets what this release costs.
        simulate        True: noise of a simulation generator, which protects nothing. `fit` demands
                        an account, or this.
        range           (low, high), public: y is clipped to it before release. `fit` is maximum
                        likelihood of clipped values (levels without lags, Gaussian noise).
        form            "rows", or "aggregate": noisy sums of all samples, with a range
                        and epsilon or a number as level.
        epsilon, delta  of form "aggregate": differential privacy of one y anywhere in the range.

    Fitted
        coef_, intercept_, covariance_   θ̂ and the covariance of (intercept, coef).
        result_                          the `pv.Estimate`: names, intervals, summary.
        bound_, efficiency_              Σ_PPCR and tr bound_/tr covariance_; None where σ² is
                                         unknown, with weights, or for several levels with noise
                                         that is not Gaussian.
        classical_                       Σ_CR, the bound without privacy.
        noise_variance_, noise_upper_    σ², stated or from the release, and its upper 90% limit.
        noise_source_                    "release", or "simulation".
        n_samples_seen_, n_features_in_, feature_names_in_ (if X has names)

    `fit(X, y, sample_weight=…)`, public: weighted least squares with HC3; samples of weight 0 are
    not released.

    NaN, None and masked y are missing (which is public), infinite ones are clipped. Every `fit` is
    another release, and levels add: five folds of a cross-validation need five times the level as
    budget. `score` uses its y without protection. y is not kept. Streams: `StreamMechanism` and
    `PrivateRLS`.

    Source: `algo:PP_RLS`, `thm:opt`.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.1, 4.9, 7.0])
    >>> model = PrivateLinearRegression(level=1.0, noise=1.0, simulate=True).fit(X, y)
    >>> model.covariance_.round(5).tolist()  # (1/1 + 1)·(HᵀH)⁻¹
    [[1.4, -0.6], [-0.6, 0.4]]
    """

    result_: Estimate
    covariance_: Array
    bound_: Array | None
    classical_: Array | None
    efficiency_: float | None
    noise_variance_: float
    noise_upper_: float

    def __init__(
        self,
        level: float | PrivacyLevel | StreamLevel | None = None,
        noise: float | Distribution | None = None,
        fit_intercept: bool = True,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        simulate: bool = False,
        range: tuple[float, float] | None = None,
        account: Account | None = None,
        form: Literal["rows", "aggregate"] = "rows",
        epsilon: float | None = None,
        delta: float = 1e-6,
    ) -> None:
        self.level = level
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.simulate = simulate
        self.range = range
        self.account = account
        self.form = form
        self.epsilon = epsilon
        self.delta = delta

    # --- learning -------------------------------------------------------------------------------

    def fit(
        self, X: object, y: object, source: Source | None = None, *, sample_weight: object = None
    ) -> PrivateLinearRegression:
        """Release y and estimate from the release, forgetting earlier fits.

        X (m, n) and y (m,): arrays, or pandas or Polars frames. `source`: of protected noise.
        """
        self._require_account(source)
        form = as_choice(self.form, ("rows", "aggregate"), "form")
        rows, measurements = self._validated(X, y)
        for name in RESULTS:
            self.__dict__.pop(name, None)
        if form == "aggregate":
            return self._fit_sums(rows, measurements, source, sample_weight)
        if self.epsilon is not None:
            raise InvalidInput('epsilon is for form="aggregate": of rows state a level.')
        weight = as_weights(rows, sample_weight)
        if weight is not None:  # samples of weight 0 are missing: they are not released
            measurements = np.where(weight > 0, measurements, np.nan)
        law = self._noise_law()
        given: Any = copy(self.level)  # its caches must not change a parameter of the estimator
        level = as_stream_level(given, len(measurements), measurements=1)
        self._require_fitting(level, law, weight, measurements)
        release = self._released(level, measurements, source)
        self.n_samples_seen_ = release.steps
        rls = PrivateRLS(level, rows.shape[1], law or 0.0, classical=law is not None)
        rls.update(release, rows)
        if not rls.identifiable:
            raise self._hidden(rls)
        known = None if law is None else NoiseLimit(float(law.variance), float(law.variance))
        if self.range is not None:
            return self._conclude(*self._unclipped(release, level, rows, known))
        if known is None or weight is not None:
            samples = released_samples(release, level, rows, weight)
            value, errors, own = fit_samples(samples, None if known is None else known.variance)
            more = {"names": self._names(), "simulated": release.simulated, **errors.fields()}
            return self._conclude(Estimate(value=value, **more), known or own)
        return self._conclude(rls.result(self._names()), known)

    def _require_fitting(
        self,
        level: StreamLevel,
        law: Distribution | None,
        weight: Array | None,
        measurements: Array,
    ) -> None:
        """Refuse what `fit` has no estimate for, before anything is released."""
        if level.steps is not None and level.steps < len(measurements):
            raise InvalidInput(
                f"The level has {plural(level.steps, 'step')}; received "
                f"{len(measurements)} samples."
            )
        if self.range is not None and weight is not None:
            raise InvalidInput(
                "with a range sample_weight is not for it: errors of least squares do not hold for "
                "clipped measurements. Leave it out, or the range."
            )
        if self.range is not None and not (law is None or as_joint(law).gaussian):
            raise InvalidInput(
                "the likelihood of clipped measurements is that of Gaussian noise: give noise as a "
                "variance, or no range."
            )
        plain = law is not None and weight is None
        if level.form != "independent" and (self.range is not None or not plain):
            raise InvalidInput(
                "a level that looks back mixes measurements: state the noise, without range "
                "and weights, or take one that does not look back."
            )
        if plain:
            return
        own = np.broadcast_to(
            np.asarray(level.pointwise(0, len(measurements)), float), len(measurements)
        )
        shown = int(np.count_nonzero((own > 0) & ~np.isnan(measurements)))
        coefficients = len(self._names())
        if shown <= coefficients:
            raise InvalidInput(
                f"{plural(shown, 'sample')} for {coefficients} coefficients: nothing is left over "
                "to see the noise by. More samples are needed, fewer features, or noise stated "
                "(and no weights)."
            )

    def _fit_sums(
        self, rows: Array, measurements: Array, source: Source | None, weight: object
    ) -> PrivateLinearRegression:
        """One aggregate release (`aggregate.release_sums`), charged first, and its estimate."""
        level, noise = self.level, self.noise
        if weight is not None:
            raise InvalidInput("noisy sums take no sample_weight: leave it out.")
        laws = isinstance(noise, Distribution) or isinstance(level, PrivacyLevel | StreamLevel)
        if laws:
            raise InvalidInput("noisy sums take numbers as noise and level.")
        if isinstance(source, LedgerSource):
            raise InvalidInput("two releases of sums are one entry: give an account, not a source.")
        stated = math.nan if noise is None else as_positive(noise, "noise")  # type: ignore[arg-type]
        ends = as_range(self.range)
        if ends is None:
            raise InvalidInput("noisy sums need a range (low, high): values are clipped to it.")
        if (self.epsilon is None) == (level is None):
            raise InvalidInput("noisy sums need epsilon or level, one of them.")
        mu = exposure = None
        if self.epsilon is None:
            exposure = as_positive(level, "level")  # type: ignore[arg-type]
        else:
            mu = gdp.mu_of(self.epsilon, self.delta)
        shown, names, limits = ~np.isnan(measurements), self._names(), Range(*ends)
        kept, sums = FeatureRows(rows.shape[1], [rows[shown]]), RunningLeastSquares(rows.shape[1])
        for triangle in kept.map(partial(np.linalg.qr, mode="r")):
            sums.add_matrix(triangle)
        sums.require_full(names, f"X, {kept.count:,} samples", kept.count)
        plan = sum_design(kept, sums.upper)
        kind = kind_of(plan, limits, mu=mu, level=exposure)
        own = split(kind, kept.n, limits, mu=mu, level=exposure)
        if self.account is not None:
            if not self.account.is_open:
                self.account.open(Budget(level=own.exposure))
            mu2 = Fraction(own.stated) ** 2
            cost = Cost(own.exposure, mu2=mu2, rho=mu2 / 2, sensitivity=limits.width)
            self.account.spend(cost, start=0, stop=kept.count)
        if self.simulate:
            noises = seeded(self.random_state, "sums", *names, f"{own.level:.6g}")
        else:
            noises = as_protected(source)
        drawn = release_sums(plan, kept.parts(measurements[shown]), limits, own, noises)
        variance = drawn.variance
        freedom = drawn.freedom
        self.n_samples_seen_ = kept.count
        found = Estimate(
            value=drawn.estimate,
            covariance=sum_covariance(plan.sums.cross, plan.sums.gram, own.level, variance),
            names=names, simulated=noises.simulated, method="noisy sums",
            degrees_of_freedom=None if np.isinf(freedom).all() else freedom,
        )  # fmt: skip
        return self._conclude(found, NoiseLimit(stated, stated))

    def _unclipped(
        self, release: Release, level: StreamLevel, rows: Array, known: NoiseLimit | None
    ) -> tuple[Estimate, NoiseLimit]:
        """Maximum likelihood of clipped values."""
        span = as_range(self.range)
        assert span is not None
        start = 1.0 if known is None else known.variance
        fit = estimate_clipped(
            clipped_samples(release, level, rows, span, start),
            noise_variance=release.unit_variance,
            names=self._names(),
            variance_known=known is not None,
        )
        if known is None:
            assert fit.noise_variance is not None
            interval = fit.noise_interval(BOTH_ENDS)
            upper = fit.noise_variance if interval is None else interval[1]
            known = NoiseLimit.at(fit.noise_variance, upper, fit.added or release.unit_variance)
        return replace(fit, simulated=release.simulated), known

    def _conclude(self, found: Estimate, noise: NoiseLimit) -> PrivateLinearRegression:
        self.result_, theta = found, found.value
        self.intercept_: float = float(theta[0]) if self.fit_intercept else 0.0
        self.coef_: Array = theta[1:] if self.fit_intercept else theta
        self.covariance_, self.bound_ = found.covariance, found.bound
        self.classical_, self.efficiency_ = found.classical, found.efficiency
        self.noise_variance_, self.noise_upper_ = noise.variance, noise.upper
        self.noise_source_ = "simulation" if self.simulate else "release"
        self._growth = noise.growth
        return self

    def _released(self, level: StreamLevel, measurements: Array, source: Source | None) -> Release:
        """Release y: charged to the account first."""
        mechanism, count = StreamMechanism(level, range=self.range), len(measurements)
        if self.simulate:
            largest = f"{float(level.final_blocks().diagonal().max()):.6g}"
            source = seeded(self.random_state, "regression", largest)
            return mechanism.simulate(measurements, source)
        if self.account is not None:
            if not self.account.is_open:
                self.account.open(Budget(level=cost_of(level).largest_level))
            self.account.spend(cost_of(level, start=0, stop=count), start=0, stop=count)
        return mechanism.release(measurements, source)

    # --- using ----------------------------------------------------------------------------------

    def predict(self, X: object, return_std: bool = False) -> Array | tuple[Array, Array]:
        """ŷ = intercept_ + X·coef_; with `return_std` also the standard deviation of y_new − ŷ.

            std² = hᵀ covariance_ h + σ² ,   h = (1, x)

        An estimated σ² is replaced by `noise_upper_`: 95% intervals cover .96 to .98.
        """
        check_is_fitted(self)
        given: Array = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        mean = given @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        if math.isnan(self.noise_upper_):
            raise InvalidInput("noisy sums do not show the variance of y: state noise for this.")
        rows = design(given, len(self.covariance_) > len(self.coef_))
        spread = np.einsum("ij,jk,ik->i", rows, self.covariance_, rows, optimize=True)
        return mean, np.sqrt(self._growth * spread + self.noise_upper_)

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """Intervals θ̂ ± q·√diag covariance_, (parameters, 2), in the order of covariance_."""
        check_is_fitted(self)
        return self.result_.interval(confidence)

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        """Without the state of a generator, which would reveal the noise."""
        state: dict[str, Any] = super().__getstate__()
        if isinstance(state["random_state"], np.random.Generator | np.random.RandomState):
            state = {**state, "random_state": None}
        return state

    # --- what comes in ----------------------------------------------------------------------------

    def _validated(self, X: object, y: object) -> tuple[Array, Array]:
        """[1, X] and y as floats, NaN where missing. No message shows an entry of y."""
        given: Array = validate_data(self, X, dtype=np.float64, order="C", reset=True)
        measurements = measurements_of(y, finite=bool(self.simulate))
        check_consistent_length(given, measurements)
        return design(given, as_flag(self.fit_intercept, "fit_intercept")), measurements

    def _require_account(self, source: Source | None) -> None:
        """Refuse a release that nothing is charged for, and a simulation that would be charged."""
        charged = (self.account is not None) + isinstance(source, LedgerSource)
        if as_flag(self.simulate, "simulate"):
            if charged or source is not None:
                raise InvalidInput(
                    "account and source are those of a release, and this is a trial: leave them "
                    "out, or simulate."
                )
        elif charged != 1 or not isinstance(self.account, Account | None):
            raise InvalidInput(
                "fit releases y: give account=Ledger(path).account(subject), which it is "
                "charged to (or the source of a ledger, not both). A trial: simulate=True."
            )
        elif self.random_state is not None:
            raise InvalidInput(
                "random_state is the seed of a trial, and this is a release, whose noise comes "
                "from the operating system. simulate=True makes it a trial; else leave it None."
            )

    def _noise_law(self) -> Distribution | None:
        given = self.noise
        if given is None:
            return None
        if not isinstance(given, Distribution):
            return Gaussian(as_positive(given, "noise"))
        as_joint(given).covariance(1), as_joint(given).inverse_information(1)  # both exist
        if not abs(given.mean) <= CENTRED * math.sqrt(given.variance):
            raise InvalidInput(
                f"noise={given!r} has mean {given.mean:g}; y − E y has mean 0: shift it."
            )
        return given

    def _names(self) -> tuple[str, ...]:
        made_up = map("x{}".format, range(self.n_features_in_))
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", made_up))
        return ("intercept", *names) if self.fit_intercept else names

    def _hidden(self, rls: PrivateRLS) -> NotIdentifiable:
        """The error that names the coefficients that the samples do not identify."""
        names, hidden = list(self._names()), rls.hidden_directions
        if self.fit_intercept:
            names[0] = "the intercept"
        size = np.sqrt(np.diagonal(rls.information))  # in units where no feature's unit decides
        size = np.where(size > 0, size, size.max() or 1.0)
        directions = np.linalg.qr(hidden * size[:, None])[0]
        named = [names[j] for j in np.flatnonzero(np.linalg.norm(directions, axis=1) > 1e-6)]
        listed = ", ".join(named[:8]) + (", …" if len(named) > 8 else "")
        return NotIdentifiable(
            f"{plural(rls.steps, 'sample')} at this level do not tell apart: {listed} "
            f"({hidden.shape[1]} of {rls.parameters} directions are hidden). Columns of X are "
            "dependent, samples are too few, or their level is 0: drop features or add samples.",
            hidden,
        )
