"""Processor seconds of batched maximum likelihood of Experiment A, s = 1, mechanism by mechanism.

python -m benchmarks.time_mle prints one line each, the best of some runs. To compare two states.
"""

import time

import numpy as np

from privest.estimator import maximum_likelihood
from privest.estimator.likelihood import likelihood_of
from privest.mechanism import CATALOGUE
from privest.paper._methods import DEVIATION, THETA, setting_of

H = setting_of().model.matrix
NAMES = {
    "laplace": 4000, "cauchy": 500, "cos2": 2000, "student-t": 300, "staircase": 300,
    "truncated-inverse-gaussian": 200, "truncated-inverse-laplace": 200, "twin-uniform": 60,
    "probabilistic-quantiser": 1000, "triangular-quantiser": 1000, "laplace-quantiser": 1000,
    "binary-gaussian": 2000, "binary-cauchy": 500, "truncated-gain-gaussian": 4,
}  # fmt: skip


def seconds(name, trials, repeats=5):
    """The least of some runs."""
    rng = np.random.default_rng(3)
    mechanism = CATALOGUE[name].example(len(H))
    y = THETA @ H.T + DEVIATION * rng.standard_normal((trials, len(H)))
    z, likelihood = mechanism.simulate(y, rng), likelihood_of(mechanism, DEVIATION**2)
    found = []
    for _ in range(repeats):
        start = time.process_time()
        maximum_likelihood(H, z, likelihood)
        found.append(time.process_time() - start)
    return min(found)


if __name__ == "__main__":
    for name, trials in NAMES.items():
        took = seconds(name, trials)
        print(f"{name:30s} {trials:6d} trials {1e6 * took / trials:10.1f} µs a trial", flush=True)
