"""Private linear regression as a scikit-learn estimator: release y, then least squares on it."""

from __future__ import annotations

import math
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from privest.arrays import CONFIDENCE, Array, as_positive
from privest.errors import InvalidInput, MissingDependency, NotIdentifiable
from privest.estimator._reference import reference_fit, same_rows
from privest.estimator._rls import PrivateRLS
from privest.estimator.result import Result
from privest.mechanism import StreamMechanism
from privest.mechanism.source import seeded
from privest.noise import GaussianLaw, ScalarLaw, as_joint
from privest.privacy import PrivacyLevel, SequentialLevel, as_stream_level

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import (
        assert_all_finite,
        check_consistent_length,
        check_is_fitted,
        check_X_y,
        column_or_1d,
        validate_data,
    )
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "sklearn":
        raise
    raise MissingDependency(
        'PrivateLinearRegression needs scikit-learn: pip install "privest[learn]"'
    ) from missing

RESULTS = ("coef_", "intercept_", "result_", "covariance_", "bound_", "classical_", "efficiency_")
CENTRED = 1e-8  # largest mean of the noise, in standard deviations: the error of a quadrature


class PrivateLinearRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc] # untyped
    """Linear regression that learns from private releases of y, never from y itself.

        y = intercept + X·coef + w ,   z̃_k = √S·y_k + e_k ,   e_k ~ N(0, 1)
        cov θ̂ = ((1/S + σ²)⁻¹ HᵀH)⁻¹ ,   H = [1, X] ,   θ = (intercept, coef)

    for one level S for all; with other levels as in `PrivateRLS`. X is public, y is sensitive.

    Parameters
        level           what may be learnt about each y: a number (Fisher level S: no unbiased guess
                        of a reading is better than ± 1/√S), a vector with one level a sample, an
                        `EndlessLevel` or a `StreamLevel` of scalar readings, or a `PrivacyLevel`
                        that is a number or (`fit` only) a vector. None: `fit` refuses.
        noise           the variance σ² of y given X, or its law: a centred law of `privest.noise`.
        reference       (X_ref, y_ref), a PUBLIC data set. Used if noise is None: σ² is the
                        residual variance RSS/(m − rank H) of ordinary least squares there; with
                        one level for all it is pooled with what the release scatters, and
                        intervals are those of Student's t (`result_.degrees_of_freedom`). Give it
                        in the units that `fit` sees; a pipeline does not transform it, which does
                        no harm to scaled or, with an intercept, shifted columns. The private rows
                        themselves are refused: σ² from readings that no noise protects would leak.
        fit_intercept   whether θ has an intercept; without one intercept_ = 0.
        random_state    seed of the simulated noise (None: fresh). Whoever knows it can take the
                        noise off again: for experiments only. A whole number gives noise that is a
                        function of it and of each reading and its place: no two different releases
                        share it.

    Fitted
        coef_, intercept_                      θ̂: unbiased.
        result_                                all of what follows as one `estimator.Result`, with
                                               names, intervals and a summary.
        covariance_                            of (intercept, coef), intercept first; of coef alone
                                               if fit_intercept=False.
        bound_                                 the floor Σ_PPCR for every mechanism within the level
                                               and every unbiased estimate, in the same order.
        classical_                             Σ_CR, the floor without privacy, in the same order.
        efficiency_                            tr bound_ / tr covariance_; 1 for Gaussian noise.
        noise_variance_                        σ²: of the law, or of reference and release pooled.
        noise_source_                          "simulation".
        n_samples_seen_, n_features_in_, feature_names_in_ (if X has names)

    Guarantees: for Gaussian noise efficient, covariance_ = bound_ (`thm:opt`). For another law
    covariance_ is still exact (with the variance of the law), above bound_, which uses its Fisher
    information; intervals are then exact in the limit of many samples.

    **This version has no safe noise yet**: the noise comes from a simulation generator. Do not
    publish what it gives as a release.
    Every `fit` and `partial_fit` is another release of the readings it is given, and levels add:
    fitting the same y twice, or cross-validating over five folds (each y in four fits), spends
    two or four times the level. `score` looks at the y it is given without any protection: its
    result belongs to the data holder, unless that y is public.

    y is not kept. Only a level that looks back b steps needs the last b readings (a dense one:
    all of them) for the next `partial_fit`; the estimator holds them until the level ends or
    `forget` is called. They, and the state of the noise generator, are left out of pickles and
    deep copies: a loaded model predicts, and goes on learning with fresh noise if its level does
    not look back.

    Raises NotIdentifiable, naming the features, where X (or the level) does not tell them apart.
    Source: `algo:PP_RLS`, `thm:opt`.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.1, 4.9, 7.0])
    >>> model = PrivateLinearRegression(level=1.0, noise=1.0, random_state=0).fit(X, y)
    >>> model.covariance_.round(12).tolist()  # (1/1 + 1)·(HᵀH)⁻¹
    [[1.4, -0.6], [-0.6, 0.4]]
    >>> model.efficiency_, model.classical_.round(12).tolist()
    (1.0, [[0.7, -0.3], [-0.3, 0.2]])
    >>> open_ = PrivateLinearRegression(level=1e16, noise=1.0).fit(X, y)  # no privacy
    >>> round(open_.intercept_, 4), open_.coef_.round(4).tolist()
    (1.03, [1.98])
    """

    def __init__(
        self,
        level: float | PrivacyLevel | SequentialLevel | None = None,
        noise: float | ScalarLaw | None = None,
        reference: tuple[Any, Any] | None = None,
        fit_intercept: bool = True,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> None:
        self.level = level
        self.noise = noise
        self.reference = reference
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    # --- learning -------------------------------------------------------------------------------

    def fit(self, X: object, y: object) -> PrivateLinearRegression:
        """Release y (simulated noise) and estimate from the release, forgetting earlier fits.

        X (m, n) and y (m,): arrays, or pandas or Polars frames and series, without NaN.
        Raises NotIdentifiable if X and the level do not show every coefficient.
        """
        rows, readings = self._validated(X, y, reset=True)
        self._require_public(rows, readings)
        self._begin(len(readings))
        self._learn(rows, readings)
        if not self._rls.identifiable:
            raise self._hidden()
        return self

    def partial_fit(self, X: object, y: object) -> PrivateLinearRegression:
        """Go on with the stream: release these readings and add them to what is known.

        In pieces, the result is that of one `fit` on everything (up to rounding). The level goes on
        where it was; a reading that is fed twice is released twice. Until every coefficient is
        identifiable there are no coef_ and no predictions; `predict` says what is hidden.
        The parameters are those of the first call; changed ones are refused.
        """
        first = not hasattr(self, "_rls")
        rows, readings = self._validated(X, y, reset=first)
        self._require_public(rows, readings)
        if first:
            self._begin(None)
        else:
            self._require_same_parameters()
        self._learn(rows, readings)
        return self

    def forget(self) -> PrivateLinearRegression:
        """Drop the readings that a level with lags keeps for the next `partial_fit`.

        It refuses to go on after that. With a level that does not look back nothing is kept, and
        nothing changes.
        """
        self.__dict__.pop("_mechanism", None)
        return self

    def _begin(self, samples: int | None) -> None:
        """A new stream. `samples`: of the whole data set, None for one that comes in pieces."""
        for name in (*RESULTS, "_rls", "_mechanism"):
            self.__dict__.pop(name, None)
        self._began_with = {
            k: v for k, v in self.get_params(deep=False).items() if k != "random_state"
        }
        # Copied: what it remembers must not change a parameter of the estimator.
        given: Any = copy(self.level)  # None is refused there
        level = as_stream_level(given, samples, readings=1)
        law, self._freedom = self._noise_law()
        parameters = self.n_features_in_ + bool(self.fit_intercept)
        rls = PrivateRLS(level, parameters, law, classical=True)
        self._floor = rls  # the recursion with Σ = 1/I in place of cov w: its covariance is bound_
        if not isinstance(law, GaussianLaw):
            self._floor = PrivateRLS(level, parameters, GaussianLaw(1 / law.fisher_information))
        self._source = seeded(self.random_state, "regression", level.fingerprint)
        self._mechanism, self._rls = StreamMechanism(level), rls
        self.noise_variance_, self.noise_source_ = float(law.variance), "simulation"

    def _learn(self, rows: Array, readings: Array) -> None:
        """The readings end here: only their release goes on. Where this raises, nothing changed."""
        rls, floor = self._rls, self._floor
        if not hasattr(self, "_source"):  # loaded from a pickle
            self._source = seeded(None)
        mechanism = copy(self._continued())  # kept where all goes well
        with rls.whole_or_nothing(), floor.whole_or_nothing():
            release = mechanism.simulate(readings, self._source)
            rls.update(release, rows)
            if floor is not rls:
                floor.update(release, rows)
            found = self._found() if rls.identifiable else None
        if rls.level.steps != mechanism.steps:
            self._mechanism = mechanism
        else:
            self.forget()
        self.n_samples_seen_ = rls.steps
        if found is None:
            return
        if self._freedom is not None:
            self.noise_variance_ = rls.pooled(self._freedom)[0]
        self.result_, theta = found, found.estimate
        self.intercept_ = float(theta[0]) if self.fit_intercept else 0.0
        self.coef_ = theta[1:] if self.fit_intercept else theta
        self.covariance_, self.bound_ = found.covariance, found.bound
        self.classical_, self.efficiency_ = found.classical, found.efficiency

    def _found(self) -> Result:
        found = self._rls.result(self._names(), reference=self._freedom)
        if self._floor is self._rls:
            return found
        return replace(found, bound=self._floor.covariance)

    def _continued(self) -> StreamMechanism:
        """The mechanism at the next step, made anew where it needs no earlier reading."""
        kept: StreamMechanism | None = vars(self).get("_mechanism")
        if kept is not None:
            return kept
        level, steps = self._rls.level, self._rls.steps
        if level.form != "independent" and level.steps != steps:
            raise InvalidInput(
                "This level looks back, and the earlier readings are gone (they are dropped by "
                "forget() and never pickled or copied). fit starts a new stream."
            )
        mechanism = StreamMechanism(level)
        mechanism.steps = steps
        return mechanism

    # --- using ----------------------------------------------------------------------------------

    def predict(self, X: object, return_std: bool = False) -> Array | tuple[Array, Array]:
        """ŷ = intercept_ + X·coef_; with `return_std` also the standard deviation of y_new − ŷ.

            std² = hᵀ covariance_ h + σ² ,   h = (1, x)

        as in scikit-learn's BayesianRidge; √(std² − noise_variance_) is the standard error of the
        mean at x. Raises NotIdentifiable while some coefficient is hidden.
        """
        self._require_fitted()
        given: Array = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        mean = given @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        rows = _design(given, len(self.covariance_) > len(self.coef_))
        spread = np.einsum("ij,jk,ik->i", rows, self.covariance_, rows, optimize=True)
        return mean, np.sqrt(spread + self.noise_variance_)

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """Intervals θ̂ ± q·√diag covariance_, (parameters, 2), in the order of covariance_.

        q is the normal quantile: each covers with `confidence`, exactly for Gaussian noise of known
        variance. With a reference set σ² is itself an estimate, and q is that of Student's t with
        `result_.degrees_of_freedom` (`estimator._reference`).

        >>> model = PrivateLinearRegression(level=1e16, noise=4.0, fit_intercept=False)
        >>> model.fit([[1.0]] * 4, [2.0, 4.0, 3.0, 3.0]).interval().round(2)
        array([[1.04, 4.96]])
        """
        self._require_fitted()
        return self.result_.interval(confidence)

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in vars(self)

    def __copy__(self) -> PrivateLinearRegression:
        """On its own, as a deep copy is: what one learns afterwards the other does not."""
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """Without readings, and without the state that would give the noise away."""
        state: dict[str, Any] = super().__getstate__()
        kept = {name: v for name, v in state.items() if name not in ("_mechanism", "_source")}
        if isinstance(kept["random_state"], np.random.Generator | np.random.RandomState):
            kept["random_state"] = None  # its state would give the noise away
        return kept

    # --- what comes in ----------------------------------------------------------------------------

    def _validated(self, X: object, y: object, *, reset: bool) -> tuple[Array, Array]:
        """[1, X] and y as finite floats. No message shows an entry of y."""
        given: Array = validate_data(self, X, dtype=np.float64, order="C", reset=reset)
        readings = _readings(y)
        check_consistent_length(given, readings)
        return _design(given, self.fit_intercept), readings

    def _noise_law(self) -> tuple[ScalarLaw, int | None]:
        """The law of y given X, from what is public; the degrees of freedom of its variance."""
        given = self.noise
        if given is None and self.reference is None:
            raise InvalidInput(
                "noise and reference are both None. Give the variance of y given X, a law of "
                "privest.noise, or reference=(X_ref, y_ref), a public data set to estimate it "
                "from. It is never estimated from the private data: that would leak."
            )
        if self.reference is not None:
            if given is not None:
                raise InvalidInput("Give noise or reference, not both.")
            variance, freedom = reference_fit(*self._reference_rows())
            return GaussianLaw(variance), freedom
        if not isinstance(given, ScalarLaw):
            return GaussianLaw(as_positive(given, "noise")), None  # type: ignore[arg-type]
        as_joint(given).covariance(1), as_joint(given).inverse_information(1)  # both exist
        if not abs(given.mean) <= CENTRED * math.sqrt(given.variance):
            raise InvalidInput(
                f"noise={given!r} has mean {given.mean:g}; y − E y has mean 0: shift it."
            )
        return given, None

    def _reference_rows(self) -> tuple[Array, Array]:
        """[1, X_ref] and y_ref."""
        try:
            given, response = self.reference  # type: ignore[misc]
        except (TypeError, ValueError):
            raise InvalidInput("reference must be a pair (X_ref, y_ref).") from None
        given, response = check_X_y(given, response, dtype=np.float64, y_numeric=True)
        if given.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"reference has {given.shape[1]} features; X has {self.n_features_in_}."
            )
        return _design(given, self.fit_intercept), response

    def _require_public(self, rows: Array, readings: Array) -> None:
        """Refuse a reference that is the private data: σ² would come from unprotected readings."""
        if self.reference is None or self.noise is not None:
            return
        given, response = self._reference_rows()
        if same_rows(given, response, rows, readings):
            raise InvalidInput(
                "the rows of reference are rows of the private data: the noise variance would come "
                "from readings that no noise protects. Give another, public data set, or noise."
            )

    # --- what is known ----------------------------------------------------------------------------

    def _require_same_parameters(self) -> None:
        changed = [
            name
            for name, value in self._began_with.items()
            if not (getattr(self, name) is value or _equal_numbers(getattr(self, name), value))
        ]
        if changed:
            raise InvalidInput(
                f"{', '.join(changed)} changed since the stream began. fit starts a new one."
            )

    def _require_fitted(self) -> None:
        if hasattr(self, "_rls") and not self._rls.identifiable:
            raise self._hidden()
        check_is_fitted(self)

    def _names(self) -> list[str]:
        """Of the parameters, the intercept first."""
        made_up = map("x{}".format, range(self.n_features_in_))
        names = [str(name) for name in getattr(self, "feature_names_in_", made_up)]
        return ["intercept", *names] if self._rls.parameters > len(names) else names

    def _hidden(self) -> NotIdentifiable:
        """What the releases do not show, by the names of the features."""
        rls, names = self._rls, self._names()
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


def _design(given: Array, intercept: bool) -> Array:
    """H = [1, X]."""
    return np.insert(given, 0, 1.0, axis=1) if intercept else given


def _readings(y: object) -> Array:
    """y as a finite vector. The errors of the conversions may quote entries: ours do not."""
    if y is None:
        raise InvalidInput(
            "PrivateLinearRegression requires y to be passed, but the target y is None."
        )
    if isinstance(y, np.ma.MaskedArray):
        raise InvalidInput("y is a masked array: drop the samples without a reading.")
    readings: Array | None = None
    with suppress(TypeError, ValueError):  # and no context that quotes them
        readings = column_or_1d(y, dtype=np.float64, warn=True)
    if readings is None:
        raise InvalidInput("y must be a vector of real numbers, one a sample.")
    assert_all_finite(readings, input_name="y")
    return readings


def _equal_numbers(one: object, other: object) -> bool:
    return bool(np.isscalar(one) and np.isscalar(other) and one == other)
