"""docs/images/timing.png: how long a release takes for measurements of 0 and of a million.

`python docs/timing_picture.py` makes it and prints its figures. The two are
released in turn, so that a busy machine is busy for both. What it shows is one machine on one day:
equal times are seen here and promised nowhere.
"""

import time
from pathlib import Path

import matplotlib as mpl
import numpy as np

from privest.mechanism import GaussianMechanism

PICTURE = Path(__file__).parent / "images" / "timing.png"
READINGS, RUNS = 100, 4000
VALUES = {"y = 0": 0.0, "y = 10⁶": 1e6}


def measured() -> dict[str, np.ndarray]:
    """Microseconds a release of READINGS measurements, by value; in random order, pair by pair."""
    mechanism, order = GaussianMechanism(1.0, READINGS), np.random.default_rng(1)
    data = {name: np.full(READINGS, value) for name, value in VALUES.items()}
    times: dict[str, list[float]] = {name: [] for name in VALUES}
    for _ in range(RUNS):
        for name in order.permutation(list(VALUES)):
            start = time.perf_counter_ns()
            mechanism.release(data[name])
            times[name].append((time.perf_counter_ns() - start) / 1000)
    return {name: np.array(found) for name, found in times.items()}


def told(first: np.ndarray, second: np.ndarray) -> float:
    """How often the larger of two times is the second's: 1/2 where they cannot be told apart."""
    ranks = (
        np.searchsorted(np.sort(first), second, "left"),
        np.searchsorted(np.sort(first), second, "right"),
    )
    return float((ranks[0] + ranks[1]).mean() / 2 / len(first))


def main() -> None:
    """Measure, draw, print."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    times = measured()
    first, second = times.values()
    ends = np.quantile(np.concatenate([first, second]), [0.0, 0.98])
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for (name, found), style in zip(times.items(), ("-", "--")):
        axes.hist(found, bins=80, range=tuple(ends), histtype="step", label=name, linestyle=style)
    axes.set_xlabel(f"microseconds for a release of {READINGS} readings")
    axes.set_ylabel(f"of {RUNS} releases")
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=120)
    for name, found in times.items():
        low, mid, high = np.quantile(found, [0.05, 0.5, 0.95])
        print(f"{name}: median {mid:.0f} µs, 5 to 95 %: {low:.0f} to {high:.0f} µs")
    doubt = 5 / (12 * RUNS / 2) ** 0.5
    share = told(first, second)
    print(f"The larger of two times is that of 10⁶ in {share:.3f} (chance: 0.500 ± {doubt:.3f})")


if __name__ == "__main__":
    main()
