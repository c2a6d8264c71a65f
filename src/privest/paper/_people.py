"""The set-up of the paper's recursive experiments (`fig:pprls-non-syms`, `fig:pprls-syms`).

People are split at random into a reference set and blocks. The reference gives everything that is
public: the Box-Cox exponent, the units, the parameter that counts as true (least squares) and the
noise variance. Each block is a stream y_k = H_kθ + w_k of one person a step, run from its start.

What the paper leaves open, and our defaults:

- units of the features: centred and scaled by the reference ("standard"), so that the summed
  error weighs all coefficients alike; "raw" keeps years, kg/m², 0/1 for sex;
- units of the response: the transformed response, centred and scaled by the reference
  ("standard"; σ² ≈ 0.85 for NHANES), so that levels about 1 hide as much as people differ;
  "plain" keeps the bare transform, on which σ² ≈ 0.04 and levels about 1 drown the data;
- one random split, one draw of (S_k, U_k), the same for all blocks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import scipy

import privest as pv
from privest.arrays import Array, Index
from privest.errors import InvalidInput
from privest.paper._nhanes import load_nhanes


@dataclass(frozen=True)
class Plan:
    """How many people are the reference, and how the others are cut: `blocks` of `length`.

    `repetitions` of every block, if a run does not say otherwise.
    """

    reference: int
    blocks: int
    length: int
    repetitions: int = 20
    features: str = "standard"
    response: str = "standard"

    def __post_init__(self) -> None:
        if self.features not in ("standard", "raw"):
            raise InvalidInput('the units of the features are "standard" or "raw".')
        if self.response not in ("standard", "plain"):
            raise InvalidInput('the units of the response are "standard" or "plain".')
        if min(self.reference, self.blocks, self.length, self.repetitions) < 2:
            raise InvalidInput("a plan needs a reference, 2 blocks of 2 people and 2 repetitions.")


# NHANES as in the paper. Diabetes has 442 people: a reference large enough that its own error is
# below a tenth of that of a block, four shorter streams, and as many runs as the paper, 400.
PLANS: dict[str, Plan] = {
    "nhanes": Plan(reference=704, blocks=20, length=100),
    "diabetes": Plan(reference=242, blocks=4, length=50, repetitions=100),
}


def load(source: str, folder: str | os.PathLike[str] | None = None) -> pv.data.Table:
    """The table of an experiment; `folder` is for NHANES (without one: downloaded)."""
    if source not in PLANS:
        raise InvalidInput(f"the data are one of {', '.join(PLANS)}; received {source!r}.")
    return load_nhanes(folder) if source == "nhanes" else pv.data.load_diabetes()


@dataclass(frozen=True, eq=False)
class Split:
    """One random split of a table: public facts from the reference, and the blocks.

    rows                   H, (blocks, length, n); the first column is 1.
    readings               y, (blocks, length): sensitive.
    theta, variance        least squares on the reference, and its residual variance.
    reference_covariance   of theta itself: the "truth" of the experiment is an estimate.
    centre                 mean response of the reference.
    exponent               of the Box-Cox transform; None where the response is a logarithm.
    """

    rows: Array = field(repr=False)
    readings: Array = field(repr=False)
    theta: Array
    variance: float
    reference_covariance: Array = field(repr=False)
    centre: float
    exponent: float | None

    @property
    def blocks(self) -> int:
        """How many streams."""
        return len(self.rows)

    @property
    def length(self) -> int:
        """Steps a stream."""
        return int(self.rows.shape[1])

    def model(self, block: int) -> pv.LinearModel:
        """The model of one stream."""
        return pv.LinearModel(self.rows[block], noise=self.variance)


def split(table: pv.data.Table, plan: Plan, rng: np.random.Generator) -> Split:
    """A random split of the table; nothing public is computed from the blocks."""
    needed = plan.reference + plan.blocks * plan.length
    if len(table) < needed:
        raise InvalidInput(
            f"{table.source} has {len(table)} people; {plan.blocks} blocks of {plan.length} and a "
            f"reference of {plan.reference} need {needed}."
        )
    order = rng.permutation(len(table))
    reference, others = order[: plan.reference], order[plan.reference : needed]
    response, exponent = table.response, None
    if not table.logarithm:
        exponent = float(scipy.stats.boxcox_normmax(response[reference], method="mle"))
        response = scipy.special.boxcox(response, exponent)
    if plan.response == "standard":
        response = _standard(response, reference)
    features = table.features
    if plan.features == "standard":
        features = _standard(features, reference)
    rows = np.column_stack([np.ones(len(table)), features])
    theta, root = pv.linalg.least_squares(rows[reference], response[reference])
    residual = response[reference] - rows[reference] @ theta
    variance = float(residual @ residual) / (plan.reference - len(theta))
    shape = (plan.blocks, plan.length)
    return Split(
        rows=rows[others].reshape(*shape, -1),
        readings=response[others].reshape(shape),
        theta=theta,
        variance=variance,
        reference_covariance=variance * root.inverse(),
        centre=float(response[reference].mean()),
        exponent=exponent,
    )


def _standard(values: Array, reference: Index) -> Array:
    chosen = values[reference]
    spread = chosen.std(axis=0, ddof=1)
    if not np.all(spread > 0):
        raise InvalidInput("a column of the reference is constant: it has no standard unit.")
    return np.asarray((values - chosen.mean(axis=0)) / spread)


def drawn_level(
    length: int, rng: np.random.Generator, *, low: float = 0.2, high: float = 2.0, past: float = 0.1
) -> pv.StreamLevel:
    """S_k uniform in [low, high], U_k = past·√S_k ξ_k, ξ_k standard normal (`eq:barS`)."""
    s = rng.uniform(low, high, length)
    ties = np.tril(rng.standard_normal((length, length)), -1)
    return pv.StreamLevel(s, past * np.sqrt(s)[:, None] * ties)
