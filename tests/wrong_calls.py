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
from privest import (
    dynamics,
    mechanism,
    network,
    noise,
    pipeline,
)
from privest.errors import PrivestError

LIMIT = 20  # seconds for one call
SOME = 4  # wrong values for each argument in the quick run, in turn

H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
MODEL = pv.LinearModel(H, noise=1.0)
GAUSS, SMOOTH = noise.Laplace(1.0), noise.Logistic(1.0)
ENDLESS = pv.EndlessLevel(1.0)
WALK = dynamics.StateSpace(A=0.9, C=1.0, Q=1.0, R=0.5, cov0=1.0)
BENT = dynamics.NonlinearStateSpace(lambda x: 0.9 * x, lambda x: x, 1.0, 0.5, [0.0], 1.0)
ROWS = np.column_stack([np.ones(12), np.arange(12.0)])
READINGS = np.sin(np.arange(12.0))
RELEASE = pv.StreamMechanism(ENDLESS).simulate(READINGS, np.random.default_rng(0))
FILTERED = dynamics.filter(WALK, RELEASE, level=ENDLESS)
RING = network.Graph.ring(4)
SENSOR = network.Sensor(H, noise.Gaussian(cov=1.0), 1.0)
SCORES = pipeline.OutputPerturbation(pv.LinearModel(ROWS, noise=GAUSS), 1.0, score="least_squares")


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
    "bounds.stream_estimates": {"model": MODEL, "level": 1.0, "releases": np.ones(4)},
    "bounds.trace_bound": {"model": MODEL, "budget": 1.0, "weight": np.eye(2)},
    "identifiability": {"model": MODEL, "level": 1.0},
    "privacy.AdjacentSteps": {"by": 1.0, "steps": 2},
    "privacy.Along": {"direction": [1.0, 0.0]},
    "privacy.EndlessLevel": {"S": 1.0, "lags": [0.5]},
    "privacy.OneBlock": {"by": 1.0, "sizes": [2, 2]},
    "privacy.OneReading": {"by": 1.0},
    "privacy.OneRecord": {"by": [1.0, 2.0]},
    "privacy.PrivacyLevel": {"value": np.eye(2)},
    "privacy.Range": {"low": 0.0, "high": 1.0},
    "privacy.StreamLevel": {"S": np.ones((3, 1, 1))},
    "privacy.as_level": {"given": 1.0},
    "privacy.as_stream_level": {"given": 1.0, "steps": 3, "readings": 1},
    "privacy.coin_epsilon": {"coin": pv.privacy.coin_of(1.0)},
    "privacy.coin_of": {"level": 1.0, "range": (0.0, 1.0)},
    "privacy.grid_statement": {"level": 1.0, "move": 1.0, "delta": 1e-6, "readings": 4},
    "privacy.level_for_attacker": {"apart": 1.0, "chance": 0.7},
    "privacy.level_on_grid": {
        "epsilon": 1.0, "delta": 1e-6, "move": 1.0, "shape": pv.PrivacyLevel(1.0),
    },
    "privacy.person_level": {"epsilon": 1.0, "delta": 1e-6, "rows": 2, "move": 1.0},
    "privacy.person_statement": {"level": 1.0, "rows": 2, "move": 1.0, "delta": 1e-6},
    "privacy.pure_epsilon": {"law": "laplace", "level": 1.0, "width": 1.0},
    "privacy.pure_level": {"law": "laplace", "epsilon": 1.0, "width": 1.0},
    "privacy.relative_variance": {"law": "laplace", "epsilon": 1.0},
    "privacy.rows_statement": {"rows": [1.0, 2.0], "move": 1.0, "law": "gaussian", "delta": 1e-6},
    "privacy.gdp.delta_of": {"mu": 1.0, "epsilon": 1.0},
    "privacy.gdp.epsilon_of": {"mu": 1.0, "delta": 1e-6},
    "privacy.gdp.log_delta_of": {"mu": 1.0, "epsilon": 1.0},
    "privacy.gdp.mu_of": {"epsilon": 1.0, "delta": 1e-6},
    "privacy.gdp.mu_of_rho": {"rho": 1.0},
    "privacy.gdp.rho_of": {"mu": 1.0},
    "privacy.attacker.allowed_chance": {"epsilon": 1.0, "delta": 0.0},
    "privacy.attacker.as_if_level": {"error": 0.5, "spread": 1.0},
    "privacy.attacker.chance_between": {"level": 1.0, "apart": 1.0},
    "privacy.attacker.chance_of_mu": {"mu": 1.0},
    "privacy.attacker.chance_of_side": {"level": 1.0, "spread": 1.0},
    "privacy.attacker.coin_chance": {"epsilon": 1.0},
    "privacy.attacker.effective_rows": {"rows": 10, "level": 1.0, "variance": 1.0},
    "privacy.attacker.epsilon_for_chance": {"chance": 0.7},
    "privacy.attacker.informed_error": {"level": 1.0, "spread": 1.0},
    "privacy.attacker.laplace_chance": {"epsilon": 1.0},
    "privacy.attacker.level_for_tolerance": {"apart": 1.0, "chance": 0.7},
    "privacy.attacker.mu_for_chance": {"chance": 0.7},
    "privacy.attacker.neighbours_error": {"level": 1.0, "correlation": 0.5, "spread": 1.0},
    "privacy.attacker.odds_beyond": {"mu": 1.0, "epsilon": 1.0},
    "privacy.attacker.reading_error": {"level": 1.0},
    "privacy.metric.reading_trace_bound": {"epsilon": 1.0},
    "privacy.metric.trace_bound": {"epsilon": 1.0, "readings": 3},
    "noise.Affine": {"law": GAUSS, "shift": 0.0, "scale": 1.0},
    "noise.Bump": {"p": 2.0},
    "noise.Cauchy": {"scale": 1.0},
    "noise.CosSquared": {"half_width": 1.0},
    "noise.Gaussian": {"cov": 1.0, "mean": 0.0},
    "noise.GaussianLaw": {"variance": 1.0, "loc": 0.0},
    "noise.GaussianMixture": {"weights": (0.5, 0.5), "means": (0.0, 1.0), "sds": (1.0, 2.0)},
    "noise.Independent": {"laws": GAUSS, "scales": [1.0, 2.0]},
    "noise.Laplace": {"scale": 1.0},
    "noise.Logistic": {"scale": 1.0},
    "noise.MultivariateGaussian": {"cov": np.eye(2), "mean": [0.0, 0.0]},
    "noise.Staircase": {"epsilon": 1.0, "sensitivity": 1.0, "gamma": 0.5},
    "noise.StudentT": {"df": 3.0, "scale": 1.0},
    "noise.Uniform": {"half_width": 1.0},
    "noise.as_joint": {"noise": 1.0},
    "noise.fisher_information_by_quadrature": {
        "law": lambda x: -0.5 * x**2, "support": (-np.inf, np.inf), "landmarks": (0.0,),
        "normalise": True,
    },
    "noise.expected_squared_curvature_by_quadrature": {
        "law": lambda x: -0.5 * x**2, "support": (-np.inf, np.inf), "landmarks": (0.0,),
        "normalise": True,
    },
    "noise.from_logpdf": {
        "logpdf": lambda x: -0.5 * x**2, "support": (-np.inf, np.inf), "kinks": (), "scale": 1.0,
        "landmarks": (), "normalise": True, "name": "bell",
    },
    "mechanism.Additive": {"law": GAUSS},
    "mechanism.AffineMechanism": {
        "law": GAUSS, "matrix": np.eye(2), "spread": np.eye(2), "offset": 0.0,
    },
    "mechanism.BinaryQuantiser": {"law": SMOOTH, "threshold": 0.0},
    "mechanism.Componentwise": {
        "channels": mechanism.Additive(GAUSS), "matrix": np.eye(2), "offset": 0.0, "readings": 2,
    },
    "mechanism.Gain": {"law": GAUSS},
    "mechanism.GaussianMechanism": {"level": 1.0, "readings": 2, "range": (0.0, 1.0)},
    "mechanism.GeometricPerturbation": {"readings": 2, "variance": 1.0, "translation": 0.0},
    "mechanism.LaplaceQuantiser": {"step": 1.0, "scale": 1.0},
    "mechanism.PrivacyWeights": {"weight_variance": 1.0, "variance": 1.0},
    "mechanism.ProbabilisticQuantiser": {"step": 1.0},
    "mechanism.RandomisedResponse": {"epsilon": 1.0},
    "mechanism.Rotation": {"readings": 2},
    "mechanism.StreamMechanism": {"level": 1.0, "range": (0.0, 1.0), "parts": True},
    "mechanism.TriangularQuantiser": {"step": 1.0},
    "mechanism.TruncatedGain": {"law": GAUSS, "threshold": 0.5},
    "mechanism.TwinUniform": {"inner": 1.0, "outer": 2.0},
    "design.A": {"weight": np.eye(2)},
    "design.C": {"vector": [1.0, 0.0]},
    "design.E": {"weight": np.eye(2)},
    "design.Persons": {"labels": [0, 0, 1, 1], "most": 1.0, "measure": "trace"},
    "design.StandardErrors": {"wanted": {"a": 0.5}},
    "design.allocate": {
        "model": MODEL, "budget": 1.0, "cost": 1.0, "cap": 1.0, "groups": [0, 0, 1, 1],
        "shape": "diagonal", "tol": 1e-6,
    },
    "design.optimality_gap": {
        "model": MODEL, "level": np.ones(4), "budget": 4.0, "cost": 1.0, "cap": 2.0,
    },
    "design.equalised": {"model": MODEL, "target": 5.0, "cost": 1.0, "cap": 100.0},
    "design.least_loss": {"model": MODEL, "target": 5.0, "cost": 1.0, "cap": 100.0, "tol": 1e-6},
    "design.sample_size": {"model": MODEL, "level": 1.0, "target": {"θ[0]": 0.5}},
    "design.frontier": {"model": MODEL, "target": {"θ[0]": 0.5}, "sizes": [10, 20]},
    "design.spread": {"model": MODEL, "budget": 1.0, "cost": 1.0, "cap": 1.0, "tol": 1e-6},
    "dynamics.AR": {"order": 1, "noise": False, "mean": True},
    "dynamics.ARMA": {"p": 1, "q": 1},
    "dynamics.ARX": {"order": 1, "inputs": 1, "lags": 1, "delay": 1},
    "dynamics.LocalLevel": {"noise": True},
    "dynamics.LocalTrend": {"noise": True},
    "dynamics.RegressionAR": {"order": 1, "regressors": 1},
    "dynamics.Seasonal": {"period": 4, "trend": "level"},
    "dynamics.StateSpace": {
        "A": 0.9, "C": 1.0, "Q": 1.0, "R": 0.5, "mean0": 0.0, "cov0": 1.0, "B": [[1.0]],
        "D": [[1.0]], "cross": [[0.1]], "diffuse": [True],
    },
    "dynamics.NonlinearStateSpace": {
        "transition": lambda x: x, "reading": lambda x: x, "Q": 1.0, "R": 1.0, "mean0": [0.0],
        "cov0": 1.0, "inputs": 0,
    },
    "dynamics.PrivateKalman": {"system": WALK, "level": 1.0, "lag": 2},
    "dynamics.as_family": {"family": "ar1", "inputs": 0},
    "dynamics.best_directions": {"system": WALK, "budget": 1.0},
    "dynamics.diagnose": {"filtered": FILTERED, "lags": 3, "parameters": 0, "confidence": 0.9},
    "dynamics.filter": {
        "system": BENT, "level": ENDLESS, "release": RELEASE, "method": "unscented", "kappa": 1.0,
    },
    "dynamics.fit": {"family": "level-noise", "level": ENDLESS, "release": RELEASE},
    "dynamics.joined": {"releases": [RELEASE]},
    "dynamics.local_bound": {"system": BENT, "level": 1.0, "states": np.zeros((3, 1))},
    "dynamics.parameter_bound": {
        "family": "ar1-mean", "theta": [0.5, 1.0], "level": 1.0, "steps": 20,
        "missing": [False] * 20,
    },
    "dynamics.predict": {"filtered": FILTERED, "steps": 2},
    "dynamics.simulate_series": {"level": ENDLESS, "y": np.zeros((2, 3, 1)), "rng": rng},
    "dynamics.smooth": {"filtered": FILTERED},
    "dynamics.steady_state": {"system": WALK, "level": 1.0},
    "network.Graph": {"edges": [[0, 1], [1, 2]], "agents": 3},
    "network.Sensor": {"matrix": H, "noise": noise.Gaussian(cov=1.0), "level": 1.0},
    "network.joint_model": {"sensors": [SENSOR]},
    "network.private_average": {
        "y": np.zeros(4), "level": 1.0, "graph": RING, "rng": rng, "tolerance": 1e-6,
        "max_rounds": 1000,
    },
    "network.TimeVarying": {"graphs": [RING], "loss": 0.1, "rng": 0},
    "pipeline.OutputPerturbation": {
        "model": pv.LinearModel(ROWS, noise=SMOOTH), "budget": 1.0, "score": "likelihood",
        "bandwidth": 0.5, "shape": "trace", "weight": np.eye(2), "safety": 1.0,
    },
    "estimator.PrivateRLS": {
        "level": 1.0, "parameters": 2, "noise": 1.0, "classical": False, "blocks": False,
        "compiled": False,
    },
    "estimator.clipping_cost": {
        "H": ROWS, "theta": [0.0, 0.1], "variance": 1.0, "level": 1.0, "limits": (-1.0, 2.0),
    },
    "estimator.clipping_cost_by_share": {
        "variance": 1.0, "level": 1.0, "limits": (-1.0, 2.0), "shares": [0.1],
    },
    "estimator.reference_variance": {"H": ROWS, "y": READINGS},
    "audit.fisher_information": {
        "mechanism": mechanism.Additive(SMOOTH), "y": [0.0], "samples": 1000, "rng": rng,
        "confidence": 0.9,
    },
    "audit.naive_release": {"level": 1.0},
    "ledger.Budget": {"level": 1.0},
    "ledger.Cost": {"information": 1.0},
    "ledger.cost_of": {"level": 1.0, "move": 1.0, "start": 0, "stop": 3},
    "workflow.Model": {
        "target": "y", "features": ("x",), "formula": None, "categories": {}, "intercept": True,
        "transform": "none", "family": "gaussian", "missing": "refuse", "weights": "w",
        "person": "who", "most_rows": 2,
    },
    "workflow.Privacy": {
        "level": 1.0, "delta": 1e-6, "range": {"y": (0.0, 1.0)}, "sensitivity": 1.0,
        "units": {"y": 1.0}, "distribution": "gaussian",
    },
    "workflow.Public": {"residual_variance": 1.0, "expected": {"x": 1.0}},
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
