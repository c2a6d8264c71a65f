"""The one result of estimation: θ̂, its covariance, and what of it is the price of privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import scipy

from privest.arrays import (
    CONFIDENCE,
    AnyArray,
    Array,
    ArrayLike,
    Flags,
    as_array,
    as_confidence,
    as_nonnegative,
    plural,
)
from privest.bounds import contrast_names, contrast_rows
from privest.errors import InvalidInput
from privest.linalg.tolerances import condition, rank_tolerance
from privest.records import (
    Estimated,
    Record,
    as_frame,
    decimals,
    named_rows,
    plain,
    quantile,
    standard_errors,
    text_table,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction(Record):
    """Means of the outcome at k rows.

    value     (k,); `kind`: "mean", "median" (of an outcome modelled as its logarithm), "share".
    interval  (k, 2): of the mean, at `confidence`.
    prediction_interval
              (k, 2): of one new value at each row, if residuals are normal with one variance. None:
              that variance is not known.
    note      what the intervals assume, a sentence; None: no more than those of the estimate.
    """

    value: Array
    interval: Array
    prediction_interval: Array | None = None
    confidence: float = CONFIDENCE
    kind: str = "mean"
    note: str | None = None

    def to_frame(self, library: str = "pandas") -> Any:  # noqa: ANN401
        """A row for each row."""
        columns = {self.kind: self.value, "low": self.interval[:, 0], "high": self.interval[:, 1]}
        if self.prediction_interval is not None:
            low, high = self.prediction_interval.T
            columns |= {"new_low": low, "new_high": high}
        return as_frame(columns, library)


@dataclass(frozen=True)
class WaldTest(Record):
    """F = (Rθ̂ − r)ᵀ(RVRᵀ)⁻¹(Rθ̂ − r)/q; with infinite `degrees_of_freedom` q·F has χ²_q.

    names     coefficients that are 0 under the hypothesis; empty for a matrix R.
    restrictions
              q, rows of R.
    note      what the test assumes, a sentence; None: no more than the errors of the estimate.
    """

    names: tuple[str, ...]
    statistic: float
    restrictions: int
    degrees_of_freedom: float
    note: str | None = None

    DERIVED: ClassVar[tuple[str, ...]] = ("p_value",)

    @property
    def p_value(self) -> float:
        q, freedom = self.restrictions, self.degrees_of_freedom
        if math.isinf(freedom):
            return float(scipy.special.chdtrc(q, q * self.statistic))
        return float(scipy.special.fdtrc(q, freedom, self.statistic))

    def __str__(self) -> str:
        q, freedom = self.restrictions, self.degrees_of_freedom
        kind = f"χ²/{q}" if math.isinf(freedom) else f"F({q}, {freedom:.4g})"
        return f"{kind} = {self.statistic:.4g}, p = {self.p_value:.3g}"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Estimate(Estimated, Record):
    """θ̂ with its covariance = sampling + privacy.

    value       θ̂, (n,), or (trials, n) for many data sets at once.
    covariance  (n, n), privacy noise included; (trials, n, n) where trials differ.
    sampling    (n, n): the part without privacy noise; None: not computed.
    classical   (n, n): Σ_CR, the bound without privacy.
    bound       (n, n): Σ_PPCR, for every mechanism within the level and every unbiased estimate.
    simulated   whether the release was a simulation; None: not stated.
    degrees_of_freedom
                of Student's t, a number or one a parameter; None: normal.
    floor       (n,): standard errors by the privacy noise alone; those of `covariance` are not
                below.
    method      how the errors were made.
    note        what contrasts, joint tests and predictions assume beyond that, a sentence: of noisy
                sums that all residuals have the same variance. None: no more.
    log_likelihood, converged
                of a maximum likelihood fit, one a trial.
    """

    value: Array
    covariance: Array
    sampling: Array | None = None
    classical: Array | None = None
    bound: Array | None = None
    names: tuple[str, ...] = ()
    simulated: bool | None = None
    degrees_of_freedom: float | Array | None = None
    floor: Array | None = None
    method: str | None = None
    note: str | None = None
    log_likelihood: float | Array | None = None
    converged: bool | Flags | None = None

    DERIVED: ClassVar[tuple[str, ...]] = (
        "privacy", "standard_error", "classical_error", "efficiency",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        n = self.value.shape[-1]
        names = tuple(self.names) or tuple(f"θ[{j}]" for j in range(n))
        object.__setattr__(self, "names", names)
        matrices = (self.covariance, self.sampling, self.classical, self.bound)
        shapes = {matrix.shape[-2:] for matrix in matrices if matrix is not None}
        if shapes != {(n, n)} or len(names) != n:
            raise InvalidInput(
                f"{n} estimates need {n} names and {n}×{n} covariances; received {len(names)} "
                f"names and shapes {sorted(shapes)}."
            )

    @property
    def classical_error(self) -> Array | None:
        """√diag classical: the least standard errors without privacy."""
        return None if self.classical is None else standard_errors(self.classical)

    @property
    def privacy(self) -> Array | None:
        return None if self.sampling is None else self.covariance - self.sampling

    @property
    def efficiency(self) -> float | None:
        """tr bound / tr covariance ≤ 1 (over all trials); None without a bound."""
        if self.bound is None:
            return None
        whole = np.trace(self.covariance, axis1=-2, axis2=-1)
        return float(np.trace(self.bound, axis1=-2, axis2=-1).sum() / whole.sum())

    def summary(self, confidence: float = CONFIDENCE) -> str:
        """A table laid out as in statsmodels; its last column is `classical_error`."""
        if self.value.ndim != 1:
            raise InvalidInput(
                f"a summary is of one estimate; this result holds {len(self.value)} of them."
            )
        tail = (1 - as_confidence(confidence)) / 2
        errors, (low, high) = self.standard_error, self.interval(confidence).T
        with np.errstate(divide="ignore", invalid="ignore"):  # an error of 0: z is infinite
            z = self.value / errors
        letter, chance = "z" if self.degrees_of_freedom is None else "t", self.p_values()
        columns = {
            "coef": decimals(self.value),
            "std err": decimals(errors),
            letter: [f"{value:.3f}" for value in z],
            f"P>|{letter}|": [f"{value:.3f}" for value in chance],
            f"[{tail:.4g}": decimals(low),
            f"{1 - tail:.4g}]": decimals(high),
        }
        if self.classical_error is not None:
            columns["std err, no privacy"] = decimals(self.classical_error)
        return "\n".join([*self._heading(), *text_table(self.names, columns)])

    def to_frame(self, confidence: float = CONFIDENCE, library: str | None = None) -> Any:  # noqa: ANN401
        """A row for each parameter; `library`: "pandas" or "polars", None: that of the data."""
        if self.value.ndim != 1:
            raise InvalidInput(
                f"a frame is of one estimate; this result holds {len(self.value)} of them."
            )
        low, high = self.interval(confidence).T
        columns = {
            "coefficient": list(self.names),
            "estimate": self.value,
            "standard_error": self.standard_error,
            "p_value": self.p_values(),
            "low": low,
            "high": high,
        }
        return as_frame(columns, library or self._library)

    @property
    def _library(self) -> str:
        return "pandas"

    def p_values(self) -> Array:
        """Two-sided p-values of θ_j = 0, (…, n)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # an error of 0
            away = -np.abs(self.value / self.standard_error)
            if self.degrees_of_freedom is None:
                chance = 2 * scipy.special.ndtr(away)
            else:
                chance = 2 * scipy.special.stdtr(self.degrees_of_freedom, away)
        return np.asarray(chance)

    def contrast(self, weights: Mapping[str, float] | ArrayLike) -> Estimate:
        """Sums Σ w_j θ_j with their errors: weights by name, or (n,) or (k, n), one sum a row.

        Errors from noisy sums assume that all residuals have the same variance (`note`).
        """
        self._require_one()
        w = contrast_rows(weights, self.names)
        return Estimate(
            value=w @ self.value, covariance=w @ self._between((w != 0).any(axis=0)) @ w.T,
            names=contrast_names(w, self.names), simulated=self.simulated, method=self.method,
            note=self.note, degrees_of_freedom=self._fewest(w != 0),
        )  # fmt: skip

    def wald_test(
        self, of: str | Sequence[str] | Mapping[str, float] | ArrayLike, value: ArrayLike = 0.0
    ) -> WaldTest:
        """Wald's test of Rθ = r: by F with the fewest degrees of freedom, or by χ².

        The test from noisy sums assumes that all residuals have the same variance (`note`).

        of     names of coefficients; that of a category ("sex") is all of its coefficients; or R,
               as the weights of `contrast`.
        value  r, a number or one for each row of R.
        """
        self._require_one()
        of = [of] if isinstance(of, str) else of
        listed: list[Any] = list(of) if isinstance(of, Sequence) else []
        if listed and all(isinstance(one, str) for one in listed):
            places = self._places(listed)
            R: Array = np.eye(len(self.names))[places]
            said = tuple(self.names[k] for k in places)
        else:
            R, said = contrast_rows(cast(ArrayLike, of), self.names), ()
        r, which = as_array(value, "value", ndim=(0, 1)), (R != 0).any(axis=0)
        if r.shape not in ((), (len(R),)):
            raise InvalidInput(
                f"value must be one number or one for each row of R ({len(R)}); received {len(r)}."
            )
        off, V = R @ self.value - r, R @ self._between(which) @ R.T
        if condition(V) * rank_tolerance(len(R)) > 1:
            raise InvalidInput("rows of R are 0 or repeat each other: test fewer of them.")
        statistic = float(off @ np.linalg.solve(V, off)) / len(R)
        freedom = self._fewest(which)
        known = math.inf if freedom is None else float(freedom)
        return WaldTest(said, statistic, len(R), known, self.note)

    def compare(self, smaller: Estimate) -> WaldTest:
        """Test of a smaller model of the same release: are the coefficients that it lacks all 0?"""
        own = smaller.names if isinstance(smaller, Estimate) else ()
        absent = [name for name in self.names if name not in own]
        if not own or not set(own) < set(self.names):
            raise InvalidInput(
                "a smaller model has some of these coefficients, and no others: "
                f"{', '.join(self.names)}."
            )
        return self.wald_test(absent)

    def predict(
        self, rows: object, *, confidence: float = CONFIDENCE, noise: float | None = None
    ) -> Prediction:
        """hθ̂ at every row h, with its interval and that of one new measurement there.

        rows   (k, n) or (n,), in the order of `names`; or values by name: {name: number or column},
               a list of such rows, a frame.
        noise  variance of a new measurement about its mean; None: no prediction interval.
        """
        return self._predicted(self._matrix(rows), confidence, noise)

    def _predicted(
        self, H: Array, confidence: float, noise: float | None, freedom: float = math.inf
    ) -> Prediction:
        """`freedom`: degrees of freedom f of `noise`, where it is itself an estimate.

        Those of a sum of variances v₁ + v₂ are at least (v₁ + v₂)²/(v₁/√f₁ + v₂/√f₂)², whatever
        the correlation of their estimates.
        """
        middle, fewest = H @ self.value, self._fewest(H != 0)
        variance = np.einsum("ki,ij,kj->k", H, self._between((H != 0).any(axis=0)), H)

        def around(variance: Array, freedom: Array | None) -> Array:
            half = quantile(confidence, freedom) * np.sqrt(variance)
            return np.stack([middle - half, middle + half], axis=-1)

        new = None
        if noise is not None:
            noise = as_nonnegative(noise, "noise")
            own = variance / np.sqrt(math.inf if fewest is None else fewest)
            with np.errstate(divide="ignore", invalid="ignore"):  # all known, or no variance
                least = ((variance + noise) / (own + noise / math.sqrt(freedom))) ** 2
            new = around(variance + noise, np.nan_to_num(least, nan=math.inf))
        return Prediction(
            value=middle, interval=around(variance, fewest), prediction_interval=new,
            confidence=confidence, note=self.note,
        )  # fmt: skip

    def _require_one(self) -> None:
        if self.value.ndim != 1:
            raise InvalidInput(f"this result holds {len(self.value)} estimates: take one of them.")

    def _matrix(self, rows: object) -> Array:
        """Rows (k, n) in the order of the coefficients."""
        self._require_one()
        named = self._named(rows)
        if named is not None:
            return np.array([self._row(one) for one in named]).reshape(-1, len(self.names))
        H = np.atleast_2d(as_array(cast(ArrayLike, rows), "rows", ndim=(1, 2)))
        if H.shape[1] != len(self.names):
            raise InvalidInput(
                f"rows have {H.shape[1]} entries; there are {len(self.names)} coefficients: "
                f"{', '.join(self.names)}."
            )
        return H

    def _named(self, rows: object) -> list[dict[str, Any]] | None:
        """Rows by name; None: they have no names."""
        return named_rows(rows)

    def _row(self, values: Mapping[str, object]) -> Array:
        """One row from values by name."""
        self._places(list(values))
        lacking = [name for name in self.names if name not in values]
        if lacking:
            raise InvalidInput(
                f"a row needs a value for every coefficient; {lacking[0]!r} has none."
            )
        return as_array([values[name] for name in self.names], "row")  # type: ignore[arg-type]

    def _places(self, names: Sequence[str]) -> list[int]:
        places = {name: k for k, name in enumerate(self.names)}
        found = [[places[k] for k in self._members(name) if k in places] for name in names]
        for name, own in zip(names, found):
            if not own:
                listed = ", ".join(self.names)
                raise InvalidInput(f"there is no coefficient {name!r}; there are {listed}.")
        return [place for own in found for place in own]

    def _members(self, name: str) -> Sequence[str]:
        """Names of the coefficients that a name stands for: several for a category."""
        return (name,)

    def _between(self, which: AnyArray) -> Array:
        if np.isnan(self.covariance[np.ix_(which, which)]).any():
            raise InvalidInput(
                "how these estimates vary together is not known: that needs the matrix of the "
                "release, and coefficients of one private column."
            )
        return np.where(np.outer(which, which), self.covariance, 0.0)

    def _fewest(self, which: AnyArray) -> Array | None:
        if self.degrees_of_freedom is None:
            return None
        return np.asarray(np.where(which, self.degrees_of_freedom, math.inf).min(axis=-1))

    def _heading(self) -> list[str]:
        noise = "; the noise was SIMULATED: no protection" if self.simulated else ""
        count = plural(len(self.names), "parameter")
        errors = "" if self.method is None else f"; errors: {self.method}"
        return [f"{type(self).__name__}: {count}{errors}{noise}", *filter(None, [self.note])]

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        ends = {"confidence": confidence, "interval": plain(self.interval(confidence))}
        return super().to_dict() | ends

    def __repr__(self) -> str:
        errors = self.standard_error
        return (
            f"{type(self).__name__}({plural(len(self.names), 'parameter')}, standard errors "
            f"{errors.min():.3g} to {errors.max():.3g})"
        )
