"""The noise variance of a stream: stated, from a public reference, or left to the releases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import privest as pv
from privest.data._text_table import open_lines
from privest.errors import InvalidInput
from privest.estimator._reference import reference_fit
from privest.noise import Noise
from privest.streaming._plan import StreamPlan
from privest.streaming._rows import Rows


class StreamNoise(NamedTuple):
    """σ² of a reading given its features (None: not known), and its degrees of freedom."""

    variance: float | None = None
    freedom: int | None = None

    def law(self, width: int) -> Noise:
        """Of a step of so many readings; none where it is not known: rows are then whitened by the
        release noise alone.
        """
        if self.variance is None:
            return pv.noise.Gaussian(cov=np.zeros(width))
        return pv.noise.Gaussian(cov=self.variance)


def noise_of(plan: StreamPlan, features: list[str]) -> StreamNoise:
    """What is known of the noise before any release is looked at."""
    if plan.reference is None:
        return StreamNoise(plan.variance)
    with open_lines(
        str(plan.reference), name=f"--reference {plan.reference}", reading=plan.reading
    ) as lines:
        rows = Rows(
            lines, json_lines=plan.reference.suffix.lower() in (".jsonl", ".ndjson"),
            value=plan.target, features=features, reading=plan.reading, file=plan.reference.name,
        )  # fmt: skip
        every = [row for row in rows if not np.isnan(row.value)]
    if not every:
        raise InvalidInput(f"--reference {plan.reference}: it has no rows with a reading.")
    H = np.array([row.features for row in every])
    H = np.insert(H, 0, 1.0, axis=1) if plan.intercept else H
    y = np.array([row.value for row in every])
    return StreamNoise(*reference_fit(H, y, f"--reference {plan.reference}"))
