"""Cases of coverage: streams whose readings remember, errors by blocks of time."""

from __future__ import annotations

import numpy as np

from benchmarks.coverage import Case
from privest.arrays import Array
from privest.estimator import PrivateRLS
from privest.estimator._stream_conclusion import conclude
from privest.mechanism import StreamMechanism
from privest.noise import Gaussian

NAMES = ("intercept", "temperature", "evening", "weekend")
THETA = np.array([1.0, -0.05, 0.4, 0.2])
LONG = 60  # rows of a short stream: it is shorter than a week, and has no weekend


def hours(steps: int) -> Array:
    """H of hourly readings from a Monday on; short streams have no column for the weekend."""
    k = np.arange(steps)
    day = np.sin(2 * np.pi * (k - 9) / 24)
    slow = np.sin(2 * np.pi * k / (24 * 9.3))
    evening = ((k % 24 >= 17) & (k % 24 < 22)).astype(float)
    columns = [np.ones(steps), 10 + 5 * day + 3 * slow, evening, ((k // 24) % 7 >= 5).astype(float)]
    return np.column_stack(columns[: _parameters(steps)])


def _parameters(steps: int) -> int:
    return 2 if steps < LONG else 3 if steps < 168 else 4


def remembered(rng: np.random.Generator, steps: int, correlation: float) -> Array:
    """AR(1) of variance 1."""
    u = np.empty(steps)
    fresh = rng.normal(size=steps) * np.sqrt(1 - correlation**2)
    u[0] = rng.normal()
    for k in range(1, steps):
        u[k] = correlation * u[k - 1] + fresh[k]
    return u


def stream(
    rng: np.random.Generator, trials: int, *, steps: int, correlation: float, level: float = 1.0
) -> Array:
    """As `privest stream` without a stated noise variance: 95 % by blocks (CR2)."""
    H = hours(steps)
    truth, names = THETA[: H.shape[1]], NAMES[: H.shape[1]]
    hits = np.empty((trials, len(names)))
    for row in hits:
        y = H @ truth + remembered(rng, steps, correlation)
        estimator = PrivateRLS(
            level, len(names), Gaussian(cov=np.zeros(1)), blocks=True, compiled=False
        )
        estimator.update(StreamMechanism(level).simulate(y, rng), H)
        low, high = conclude(estimator, steps, names, known=False).interval().T
        row[:] = np.where(np.isfinite(high - low), (low <= truth) & (truth <= high), np.nan)
    return hits


CASES = [
    Case(
        "6 streams that remember", f"K = {steps}, φ = {phi:g}, s γ₀ = 1", stream,
        NAMES[: _parameters(steps)], "CR2, 8 to 16 blocks of time", known,
        {"steps": steps, "correlation": phi}, expected,
    )
    for steps, phi, known, expected in (
        (12, 0.0, ".93 to .97 where the degrees of freedom are 3 or more", (0.93, 0.985)),
        (48, 0.0, ".93 to .97 where the degrees of freedom are 3 or more", (0.93, 0.985)),
        (336, 0.0, ".93 to .97 where the degrees of freedom are 3 or more", (0.93, 0.985)),
        (336, 0.8, "8 blocks .91 .92 .95 .90 (before: .65 .72 .86 .64)", (0.87, 0.97)),
        (336, 0.95, "refused as too short; .87 to .97 where not", (0.87, 0.97)),
        (2016, 0.0, ".93 to .97 where the degrees of freedom are 3 or more", (0.93, 0.985)),
        (2016, 0.8, "8 blocks .93 to .95", (0.91, 0.97)),
        (2016, 0.95, "8 blocks .93 to .95, 32 .89 to .95 (before: .36 to .92)", (0.89, 0.97)),
    )
]  # fmt: skip
