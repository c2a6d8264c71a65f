"""The one result of estimation: θ̂, its covariance, and what of it is the price of privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, AnyArray, Array, Flags, as_confidence
from privest.errors import InvalidInput
from privest.records import (
    Estimated,
    Record,
    as_frame,
    decimals,
    plain,
    standard_errors,
    text_table,
)


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
    log_likelihood: float | Array | None = None
    converged: bool | Flags | None = None

    DERIVED: ClassVar[tuple[str, ...]] = (
        "privacy", "standard_error", "classical_error", "efficiency",
    )  # fmt: skip

    def __post_init__(self) -> None:
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

    def contrast(self, weights: Mapping[str, float]) -> Estimate:
        """Σ w_j θ_j with its error; weights by name."""
        w = np.zeros(len(self.names))
        for name, weight in weights.items():
            w[self._places([name])] = weight
        label = " ".join(f"{weight:+g}·{name}" for name, weight in weights.items())
        covariance = np.reshape(w @ self._between(w != 0) @ w, (1, 1))
        return Estimate(
            value=np.array([w @ self.value]), covariance=covariance, names=(label,),
            simulated=self.simulated, degrees_of_freedom=self._fewest(w != 0), method=self.method,
        )  # fmt: skip

    def wald(self, names: Sequence[str]) -> float:
        """p-value of all of these θ_j = 0: θᵀV⁻¹θ by F (fewest degrees of freedom), or χ²."""
        places = self._places(names)
        which = np.isin(np.arange(len(self.names)), places)
        covariance, theta = self._between(which)[np.ix_(which, which)], self.value[which]
        statistic, q = float(theta @ np.linalg.solve(covariance, theta)), len(theta)
        freedom = self._fewest(which)
        if freedom is None or np.isinf(freedom):
            return float(scipy.special.chdtrc(q, statistic))
        return float(scipy.special.fdtrc(q, freedom, statistic / q))

    def _places(self, names: Sequence[str]) -> list[int]:
        for name in names:
            if name not in self.names:
                listed = ", ".join(self.names)
                raise InvalidInput(f"there is no coefficient {name!r}; there are {listed}.")
        return [self.names.index(name) for name in names]

    def _between(self, which: AnyArray) -> Array:
        if np.isnan(self.covariance[np.ix_(which, which)]).any():
            raise InvalidInput(
                "how these estimates vary together was not published: that needs the matrix of "
                "the release."
            )
        return np.where(np.outer(which, which), self.covariance, 0.0)

    def _fewest(self, which: AnyArray) -> float | None:
        if self.degrees_of_freedom is None:
            return None
        return float(np.broadcast_to(self.degrees_of_freedom, which.shape)[which].min())

    def _heading(self) -> list[str]:
        noise = "; the noise was SIMULATED: no protection" if self.simulated else ""
        count = f"{len(self.names)} parameter{'' if len(self.names) == 1 else 's'}"
        errors = "" if self.method is None else f"; errors: {self.method}"
        return [f"{type(self).__name__}: {count}{errors}{noise}"]

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        ends = {"confidence": confidence, "interval": plain(self.interval(confidence))}
        return super().to_dict() | ends

    def __repr__(self) -> str:
        errors = self.standard_error
        return (
            f"{type(self).__name__}({len(self.names)} parameters, standard errors "
            f"{errors.min():.3g} to {errors.max():.3g})"
        )
