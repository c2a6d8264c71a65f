"""Private linear regression as a scikit-learn estimator: release y, then least squares on it."""

from __future__ import annotations

import logging
import math
from copy import copy, deepcopy
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from privest.aggregate import (
    FeatureRows,
    kind_of,
    release_sums,
    split,
    sum_covariance,
    sum_design,
)
from privest.arrays import CONFIDENCE, Array, as_choice, as_flag, as_positive
from privest.errors import InvalidInput, MissingDependency, NotIdentifiable, NumericalFailure
from privest.estimator._clipped import ClippedResult, estimate_clipped
from privest.estimator._rls import PrivateRLS
from privest.estimator.inference._errors import reference_fit, same_rows
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
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        check_X_y,
        validate_data,
    )

    from privest.estimator._history import (
        BOTH_ENDS,
        Beside,
        ClippedHistory,
        NoiseLimit,
        RowHistory,
        beside_rows,
        design,
        limit_at,
        limit_of,
        readings_of,
    )
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "sklearn":
        raise
    raise MissingDependency(
        'PrivateLinearRegression needs scikit-learn: pip install "privest[learn]"'
    ) from missing

RESULTS = ("coef_", "intercept_", "result_", "covariance_", "bound_", "classical_", "efficiency_")
STATE = ("_rls", "_mechanism", "_source", "_clipped", "_history")
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
        noise           the variance σ² of y given X, or its centred distribution. None (and no
                        reference): errors come from the residuals of the release (HC3 from 25
                        degrees of freedom on, Student's t below; with a vector of levels REML).
                        With a range σ² is estimated with the coefficients.
        reference       (X_ref, y_ref), PUBLIC: σ² is its residual variance, pooled with the release
                        where there is one level; intervals are Student's t. Private rows are
                        refused in a simulation; a release refuses the same memory, and logs equal
                        rows.
        fit_intercept   whether θ has an intercept.
        random_state    seed of a simulation; a release has none.
        account         `Ledger(path).account(subject)`, charged before anything is drawn; without a
                        budget it gets what this release costs.
        simulate        True: noise of a simulation generator, which protects nothing. `fit` demands
                        an account, or this.
        range           (low, high), public: y is clipped to it before release; θ̂ is then maximum
                        likelihood of clipped measurements. For levels without lags, Gaussian noise.
        form            "rows", or "aggregate": noisy sums of all samples (docs/aggregate.md), `fit`
                        only, with a range and epsilon or a number as level.
        epsilon, delta  of form "aggregate": differential privacy of one y anywhere in the range.

    Fitted
        coef_, intercept_, covariance_   θ̂ and the covariance of (intercept, coef).
        result_                          the `pv.Estimate`: names, intervals, summary.
        bound_, efficiency_              Σ_PPCR and tr bound_/tr covariance_; None where σ² is
                                         unknown, or with weights or groups.
        classical_                       Σ_CR, the bound without privacy.
        noise_variance_, noise_upper_    σ², stated, pooled or from the release, and its upper 90%
                                         limit.
        noise_source_                    "release", or "simulation".
        n_samples_seen_, n_features_in_, feature_names_in_ (if X has names)

    `fit(X, y, sample_weight=…, groups=…)`, both public: weighted least squares with HC3, samples of
    weight 0 are not released; rows of a group may be correlated: CR2 errors.

    NaN, None and masked y are missing (which is public), infinite ones are clipped. Every `fit` is
    another release, and levels add: five folds of a cross-validation need five times the level as
    budget. `score` uses its y without protection. y is not kept, except the last b measurements of
    a level with b lags, until it ends or `forget` is called; pickles and copies leave them out.

    Source: `algo:PP_RLS`, `thm:opt`.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.1, 4.9, 7.0])
    >>> model = PrivateLinearRegression(level=1.0, noise=1.0, simulate=True).fit(X, y)
    >>> model.covariance_.round(5).tolist()  # (1/1 + 1)·(HᵀH)⁻¹
    [[1.4, -0.6], [-0.6, 0.4]]
    """

    def __init__(
        self,
        level: float | PrivacyLevel | StreamLevel | None = None,
        noise: float | Distribution | None = None,
        reference: tuple[Any, Any] | None = None,
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
        self.reference = reference
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
        self,
        X: object,
        y: object,
        source: Source | None = None,
        *,
        sample_weight: object = None,
        groups: object = None,
    ) -> PrivateLinearRegression:
        """Release y and estimate from the release, forgetting earlier fits.

        X (m, n) and y (m,): arrays, or pandas or Polars frames. `source`: of protected noise.
        """
        self._require_account(source)
        form = as_choice(self.form, ("rows", "aggregate"), "form")
        rows, readings = self._validated(X, y, reset=True)
        if form == "aggregate":
            return self._fit_sums(rows, readings, source, sample_weight, groups)
        self._require_public(rows, readings)
        beside = beside_rows(given=rows, weight=sample_weight, groups=groups)
        self._begin(len(readings), beside)
        unknown = "_clipped" in vars(self) and self._clipped.unknown
        if ("_history" in vars(self) or unknown) and beside.shown <= self._rls.parameters:
            raise self._too_few(beside.shown)  # before anything is released
        self._learn(rows, readings, source, beside)
        if "coef_" not in vars(self):
            raise self._hidden()
        return self

    @available_if(lambda self: self.form == "rows")  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: object,
        y: object,
        source: Source | None = None,
        *,
        sample_weight: object = None,
        groups: object = None,
    ) -> PrivateLinearRegression:
        """Go on with the stream: release these measurements and add them to the estimate.

        In pieces the result is that of one `fit`. Until θ is identifiable there are no coef_.
        Weights and groups are given in every call, or in none.
        """
        self._require_account(source)
        first = not hasattr(self, "_rls")
        rows, readings = self._validated(X, y, reset=first)
        self._require_public(rows, readings)
        beside = beside_rows(given=rows, weight=sample_weight, groups=groups)
        if first:
            self._begin(None, beside)
        changed = [
            name
            for name, value in self._began_with.items()
            if not (getattr(self, name) is value or _equal_numbers(getattr(self, name), value))
        ]
        if changed:
            raise InvalidInput(
                f"{', '.join(changed)} changed since the stream began. fit starts a new one."
            )
        self._learn(rows, readings, source, beside)
        return self

    def forget(self) -> PrivateLinearRegression:
        """Drop the measurements that a level with lags keeps: `partial_fit` then refuses."""
        self._drop("_mechanism")
        return self

    def _begin(self, samples: int | None, beside: Beside) -> None:
        if self.epsilon is not None:
            raise InvalidInput('epsilon is for form="aggregate": of rows state a level.')
        self._drop(*RESULTS, *STATE)
        self._began_with = {
            k: v for k, v in self.get_params(deep=False).items() if k != "random_state"
        }
        # Copied: what it remembers must not change a parameter of the estimator.
        given: Any = copy(self.level)  # None is refused there
        level = as_stream_level(given, samples, measurements=1)
        law, self._freedom = self._noise_law()
        unknown = law is None
        law = Gaussian(1.0) if law is None else law  # weighs all samples alike
        parameters = self.n_features_in_ + bool(self.fit_intercept)
        rls = PrivateRLS(level, parameters, law, classical=True)
        self._floor = rls  # the recursion with Σ = 1/I in place of cov w: its covariance is bound_
        if not isinstance(law, Gaussian):
            self._floor = PrivateRLS(level, parameters, Gaussian(1 / law.fisher_information))
        if self.simulate:
            self._source = seeded(self.random_state, "regression", level.fingerprint)
        self._mechanism, self._rls = StreamMechanism(level, range=self.range), rls
        if self._mechanism.range is not None:
            if not beside.nothing:
                raise InvalidInput(
                    "with a range sample_weight and groups are not for it: errors of least squares "
                    "do not hold for clipped readings. Leave them out, or the range."
                )
            self._clipped = ClippedHistory(level, self._mechanism.range, law, unknown=unknown)
        elif unknown or not beside.nothing:
            self._history = RowHistory(level, None if unknown else float(law.variance))
        self.noise_variance_ = self.noise_upper_ = float(law.variance)
        self.noise_source_ = "simulation" if self.simulate else "release"

    def _fit_sums(
        self, rows: Array, readings: Array, source: Source | None, *beside: object
    ) -> PrivateLinearRegression:
        """One aggregate release (`aggregate.release_sums`), charged first, and its estimate."""
        level, noise = self.level, self.noise
        if any(one is not None for one in beside):
            raise InvalidInput("noisy sums take no sample_weight and no groups: leave them out.")
        laws = isinstance(noise, Distribution) or isinstance(level, PrivacyLevel | StreamLevel)
        if laws or self.reference is not None:
            raise InvalidInput("noisy sums take numbers as noise and level, and no reference.")
        if isinstance(source, LedgerSource):
            raise InvalidInput("two releases of sums are one entry: give an account, not a source.")
        stated = math.nan if noise is None else as_positive(noise, "noise")  # type: ignore[arg-type]
        ends = as_range(self.range)
        if ends is None:
            raise InvalidInput("noisy sums need a range (low, high): values are clipped to it.")
        if (self.epsilon is None) == (level is None):
            raise InvalidInput("noisy sums need epsilon or level, one of them.")
        if self.epsilon is None:
            promise = {"level": as_positive(level, "level")}  # type: ignore[arg-type]
        else:
            promise = {"mu": gdp.mu_of(self.epsilon, self.delta)}
        self._drop(*RESULTS, *STATE)
        shown, names, limits = ~np.isnan(readings), tuple(self._names()), Range(*ends)
        kept, sums = FeatureRows(rows.shape[1], [rows[shown]]), RunningLeastSquares(rows.shape[1])
        for triangle in kept.map(partial(np.linalg.qr, mode="r")):
            sums.add_matrix(triangle)
        sums.require_full(names, f"X, {kept.count:,} samples", kept.count)
        plan = sum_design(kept, sums.upper)
        own = split(kind_of(plan, limits, **promise), kept.n, limits, **promise)
        if self.account is not None:
            if not self.account.is_open:
                self.account.open(Budget(level=own.exposure))
            mu2 = Fraction(own.stated) ** 2
            cost = Cost(own.exposure, mu2=mu2, rho=mu2 / 2, sensitivity=limits.width)
            self.account.spend(cost, start=0, stop=kept.count)
        noises = (
            seeded(self.random_state, "sums", *names) if self.simulate else as_protected(source)
        )
        drawn = release_sums(plan, kept.parts(readings[shown]), limits, own, noises)
        variance, freedom = drawn.chosen()
        self.noise_variance_ = self.noise_upper_ = stated
        self.noise_source_ = "simulation" if self.simulate else "release"
        self.n_samples_seen_, self._growth = kept.count, 1.0
        self._conclude(Estimate(
            value=drawn.estimate,
            covariance=sum_covariance(plan.sums.cross, plan.sums.gram, own.level, variance),
            names=names, simulated=noises.simulated, method="noisy sums",
            degrees_of_freedom=None if np.isinf(freedom).all() else freedom,
        ))  # fmt: skip
        return self

    def _drop(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    def _too_few(self, shown: int) -> InvalidInput:
        samples = f"{shown} sample{'' if shown == 1 else 's'}"
        return InvalidInput(
            f"{samples} for {self._rls.parameters} coefficients: nothing is left over to see the "
            "noise by. More samples are needed, fewer features, or noise stated (and neither "
            "weights nor groups)."
        )

    def _learn(self, rows: Array, readings: Array, source: Source | None, beside: Beside) -> None:
        """Release, and learn from the release alone; where this raises, nothing changed."""
        rls, floor = self._rls, self._floor
        mechanism = copy(self._continued())  # kept where all goes well
        clipped = copy(vars(self).get("_clipped"))
        history = copy(vars(self).get("_history"))
        if history is None and not beside.nothing:
            raise InvalidInput(
                "sample_weight and groups are given for all readings of a stream, or for none."
            )
        readings = beside.without_unweighted(readings)
        with rls.whole_or_nothing(), floor.whole_or_nothing():
            release = self._released(mechanism, readings, source)
            rls.update(release, rows)
            if floor is not rls:
                floor.update(release, rows)
            if clipped is not None:
                clipped.add(release, rows)
            if history is not None:
                history.add(release, rows, beside)
            found = self._found(clipped, history) if rls.identifiable else None
        if clipped is not None:
            self._clipped = clipped
        if history is not None:
            self._history = history
        if rls.level.steps != mechanism.steps:
            self._mechanism = mechanism
        else:
            self.forget()
        self.n_samples_seen_ = rls.steps
        if found is None:
            self._drop(*RESULTS)
            return
        noise = self._noise_limit(found, history)
        self.noise_variance_, self.noise_upper_ = noise.variance, noise.upper
        self._growth = noise.growth
        self._conclude(found)

    def _conclude(self, found: Estimate) -> None:
        self.result_, theta = found, found.value
        self.intercept_ = float(theta[0]) if self.fit_intercept else 0.0
        self.coef_ = theta[1:] if self.fit_intercept else theta
        self.covariance_, self.bound_ = found.covariance, found.bound
        self.classical_, self.efficiency_ = found.classical, found.efficiency

    def _noise_limit(self, found: Estimate, history: RowHistory | None) -> NoiseLimit:
        """σ² as stated or found, with the limit that predictions need."""
        reference, stated = self._freedom, float(self._rls.noise.covariance(1).diagonal()[0])
        if isinstance(found, ClippedResult) and found.noise_variance is not None:
            interval = found.noise_interval(BOTH_ENDS)
            upper = found.noise_variance if interval is None else interval[1]
            return limit_at(found.noise_variance, upper, found.added or self._rls.unit_variance)
        if reference is None:
            return NoiseLimit(stated, stated) if history is None else history.noise
        level = self._rls.one_level
        if history is None and not isinstance(found, ClippedResult) and level is not None:
            variance, freedom = self._rls.pooled(reference)
            return limit_of(variance, freedom, self._rls.unit_variance / level)
        return limit_of(stated, reference)

    def _released(
        self, mechanism: StreamMechanism, readings: Array, source: Source | None
    ) -> Release:
        if not self.simulate:
            if self.account is not None:
                _charge(self.account, mechanism, len(readings))
            return mechanism.release(readings, source)
        if not hasattr(self, "_source"):  # loaded from a pickle
            self._source = seeded(None)
        return mechanism.simulate(readings, self._source)

    def _found(self, clipped: ClippedHistory | None, history: RowHistory | None) -> Estimate | None:
        """The estimate; None where clipping hides a coefficient, or rows are too few."""
        if history is not None:
            if history.rows <= self._rls.parameters:
                return None
            return history.fit(tuple(self._names()), simulated=self._rls.simulated)
        if clipped is not None:
            if clipped.unknown and clipped.rows <= self._rls.parameters:
                clipped.hidden = self._too_few(clipped.rows)
                return None
            try:
                fit = estimate_clipped(
                    clipped.blocks,
                    noise_variance=self._rls.unit_variance,
                    reference=self._freedom,
                    names=tuple(self._names()),
                    variance_known=not clipped.unknown,
                )
                return replace(fit, simulated=self._rls.simulated)
            except (NotIdentifiable, NumericalFailure) as why:
                clipped.hidden = why
                return None
        found = self._rls.result(self._names(), reference=self._freedom)
        if self._floor is self._rls:
            return found
        return replace(found, bound=self._floor.result().bound)

    def _continued(self) -> StreamMechanism:
        """The mechanism at the next step, made anew where it needs no earlier measurement."""
        kept: StreamMechanism | None = vars(self).get("_mechanism")
        if kept is not None:
            return kept
        level, steps = self._rls.level, self._rls.steps
        if level.form != "independent" and level.steps != steps:
            raise InvalidInput(
                "This level looks back, and the earlier readings are gone (they are dropped by "
                "forget() and never pickled or copied). fit starts a new stream."
            )
        mechanism = StreamMechanism(level, range=self.range)
        mechanism.steps = steps
        return mechanism

    # --- using ----------------------------------------------------------------------------------

    def predict(self, X: object, return_std: bool = False) -> Array | tuple[Array, Array]:
        """ŷ = intercept_ + X·coef_; with `return_std` also the standard deviation of y_new − ŷ.

            std² = hᵀ covariance_ h + σ² ,   h = (1, x)

        An estimated σ² is replaced by `noise_upper_`: 95% intervals cover .96 to .98.
        """
        self._require_fitted()
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
        self._require_fitted()
        return self.result_.interval(confidence)

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in vars(self)

    def __copy__(self) -> PrivateLinearRegression:
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """Without measurements, and without the generator state that would reveal the noise."""
        state: dict[str, Any] = super().__getstate__()
        kept = {name: v for name, v in state.items() if name not in ("_mechanism", "_source")}
        if isinstance(kept["random_state"], np.random.Generator | np.random.RandomState):
            kept["random_state"] = None  # its state would give the noise away
        return kept

    # --- what comes in ----------------------------------------------------------------------------

    def _validated(self, X: object, y: object, *, reset: bool) -> tuple[Array, Array]:
        """[1, X] and y as floats, NaN where missing. No message shows an entry of y."""
        given: Array = validate_data(self, X, dtype=np.float64, order="C", reset=reset)
        readings = readings_of(y, finite=bool(self.simulate))
        check_consistent_length(given, readings)
        return design(given, self.fit_intercept), readings

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

    def _noise_law(self) -> tuple[Distribution | None, int | None]:
        given = self.noise
        if given is None and self.reference is None:
            return None, None
        if self.reference is not None:
            if given is not None:
                raise InvalidInput("Give noise or reference, not both.")
            variance, freedom = reference_fit(*self._reference_rows())
            return Gaussian(variance), freedom
        if not isinstance(given, Distribution):
            return Gaussian(as_positive(given, "noise")), None  # type: ignore[arg-type]
        as_joint(given).covariance(1), as_joint(given).inverse_information(1)  # both exist
        if not abs(given.mean) <= CENTRED * math.sqrt(given.variance):
            raise InvalidInput(
                f"noise={given!r} has mean {given.mean:g}; y − E y has mean 0: shift it."
            )
        return given, None

    def _reference_rows(self) -> tuple[Array, Array]:
        try:
            given, response = self.reference  # type: ignore[misc]
        except (TypeError, ValueError):
            raise InvalidInput("reference must be a pair (X_ref, y_ref).") from None
        given, response = check_X_y(given, response, dtype=np.float64, y_numeric=True)
        if given.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"reference has {given.shape[1]} features; X has {self.n_features_in_}."
            )
        return design(given, self.fit_intercept), response

    def _require_public(self, rows: Array, readings: Array) -> None:
        """Refuse a reference that is the private data.

        A release must not depend on what y is: it refuses the same memory only, and warns.
        """
        if self.reference is None or self.noise is not None:
            return
        given, response = self._reference_rows()
        same = np.shares_memory(response, readings)
        if not same and not same_rows(given, response, rows, readings):
            return
        told = (
            "the rows of reference are rows of the private data: the noise variance would come "
            "from readings that no noise protects. Give another, public data set, or noise."
        )
        if same or self.simulate:
            raise InvalidInput(told)
        logging.getLogger("privest").warning("privest: %s", told)

    # --- what is known ----------------------------------------------------------------------------

    def _require_fitted(self) -> None:
        if hasattr(self, "_rls") and "coef_" not in vars(self):
            raise self._hidden()
        check_is_fitted(self)

    def _names(self) -> list[str]:
        made_up = map("x{}".format, range(self.n_features_in_))
        names = [str(name) for name in getattr(self, "feature_names_in_", made_up)]
        return ["intercept", *names] if self.fit_intercept else names

    def _hidden(self) -> InvalidInput | NotIdentifiable | NumericalFailure:
        rls, names = self._rls, self._names()
        if rls.identifiable and "_history" in vars(self):
            return self._too_few(self._history.rows)
        if rls.identifiable:
            assert self._clipped.hidden is not None
            return self._clipped.hidden
        if rls.parameters > self.n_features_in_:
            names[0] = "the intercept"
        hidden = rls.hidden_directions
        size = np.sqrt(np.diagonal(rls.information))  # in units where no feature's unit decides
        size = np.where(size > 0, size, size.max() or 1.0)
        directions = np.linalg.qr(hidden * size[:, None])[0]
        named = [names[j] for j in np.flatnonzero(np.linalg.norm(directions, axis=1) > 1e-6)]
        listed = ", ".join(named[:8]) + (", …" if len(named) > 8 else "")
        samples = f"{rls.steps} sample{'' if rls.steps == 1 else 's'}"
        return NotIdentifiable(
            f"{samples} at this level do not tell apart: {listed} ({hidden.shape[1]} of "
            f"{rls.parameters} directions are hidden). Columns of X are dependent, samples are too "
            "few, or their level is 0: drop features or add samples.",
            hidden,
        )


def _charge(account: Account, mechanism: StreamMechanism, count: int) -> None:
    """Charge the next `count` measurements: then they may be drawn."""
    level, first = mechanism.level, mechanism.steps
    if not account.is_open:
        account.open(Budget(level=cost_of(level).largest_level))
    cost = cost_of(level, start=first, stop=first + count)
    account.spend(cost, start=first, stop=first + count)


def _equal_numbers(one: object, other: object) -> bool:
    return bool(np.isscalar(one) and np.isscalar(other) and one == other)
