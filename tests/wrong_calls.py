"""Valid calls of public names, and the same with one argument replaced by a wrong value.

`python tests/wrong_calls.py [full]` prints one line for each call that ended in anything but an
answer or a documented error: an error of `privest.errors`, or a TypeError. A process of its own: a
call that does not end within LIMIT seconds is interrupted, and told too.
"""

import itertools
import signal
import sys
import warnings
from decimal import Decimal
from functools import reduce

import numpy as np

import privest as pv
import privest.workflow.spec  # its classes are named below
from privest import (
    dynamics,
    mechanism,
    network,
    noise,
)
from privest.errors import PrivestError

LIMIT = 20  # seconds for one call
SOME = 4  # wrong values for each argument in the quick run, in turn

H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
MODEL = pv.LinearModel(H, noise=1.0)
GAUSS, SMOOTH = noise.Laplace(1.0), noise.Logistic(1.0)
ENDLESS = pv.StreamLevel.constant(1.0)
WALK = dynamics.StateSpace(A=0.9, C=1.0, Q=1.0, R=0.5, cov0=1.0)
BENT = dynamics.NonlinearStateSpace(lambda x: 0.9 * x, lambda x: x, 1.0, 0.5, [0.0], 1.0)
ROWS = np.column_stack([np.ones(12), np.arange(12.0)])
READINGS = np.sin(np.arange(12.0))
RELEASE = pv.StreamMechanism(ENDLESS).simulate(READINGS, np.random.default_rng(0))
RING = network.Graph.ring(4)
AVERAGED = network.Sensor(np.ones((4, 1)), 1.0, 1.0).simulate(np.zeros(4), np.random.default_rng(0))
SENSOR = network.Sensor(H, noise.Gaussian(cov=1.0), 1.0)
SCORES = mechanism.OutputPerturbation(pv.LinearModel(ROWS, noise=GAUSS), 1.0, score="least_squares")


def rng():
    return np.random.default_rng(0)


# Dotted name → the arguments of a valid call.
CALLS = {
    "model.LinearModel": {"matrix": H, "noise": 1.0, "names": ["a", "b"], "accuracy": 0.0},
    "model.NonlinearModel": {"function": lambda t: H @ t, "noise": 1.0, "names": ["a", "b"]},
    "bound": {"model": MODEL, "level": 1.0, "prior": np.eye(2)},
    "bounds.sweep": {"model": MODEL, "levels": [0.5, 1.0]},
    "bounds.consensus_bound": {"level": 1.0, "agents": 3},
    "bounds.prior_information": {"model": MODEL, "prior": np.eye(2)},
    "bounds.release_level": {"model": MODEL, "total": 10.0, "prior": np.eye(2)},
    "bounds.trace_bound": {"model": MODEL, "budget": 1.0, "weight": np.eye(2)},
    "identifiability": {"model": MODEL, "level": 1.0},
    "privacy.Adjacency.block": {"by": 1.0, "size": 2},
    "privacy.Adjacency.measurement": {"by": 1.0},
    "privacy.Adjacency.record": {"by": [1.0, 2.0]},
    "PrivacyLevel": {"value": np.eye(2)},
    "PrivacyLevel.from_epsilon": {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0},
    "PrivacyLevel.from_mu": {"mu": 1.0, "sensitivity": 1.0},
    "PrivacyLevel.from_rho": {"rho": 1.0, "sensitivity": 1.0},
    "PrivacyLevel.from_attacker": {"distance": 1.0, "success": 0.7},
    "StreamLevel": {"S": np.ones((3, 1, 1))},
    "StreamLevel.constant": {"S": 1.0, "lags": [0.5], "steps": 3},
    "privacy.Range": {"low": 0.0, "high": 1.0},
    "privacy.as_level": {"given": 1.0},
    "privacy.as_stream_level": {"given": 1.0, "steps": 3, "measurements": 1},
    "privacy.grid_statement": {
        "level": 1.0, "sensitivity": 1.0, "delta": 1e-6,
    },
    "privacy.rows_statement": {
        "rows": [1.0, 2.0], "sensitivity": 1.0, "law": "gaussian", "delta": 1e-6,
    },
    "privacy.epsilon_of": {"mu": 1.0, "delta": 1e-6},
    "privacy.mu_of": {"epsilon": 1.0, "delta": 1e-6},
    "privacy.metric_trace": {"epsilon": 1.0, "measurements": 3},
    "privacy.gdp.delta_of": {"mu": 1.0, "epsilon": 1.0},
    "noise.Bump": {"p": 2.0},
    "noise.Cauchy": {"scale": 1.0},
    "noise.CosSquared": {"half_width": 1.0},
    "noise.Gaussian": {"cov": 1.0, "mean": 0.0},
    "noise.GaussianMixture": {"weights": (0.5, 0.5), "means": (0.0, 1.0), "sds": (1.0, 2.0)},
    "noise.Laplace": {"scale": 1.0},
    "noise.Logistic": {"scale": 1.0},
    "noise.Staircase": {"epsilon": 1.0, "sensitivity": 1.0, "gamma": 0.5},
    "noise.StudentT": {"df": 3.0, "scale": 1.0},
    "noise.Uniform": {"half_width": 1.0},
    "noise.as_joint": {"noise": 1.0},
    "noise.from_logpdf": {
        "logpdf": lambda x: -0.5 * x**2, "support": (-np.inf, np.inf), "breaks": (),
        "normalise": True, "name": "bell",
    },
    "mechanism.Additive": {"law": GAUSS},
    "mechanism.BinaryQuantiser": {"law": SMOOTH, "threshold": 0.0},
    "mechanism.Componentwise": {
        "channels": mechanism.Additive(GAUSS), "matrix": np.eye(2), "offset": 0.0,
        "measurements": 2,
    },
    "mechanism.Gain": {"law": 1.0 + GAUSS, "truncate": 0.5},
    "GaussianMechanism": {"level": 1.0, "measurements": 2, "range": (0.0, 1.0)},
    "mechanism.GeometricPerturbation": {"measurements": 2, "variance": 1.0},
    "mechanism.LaplaceQuantiser": {"step": 1.0, "scale": 1.0},
    "mechanism.PrivacyWeights": {"weight_variance": 1.0, "variance": 1.0},
    "mechanism.ProbabilisticQuantiser": {"step": 1.0, "dither": "triangular"},
    "mechanism.StreamMechanism": {"level": 1.0, "range": (0.0, 1.0)},
    "design.allocate": {
        "model": MODEL, "budget": 1.0, "criterion": "A", "weight": np.eye(2), "cost": 1.0,
        "cap": 1.0, "groups": [0, 0, 1, 1], "persons": [0, 0, 1, 1], "person_cap": 1.0,
        "shape": "diagonal",
    },
    "design.optimality_gap": {
        "model": MODEL, "level": np.ones(4), "budget": 4.0, "cost": 1.0, "cap": 2.0,
    },
    "design.least_loss": {
        "model": MODEL, "target": 5.0, "loss": "total", "cost": 1.0, "cap": 100.0,
    },
    "design.sample_size": {"model": MODEL, "target": {"θ[0]": 0.5}, "level": 1.0},
    "design.schedule": {"model": MODEL, "budget": 1.0, "cost": 1.0, "cap": 1.0},
    "dynamics.AR": {"order": 1, "noise": False, "mean": True},
    "dynamics.ARMA": {"p": 1, "q": 1},
    "dynamics.ARX": {"order": 1, "inputs": 1, "lags": 1},
    "dynamics.LocalLevel": {"noise": True},
    "dynamics.LocalTrend": {"noise": True},
    "dynamics.RegressionAR": {"order": 1, "regressors": 1},
    "dynamics.Seasonal": {"period": 4, "trend": "level"},
    "dynamics.StateSpace": {
        "A": 0.9, "C": 1.0, "Q": 1.0, "R": 0.5, "mean0": 0.0, "cov0": 1.0, "B": [[1.0]],
        "D": [[1.0]], "diffuse": [True],
    },
    "dynamics.NonlinearStateSpace": {
        "transition": lambda x: x, "measurement": lambda x: x, "Q": 1.0, "R": 1.0, "mean0": [0.0],
        "cov0": 1.0, "inputs": 0,
    },
    "dynamics.PrivateKalman": {"system": WALK, "level": 1.0, "lag": 2},
    "dynamics.best_directions": {"system": WALK, "budget": 1.0},
    "dynamics.filter": {
        "system": BENT, "level": ENDLESS, "release": RELEASE, "method": "unscented",
    },
    "dynamics.fit": {"family": "level-noise", "level": ENDLESS, "release": RELEASE},
    "dynamics.local_bound": {"system": BENT, "level": 1.0, "states": np.zeros((3, 1))},
    "dynamics.parameter_bound": {
        "family": "ar1-mean", "theta": [0.5, 1.0], "level": 1.0, "steps": 20,
        "missing": [False] * 20,
    },
    "dynamics.steady_state": {"system": WALK, "level": 1.0},
    "network.Graph": {"edges": [[0, 1], [1, 2]], "agents": 3},
    "network.Sensor": {"matrix": H, "noise": noise.Gaussian(cov=1.0), "level": 1.0},
    "network.joint_model": {"sensors": [SENSOR]},
    "network.average": {
        "release": AVERAGED, "graph": RING, "tolerance": 1e-6,
        "max_rounds": 1000,
    },
    "network.TimeVarying": {"graphs": [RING], "loss": 0.1, "rng": 0},
    "mechanism.OutputPerturbation": {
        "model": pv.LinearModel(ROWS, noise=SMOOTH), "budget": 1.0, "score": "likelihood",
        "bandwidth": 0.5, "shape": "trace", "weight": np.eye(2),
    },
    "estimator.PrivateRLS": {
        "level": 1.0, "parameters": 2, "noise": 1.0, "classical": False,
    },
    "estimator.clipping_cost": {
        "model": pv.LinearModel(ROWS, noise=1.0), "level": 1.0, "range": (-1.0, 2.0),
        "theta": [0.0, 0.1],
    },
    "audit.fisher_information": {
        "mechanism": mechanism.Additive(SMOOTH), "y": [0.0], "samples": 1000, "rng": rng,
        "confidence": 0.9,
    },
    "ledger.Budget": {"level": 1.0},
    "ledger.Cost": {"information": 1.0},
    "ledger.cost_of": {"level": 1.0, "sensitivity": 1.0, "start": 0, "stop": 3},
    "workflow.spec.Model": {
        "target": "y", "features": ("x",), "formula": None, "categories": {}, "intercept": True,
        "transform": "none", "family": "gaussian", "missing": "refuse", "weights": "w",
        "person": "who", "most_rows": 2,
    },
    "workflow.spec.Privacy": {
        "level": 1.0, "delta": 1e-6, "range": {"y": (0.0, 1.0)}, "sensitivity": 1.0,
        "distribution": "gaussian",
    },
    "workflow.spec.Public": {"residual_variance": 1.0, "expected": {"x": 1.0}},
}  # fmt: skip


class Strange:
    """Nothing that anybody takes."""


WRONG = {
    "None": lambda: None,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-1": lambda: -1,
    "0": lambda: 0,
    "1e300": lambda: 1e300,
    "1e-300": lambda: 1e-300,
    "-0.5": lambda: -0.5,
    "empty": lambda: np.zeros(0),
    "[]": list,
    "()": tuple,
    "{}": dict,
    "(3, 0)": lambda: np.zeros((3, 0)),
    "ones(7)": lambda: np.ones(7),
    "ones(2, 7)": lambda: np.ones((2, 7)),
    "ones(2, 2, 2, 2)": lambda: np.ones((2, 2, 2, 2)),
    "zeros(2, 2)": lambda: np.zeros((2, 2)),
    "nan array": lambda: np.array([np.nan, 1.0]),
    "text": lambda: "no such thing",
    "''": lambda: "",
    "True": lambda: True,
    "object array": lambda: np.array([Strange(), None], dtype=object),
    "complex": lambda: 1j,
    "complex array": lambda: np.ones(2, dtype=complex),
    "10**400": lambda: 10**400,
    "-10**30": lambda: -(10**30),
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "text array": lambda: np.array(["a", "b"]),
    "Decimal": lambda: Decimal("1.5"),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "object": Strange,
    "type": lambda: int,
    "bytes": lambda: b"1",
    "date": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
}


class Slow(Exception):
    """The limit of time."""


def _late(*_):
    raise Slow


def fresh(value):
    """A generator for each call."""
    return value() if value is rng else value


def outcome(call, arguments):
    """None for an answer or a documented error, else what came instead."""
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        call(**{name: fresh(value) for name, value in arguments.items()})
    except (PrivestError, TypeError):
        return None
    except Slow:
        return f"no end within {LIMIT} s"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:160]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def main(full, only=""):
    """Print every undocumented outcome, then how many calls of how many names there were."""
    signal.signal(signal.SIGALRM, _late)
    warnings.simplefilter("error")
    count, turn = 0, itertools.count()
    listed = list(WRONG)
    for name, valid in CALLS.items():
        if only not in name:
            continue
        call = reduce(getattr, name.split("."), pv)
        try:
            call(**{key: fresh(value) for key, value in valid.items()})
        except Exception as error:
            print(f"{name}: the valid call is refused: {error!r}")
            continue
        for parameter in valid:
            chosen = listed if full else [listed[next(turn) % len(listed)] for _ in range(SOME)]
            for wrong in chosen:
                found = outcome(call, valid | {parameter: WRONG[wrong]()})
                count += 1
                if found is not None:
                    print(f"{name}({parameter}={wrong}): {found}", flush=True)
    print(f"{count} calls of {len(CALLS)} names")


if __name__ == "__main__":
    main("full" in sys.argv, next((a for a in sys.argv[1:] if a != "full"), ""))
