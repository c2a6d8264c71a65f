"""Identification from releases against statsmodels' maximum likelihood on the same numbers."""

import warnings

import numpy as np

import privest as pv
from benchmarks.timing import compare
from privest import dynamics

STEPS, LEVEL = 2000, 1.0


def released(family, theta, rng):
    """A series of the family with simulated releases, in the units of the measurements."""
    model = dynamics.AR(2 if family.startswith("ar2") else 1, mean=False)
    _, y = model.system(theta).sample(STEPS, rng)
    level = pv.StreamLevel.constant(LEVEL)
    return level, pv.StreamMechanism(level).simulate(y, rng)


def peers(values):
    """statsmodels with the variance of the release noise fixed, by the family's name."""
    from statsmodels.tsa.statespace.sarimax import SARIMAX
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    def autoregression(order):
        model = SARIMAX(values, order=(order, 0, 0), measurement_error=True)
        with model.fix_params({"var.measurement_error": 1.0 / LEVEL}):
            return model.fit(disp=0)

    def level():
        model = UnobservedComponents(values, "local level", use_exact_diffuse=True)
        with model.fix_params({"sigma2.irregular": 1.0 / LEVEL}):
            return model.fit(disp=0)

    return {
        "ar1-mean": lambda: autoregression(1),
        "ar2-mean": lambda: autoregression(2),
        "level-noise": level,
    }


def rows():
    """fit: the search, θ̂ and −∇²ℓ; the peer's fit with its own starts and covariances."""
    warnings.simplefilter("ignore")  # of statsmodels' searches
    for family, theta in (
        ("ar1-mean", [0.8, 0.36]), ("ar2-mean", [1.3, -0.6, 0.5]), ("level-noise", [0.2]),
    ):  # fmt: skip
        rng = np.random.default_rng(1)
        if family == "level-noise":
            y = np.cumsum(rng.normal(0, np.sqrt(theta[0]), STEPS))
            level = pv.StreamLevel.constant(LEVEL)
            release = pv.StreamMechanism(level).simulate(y, rng)
        else:
            level, release = released(family, theta, rng)
        dynamics.fit(family, release, level=level)  # compiled
        yield compare(
            f"fit, {family}, K = {STEPS:,}",
            lambda own=family, at=level, seen=release: dynamics.fit(own, seen, level=at),
            "statsmodels' fit", peers(release.values / np.sqrt(LEVEL))[family],
            at_least=3, repeats=5,
        )  # fmt: skip
