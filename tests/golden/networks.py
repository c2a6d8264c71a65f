"""Golden results of the public calls of `network` and of `mechanism.OutputPerturbation`.

    cases()     plain arrays and choices
    call_*      the only part that names public calls; edit these when names change
    records()   runs one case; the result is a tree of lists

GOLDEN=write python tests/golden/networks.py writes networks/*.json; `test_networks` compares.
"""

import json
import math
import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import privest as pv
from privest import mechanism, network
from privest.network._sensor import SensorRelease

HERE = Path(__file__).parent / "networks"
FILES = ("network", "pipeline")
DIGITS = 15


@dataclass
class Case:
    """A call by name, and what it is given; `file` is where its results are kept."""

    file: str
    call: str
    given: dict = field(default_factory=dict)


# --- cases: plain arrays -----------------------------------------------------------------------


def sensor_arrays(seed, count=6, n=2, kind="numbers"):
    """Rows, noise and level of some sensors."""
    rng, made = np.random.default_rng(seed), []
    for i in range(count):
        m = 1 + i % 3 if kind != "one row" else 1
        noise, level = 0.3 + 0.1 * i, float(rng.uniform(0.2, 3.0))
        if kind == "matrices":
            root, other = rng.standard_normal((2, m, m))
            noise, level = root @ root.T + np.eye(m), other[:, : max(1, m - 1)]
            level = level @ level.T
        if kind == "laplace":
            noise = "laplace"
        made.append({"H": rng.standard_normal((m, n)), "noise": noise, "level": level})
    return made


def network_cases():
    made = {}
    for kind in ("numbers", "matrices", "laplace", "one row"):
        given = {"sensors": sensor_arrays(1, kind=kind), "seed": 2}
        made[f"fuse {kind}"] = Case("network", "fuse", given)
        made[f"fuse {kind}, real noise"] = Case("network", "fuse", {**given, "grid": 2.0**-10})
    made["fuse trials"] = Case("network", "fuse", {"sensors": sensor_arrays(3), "seed": 4,
                                                   "trials": 3})  # fmt: skip
    made["fuse missing"] = Case("network", "fuse", {"sensors": sensor_arrays(5), "seed": 6,
                                                    "missing": [1, 2]})  # fmt: skip
    graphs = {
        "ring": ("ring", 6), "star": ("star", 6), "grid": ("grid", 2, 3),
        "geometric": ("geometric", np.random.default_rng(7).random((6, 2)), 0.7),
        "edges": ("edges", [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [1, 4]]),
        "networkx": ("networkx",),
    }  # fmt: skip
    for kind, graph in graphs.items():
        for method in ("plain", "chebyshev"):
            given = {"sensors": sensor_arrays(8), "seed": 9, "graph": graph, "method": method}
            made[f"consensus {kind} {method}"] = Case("network", "consensus", given)
    base = {"sensors": sensor_arrays(10), "seed": 11, "method": None}
    parts = [[[0, 1], [2, 3]], [[1, 2], [4, 5]], [[3, 4]]]
    made["consensus varying"] = Case("network", "consensus", {**base, "graph": ("varying", parts)})
    made["consensus lossy"] = Case("network", "consensus", {**base, "graph": ("lossy", 0.3, 12)})
    ring = ("ring", 6)
    made["consensus trials"] = Case("network", "consensus",
                                    {**base, "graph": ring, "trials": 2})  # fmt: skip
    made["consensus tight"] = Case("network", "consensus",
                                   {**base, "graph": ring, "tolerance": 1e-10})  # fmt: skip
    made["consensus many"] = Case("network", "many", {"agents": 12_000, "seed": 13})
    y = np.random.default_rng(14).normal(5.0, 2.0, 6)
    for method in ("plain", "chebyshev"):
        made[f"average {method}"] = Case("network", "average",
                                         {"y": y, "level": 0.5, "method": method})  # fmt: skip
    made["average of levels"] = Case("network", "average",
                                     {"y": y, "level": np.arange(1.0, 7.0)})  # fmt: skip
    made["average trials"] = Case("network", "average", {"y": np.stack([y, -y]), "level": 2.0})
    made["average lossy"] = Case("network", "average",
                                 {"y": y, "level": 2.0, "graph": ("lossy", 0.2, 15)})  # fmt: skip
    missing = np.where(np.arange(6) == 2, np.nan, y)
    made["average, real"] = Case("network", "real_average", {"y": y, "level": 0.5})
    made["average, real, missing"] = Case("network", "real_average", {"y": missing, "level": 4.0})
    made |= {f"refused {name}": Case("network", "refused", {"name": name}) for name in REFUSED}
    return made


def design(seed, rows=120, n=2):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(rows), 3 * rng.standard_normal((rows, n - 1))])


def pipeline_cases():
    made = {}
    laws = {
        "gaussian": ("Gaussian", {"cov": 0.5}), "laplace": ("Laplace", {"scale": 0.7}),
        "logistic": ("Logistic", {"scale": 0.5}), "student": ("StudentT", {"df": 4.0}),
        "cauchy": ("Cauchy", {"scale": 1.0}), "uniform": ("Uniform", {"half_width": 1.0}),
        "mixture": ("GaussianMixture", {"weights": (0.8, 0.2), "means": (-0.5, 2.0),
                                        "sds": (0.6, 1.5)}),
    }  # fmt: skip
    scores = {
        "optimal": {"score": "optimal"}, "likelihood": {"score": "likelihood"},
        "least squares": {"score": "least_squares"}, "one step": {"score": "one_step"},
    }  # fmt: skip
    for i, (name, law) in enumerate(laws.items()):
        for kind, how in scores.items():
            given = {"H": design(20 + i), "law": law, "budget": 120.0, "seed": 30 + i, **how}
            made[f"{kind} {name}"] = Case("pipeline", "pipeline", given)
    laplace = {"H": design(40), "law": laws["laplace"], "budget": 120.0, "seed": 41}
    for width in (0.05, 0.4, "best"):
        made[f"bandwidth {width}"] = Case("pipeline", "pipeline", {
            **laplace, "score": "likelihood", "bandwidth": width})  # fmt: skip
    three = {"H": design(42, 400, 3), "law": laws["logistic"], "budget": 50.0, "seed": 43}
    for kind, how in scores.items():
        for shape in ("paper", "weight", "singular"):
            more = {"paper": {"shape": "paper"}, "weight": {"weight": np.diag([1.0, 4.0, 0.5])},
                    "singular": {"weight": np.diag([1.0, 0.0, 1.0])}}[shape]  # fmt: skip
            made[f"{kind}, {shape}"] = Case("pipeline", "pipeline", {**three, **how, **more})
    made["least squares, noise"] = Case("pipeline", "pipeline", {
        **three, "score": "least_squares", "noise": ("Laplace", {"scale": 2.0})})  # fmt: skip
    few = {"H": np.ones((10, 1)), "law": laws["cauchy"], "budget": 10.0,
           "y": [0.0, 0.3, -0.4, 1.2, -0.1, 6.0, 6.3, 5.6, 7.1, 5.2]}  # fmt: skip
    made["few, one_step"] = Case("pipeline", "holder", {**few, "score": "one_step"})
    large = {"H": design(44, 70_000, 3), "budget": 7e4, "seed": 45}
    for name in ("laplace", "student"):
        made[f"large {name}"] = Case("pipeline", "estimate",
                                     {**large, "law": laws[name], "score": "optimal"})  # fmt: skip
    made["missing"] = Case("pipeline", "missing", {**laplace, "score": "optimal"})
    wrong = {
        "jump": {"score": "likelihood"}, "leverage": {"H": np.eye(12)[:, :2]},
        "few": {"H": design(1, 8)},
        "several roots": {"law": laws["cauchy"], "real": True},
        "no variance": {"law": laws["cauchy"], "score": "least_squares"},
        "budget": {"budget": -1.0}, "wide": {"y": 100.0 * np.arange(120)},
    }  # fmt: skip
    for name, how in wrong.items():
        made[f"refused: {name}"] = Case("pipeline", "refusal",
                                        {**laplace, "score": "optimal", **how})  # fmt: skip
    return made


def cases():
    return network_cases() | pipeline_cases()


# --- calls: the names of the package -------------------------------------------------------------


def call_law(name, arguments):
    return getattr(pv.noise, name)(**arguments)


def call_sensor(given):
    noise = given["noise"]
    noise = pv.noise.Laplace(0.6) if isinstance(noise, str) else pv.noise.Gaussian(cov=noise)
    level = given["level"]
    level = pv.PrivacyLevel(level) if isinstance(level, float) else level
    return network.Sensor(given["H"], noise, level)


def call_release(sensor, values, grid):
    return SensorRelease(values, sensor.level.fingerprint, grid == 0, grid)


def call_bound(sensors):
    return pv.bound(*network.joint_model(sensors))


def call_graph(kind, *what):
    if kind == "networkx":
        import networkx

        return networkx.wheel_graph(6)
    if kind == "geometric":
        return network.Graph.random_geometric(*what)
    if kind == "edges":
        return network.Graph(what[0])
    if kind == "varying":
        return network.TimeVarying([network.Graph(edges, 6) for edges in what[0]])
    if kind == "lossy":
        return network.TimeVarying([network.Graph.ring(6)], loss=what[0], rng=what[1])
    return getattr(network.Graph, kind)(*what)


def call_consensus(parts, graph, **options):
    return network.consensus(parts, graph, **options)


def call_average(y, level, graph, rng, method):
    sensor = network.Sensor(np.ones((np.shape(y)[-1], 1)), 1.0, level)
    return network.average(sensor.simulate(y, rng), graph, method=method)


def call_real_average(y, level, graph):
    sensor = network.Sensor(np.ones((len(y), 1)), 1.0, level)
    return network.average(sensor.release(y), graph)


def call_many(H, z):
    """x_i = h_i √s z̃_i/(1 + sσ²), r_i = h_ih_iᵀ s/(1 + sσ²): s = 2, σ² = 0.3."""
    x = H * (np.sqrt(2.0) / 1.6 * z)[:, None]
    return network.Contribution(x, 2.0 / 1.6 * H[:, :, None] * H[:, None, :])


def call_pipeline(model, budget, score, **more):
    return mechanism.OutputPerturbation(model, budget, score=score, **more)


def call_holder(release, y):
    return release.for_data_owner(y)


def _two():
    return [network.Sensor([[1.0, 0.0]], 1.0, 1.0), network.Sensor([[0.0, 1.0]], 1.0, 1.0)]


def _parts():
    rng = np.random.default_rng(0)
    return [one.contribution(one.simulate([1.0], rng)) for one in _two()]


PAIR = ("edges", [[0, 1]])
REFUSED = {
    "hidden": lambda: network.fuse(
        _two()[:1], [_two()[0].simulate([1.0], np.random.default_rng(0))]),
    "hidden in consensus": lambda: call_consensus(_parts()[:1] * 2, call_graph(*PAIR)),
    "release of another level": lambda: _two()[0].contribution(
        network.Sensor([[1.0, 0.0]], 1.0, 2.0).simulate([1.0], np.random.default_rng(0))),
    "pieces": lambda: call_consensus(_parts() * 2, call_graph("edges", [[0, 1], [2, 3]])),
    "number of agents": lambda: call_consensus(_parts(), call_graph("ring", 3)),
    "chebyshev varying": lambda: call_consensus(
        _parts(), call_graph("varying", [[[0, 1]]]), method="chebyshev"),
    "method": lambda: call_consensus(_parts(), call_graph(*PAIR), method="fast"),
    "tolerance": lambda: call_consensus(_parts(), call_graph(*PAIR), tolerance=1e-30),
    "rounds": lambda: call_consensus(
        _parts() * 3, call_graph("ring", 6), tolerance=1e-9, max_rounds=1),
    "average at level 0": lambda: call_average(
        [1.0, 2.0, 3.0], [1.0, 0.0, 1.0], call_graph("ring", 3), np.random.default_rng(0), None),
    "average of a full level": lambda: call_average(
        [1.0, 2.0, 3.0], np.eye(3) + 0.1, call_graph("ring", 3), np.random.default_rng(0), None),
    "average of nobody": lambda: call_real_average(np.full(3, np.nan), 1.0, call_graph("ring", 3)),
    "loop": lambda: call_graph("edges", [[0, 0]]),
}  # fmt: skip


# --- records -------------------------------------------------------------------------------------


def made_sensors(given):
    """Sensors, and releases z̃ = Lᵀy + e of a seeded simulation."""
    sensors, rng = (
        [call_sensor(one) for one in given["sensors"]],
        np.random.default_rng(given["seed"]),
    )
    trials, releases = given.get("trials"), []
    for i, sensor in enumerate(sensors):
        shape = (sensor.measurements,) if trials is None else (trials, sensor.measurements)
        y = rng.standard_normal(shape) + 1.0
        release = sensor.simulate(y, rng)
        if "grid" in given:
            grid = given["grid"]
            release = call_release(sensor, np.round(release.values / grid) * grid, grid)
        if i in given.get("missing", ()):
            first = np.arange(release.values.shape[-1]) == 0
            release = call_release(sensor, np.where(first, np.nan, release.values), 0.0)
        releases.append(release)
    return sensors, releases


def record_fuse(given):
    sensors, releases = made_sensors(given)
    found, floor = network.fuse(sensors, releases), call_bound(sensors)
    parts = [one.contribution(z) for one, z in zip(sensors, releases)]
    return {
        "values": [z.values for z in releases],
        "x": [part.x for part in parts],
        "r": [part.r for part in parts],
        "exposed": [one.exposed for one in sensors],
        "estimate": found.value,
        "covariance": found.covariance,
        "sampling": found.sampling,
        "classical": found.classical,
        "bound": found.bound,
        "simulated": found.simulated,
        "floor": floor.covariance,
        "floor, classical": floor.classical,
    }


def consensus_record(found):
    own = found.result(1)
    return {
        "estimates": found.estimates[:8],
        "rounds": found.rounds,
        "method": found.method,
        "agents": found.agents,
        "predicted": found.predicted_rounds,
        "certified": found.certified_error,
        "agent covariance": own.covariance,
        "simulated": found.simulated,
    }


def record_consensus(given):
    sensors, releases = made_sensors(given)
    parts = [one.contribution(z) for one, z in zip(sensors, releases)]
    options = {"method": given["method"], "tolerance": given.get("tolerance", 1e-6)}
    found = call_consensus(parts, call_graph(*given["graph"]), trace=True, **options)
    return consensus_record(found) | {"trace": found.trace[[0, 1, len(found.trace) // 2, -1]]}


def record_many(given):
    rng = np.random.default_rng(given["seed"])
    H, z = rng.standard_normal((given["agents"], 3)), rng.standard_normal(given["agents"])
    return consensus_record(call_consensus(call_many(H, z), call_graph("grid", 100, 120)))


def variance(found):
    """(N r̄)⁻¹: the rounds keep the mean of the r_i."""
    return float(1.0 / found.informations.sum())


def record_average(given):
    graph = call_graph(*given.get("graph", ("ring", 6)))
    rng = np.random.default_rng(16)
    found = call_average(given["y"], given["level"], graph, rng, given.get("method"))
    values = found.estimates[..., 0]
    return {"values": values.T, "variance": variance(found),
            "rounds": found.rounds, "method": found.method,
            "simulated": found.simulated}  # fmt: skip


def record_real_average(given):
    found = call_real_average(given["y"], given["level"], call_graph("ring", 6))
    return {"variance": variance(found), "method": found.method,
            "simulated": found.simulated, "grid": 2.0**-10, "shape": [len(found.estimates)],
            "certified": found.certified_error <= 1e-6}  # fmt: skip


def record_refused(given):
    try:
        REFUSED[given["name"]]()
    except Exception as error:
        return {"error": type(error).__name__}
    return {"error": None}


def made_pipeline(given):
    model = pv.LinearModel(given["H"], noise=call_law(*given["law"]))
    more = {name: given[name] for name in ("bandwidth", "shape", "weight") if name in given}
    if "noise" in given:
        more["noise"] = call_law(*given["noise"])
    return model, call_pipeline(model, given["budget"], given["score"], **more)


def record_pipeline(given):
    try:
        model, own = made_pipeline(given)
    except pv.errors.PrivestError as error:
        return {"error": type(error).__name__}
    rng = np.random.default_rng(given["seed"])
    y = model.sample(np.arange(1.0, model.parameters + 1), rng, 3)
    made = {
        "loss": own.loss,
        "limit": own.limit_loss,
        "private_bound": own.private_bound,
        "privacy": own.privacy,
        "sampling": own.sampling,
        "classical": own.classical,
        "information_scale": own.information_scale,
        "estimate": own.estimate(y),
        "noisy": own.simulate(y, rng).value,
        "ratios": np.quantile(own.ratios(rng, 40), [0.1, 0.5, 0.9]),
        "holder": holder_record(own, y[0]),
    }
    try:
        released = own.release(y[0])
    except pv.errors.NotReleasable:
        return made | {"release": "NotReleasable"}
    return made | {"release": released_record(own, released)}


def released_record(own, found):
    factor = 1.0 if own.finite is None else own.finite.factor
    loss = float(np.sum(own.shape.loss * found.covariance))
    return {"covariance": found.covariance, "loss": loss,
            "private_bound": own.private_bound, "simulated": found.simulated,
            "names": list(found.names), "factor": factor,
            "shape": list(found.value.shape)}  # fmt: skip


def holder_record(own, y):
    found = call_holder(own, y)
    return {"estimate": found.estimate, "realised": found.realised, "worst": found.worst}


def record_holder(given):
    return holder_record(made_pipeline(given)[1], np.array(given["y"]))


def record_estimate(given):
    model, own = made_pipeline(given)
    y = model.sample(np.arange(1.0, model.parameters + 1), np.random.default_rng(given["seed"]))
    return {"estimate": own.estimate(y), "sampling": own.sampling}


def record_missing(given):
    model, own = made_pipeline(given)
    y = model.sample([1.0, 2.0], np.random.default_rng(given["seed"]))
    y[[3, 50]] = np.nan
    smaller = made_pipeline({**given, "H": np.delete(given["H"], [3, 50], axis=0)})[1]
    return {"release": released_record(smaller, own.release(y))}


def record_refusal(given):
    try:
        model, own = made_pipeline(given)
        y = given.get("y")
        if y is None:
            y = model.sample([1.0, 2.0], np.random.default_rng(given["seed"]))
        if given.get("real"):
            own.release(y)
        own.simulate(y, np.random.default_rng(0))
    except Exception as error:
        return {"error": type(error).__name__}
    return {"error": None}


def plain(value):
    """Lists, numbers of 15 digits, texts; NaN and ∞ as texts, which JSON has not."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def records(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(globals()[f"record_{case.call}"](case.given))


def stored():
    """All kept results by the name of their case."""
    found = {}
    for name in FILES:
        found |= json.loads((HERE / f"{name}.json").read_text())
    return found


def write(wanted=""):
    """All cases, or those whose names contain a text: the others stay as they are."""
    made, before = {name: {} for name in FILES}, stored() if wanted else {}
    for name, case in cases().items():
        made[case.file][name] = records(case) if wanted in name else before[name]
    for name, content in made.items():
        lines = [f"{json.dumps(key)}:{json.dumps(one)}" for key, one in content.items()]
        (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if os.environ.get("GOLDEN") != "write":
        raise SystemExit("GOLDEN=write python tests/golden/networks.py [part of a name]")
    write(*sys.argv[1:2])
