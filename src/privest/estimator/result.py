"""What an estimator gives: θ̂, how good it is, and what of its error is the price of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, as_confidence
from privest.errors import InvalidInput
from privest.records import Record, plain


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result(Record):
    """θ̂ with its covariance, split into what sampling and what privacy adds.

        covariance = sampling + privacy

    estimate    θ̂, (n,), or (trials, n) for many data sets at once.
    covariance  (n, n) of θ̂, the release noise included.
    sampling    (n, n): the part that is there without release noise; None where it was not kept.
    classical   (n, n): Σ_CR, the floor without privacy; None where it was not kept. For efficient
                estimates it is `sampling`.
    bound       (n, n): the floor for every mechanism within the level and every unbiased estimate;
                None where it was not computed.
    names       of the parameters.
    simulated   whether the release was a simulation, for experiments; None where nobody said.
    """

    estimate: Array
    covariance: Array
    sampling: Array | None = None
    classical: Array | None = None
    bound: Array | None = None
    names: tuple[str, ...] = ()
    simulated: bool | None = None

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error", "classical_error", "efficiency")

    def __post_init__(self) -> None:
        n = self.estimate.shape[-1]
        if not self.names:
            object.__setattr__(self, "names", tuple(f"θ[{j}]" for j in range(n)))
        if self.covariance.shape[-2:] != (n, n) or len(self.names) != n:
            raise InvalidInput(
                f"{n} estimates need {n} names and an {n}×{n} covariance; received "
                f"{len(self.names)} names and shape {self.covariance.shape}."
            )

    @property
    def standard_error(self) -> Array:
        """√diag covariance, (n,): of each parameter, privacy included."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))

    @property
    def classical_error(self) -> Array | None:
        """√diag classical, (n,): the least standard errors without privacy."""
        return None if self.classical is None else np.sqrt(np.diagonal(self.classical))

    @property
    def privacy(self) -> Array | None:
        """covariance − sampling: what privacy adds."""
        return None if self.sampling is None else self.covariance - self.sampling

    @property
    def efficiency(self) -> float | None:
        """tr bound / tr covariance ≤ 1; None where the bound was not computed."""
        if self.bound is None:
            return None
        return float(np.trace(self.bound) / np.trace(self.covariance))

    def quantile(self, confidence: float) -> float:
        """q of the intervals θ̂ ± q·standard_error: of the normal law."""
        return float(scipy.special.ndtri((1 + as_confidence(confidence)) / 2))

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(n, 2), or (trials, n, 2): each parameter's interval, covering with `confidence`."""
        half = self.quantile(confidence) * self.standard_error
        return np.stack([self.estimate - half, self.estimate + half], axis=-1)

    def summary(self, confidence: float = CONFIDENCE) -> str:
        """A table for people, laid out as in statsmodels, with the errors without privacy."""
        if self.estimate.ndim != 1:
            raise InvalidInput(
                f"a summary is of one estimate; this result holds {len(self.estimate)} of them."
            )
        tail = (1 - as_confidence(confidence)) / 2
        heads = ["coef", "std err", "z", "P>|z|", f"[{tail:.3g}", f"{1 - tail:.3g}]"]
        errors, ends = self.standard_error, self.interval(confidence)
        columns = [[f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 else f"{value:.4g}"
                    for value in column]
                   for column in (self.estimate, errors)]  # fmt: skip
        z = np.divide(self.estimate, errors, out=np.full_like(errors, np.inf), where=errors > 0)
        columns.append([f"{value:.3f}" for value in z])
        columns.append([f"{value:.3f}" for value in 2 * scipy.special.ndtr(-np.abs(z))])
        columns += [[f"{value:.4g}" for value in column] for column in ends.T]
        if self.classical_error is not None:
            heads.append("without privacy")
            columns.append([f"{value:.4g}" for value in self.classical_error])
        return "\n".join([*self._heading(), *_table(self.names, heads, columns)])

    def _heading(self) -> list[str]:
        """Lines above the table of `summary`."""
        noise = "; the noise was SIMULATED: no protection" if self.simulated else ""
        return [f"{type(self).__name__}: {len(self.names)} parameters{noise}"]

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        ends = {"confidence": confidence, "interval": plain(self.interval(confidence))}
        return super().to_dict() | ends

    def __repr__(self) -> str:
        errors = self.standard_error
        return (
            f"{type(self).__name__}({len(self.names)} parameters, standard errors "
            f"{errors.min():.3g} to {errors.max():.3g})"
        )


def _table(names: tuple[str, ...], heads: list[str], columns: list[list[str]]) -> list[str]:
    """Right-aligned columns under a rule, as in statsmodels."""
    first = max(map(len, names))
    widths = [max(len(head), *map(len, column)) for head, column in zip(heads, columns)]
    rule = "=" * (first + sum(width + 2 for width in widths))
    row = ["".join("  " + cell.rjust(width) for cell, width in zip(cells, widths))
           for cells in [heads, *zip(*columns)]]  # fmt: skip
    lines = [label.ljust(first) + cells for label, cells in zip(["", *names], row)]
    return [rule, lines[0], "-" * len(rule), *lines[1:], rule]
