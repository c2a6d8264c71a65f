"""A report on made-up people, with numbers from the library: intercept, age, sex, bmi, bp."""

from dataclasses import fields, replace

import numpy as np

import privest as pv
from privest.estimator.result import Result
from privest.report.figures import Trail
from privest.report._facts import Facts, Outcome, Provenance
from privest.report._tradeoff import Curve

NAMES = ("intercept", "age, years", "sex", "body mass index, kg/m²", "blood pressure, mmHg")
THETA = np.array([2.7, 0.004, 0.1, 0.05, 0.006])
VARIANCE, LEVEL, ROWS, DELTA, MOVE = 0.2, 4.0, 442, 1e-6, 1.0
COMMANDS = (
    "privest plan people.csv --target s5 --features age,sex,bmi,bp --level 4 --noise-variance 0.2",
    "privest report release.csv --output report.html",
)


def design(rows=ROWS):
    rng = np.random.default_rng(7)
    return np.column_stack(
        [
            np.ones(rows),
            rng.uniform(19, 80, rows),
            rng.integers(0, 2, rows),
            rng.normal(26, 4.4, rows),
            rng.normal(95, 14, rows),
        ]
    )


def errors(level, H):
    """Standard errors with privacy and without, from the bound (the release attains it)."""
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=VARIANCE))
    found = pv.bound(model, pv.PrivacyLevel(float(level)))
    return np.sqrt(np.diagonal(found.ppcrlb)), np.sqrt(np.diagonal(found.classical)), found


def part(found, estimate, chosen):
    """The result of some coefficients."""
    two = np.ix_(chosen, chosen)
    return Result(
        estimate=estimate[list(chosen)],
        covariance=found.ppcrlb[two],
        classical=found.classical[two],
        names=tuple(NAMES[j] for j in chosen),
    )


OWN = {field.name for field in fields(Outcome)}


def changed(given, **new):
    """The same facts with other fields, of them or of their one outcome."""
    own = {name: new.pop(name) for name in list(new) if name in OWN}
    (one,) = given.outcomes
    return replace(given, outcomes=(replace(one, **own),), **new)


def facts(**changed):
    """The facts of a report, some of them or of its one outcome changed."""
    H = design()
    _, plain, found = errors(LEVEL, H)
    rng = np.random.default_rng(11)
    z = H @ THETA + rng.normal(size=ROWS) * np.sqrt(VARIANCE + 1 / LEVEL)
    trail = Trail()
    for k in range(30, ROWS + 1, 6):
        inverse = np.linalg.inv(H[:k].T @ H[:k])
        error = np.sqrt(np.diagonal(inverse) * (VARIANCE + 1 / LEVEL))
        trail.add(k - 1, inverse @ H[:k].T @ z[:k], error)
    estimate = np.linalg.lstsq(H, z, rcond=None)[0]
    levels = np.geomspace(LEVEL / 100, LEVEL * 100, 25)  # the chosen one in the middle
    epsilons = [pv.PrivacyLevel(float(s)).to_epsilon(delta=DELTA, move=MOVE) for s in levels]
    told = {
        "response": "log triglycerides",
        "result": part(found, estimate, range(5)),
        "level": LEVEL,
        "noise_variance": VARIANCE,
        "epsilon": pv.PrivacyLevel(LEVEL).to_epsilon(delta=DELTA, move=MOVE),
        "delta": DELTA,
        "move": MOVE,
    }
    own = {name: changed.pop(name) for name in list(changed) if name in OWN}
    given = {
        "outcomes": (Outcome(**told | own),),
        "rows": ROWS,
        "simulated": True,
        "commands": COMMANDS,
        "provenance": Provenance(
            table="release.csv",
            checksum="a1" * 32,
            sha256="b2" * 32,
            ledger="none",
            version="0.0",
            date="1 April 2026",
        ),
        "curve": Curve(
            NAMES,
            levels,
            np.array([errors(s, H)[0] for s in levels]),
            plain,
            np.array(epsilons),
            {NAMES[3]: 2.2 * plain[3]},
        ),
        "pair": part(found, estimate, (3, 4)),
        "trail": trail,
    }
    return Facts(**given | changed)
