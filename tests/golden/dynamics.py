"""What the public calls of `privest.dynamics` give on small seeded cases: golden results.

    cases()     plain arrays: a system, a level, releases, inputs; no package is asked for them
    call_*      the only part that names public calls of the package; edit these when names change
    records()   runs one case; the result is a tree of lists

GOLDEN=write python tests/golden/dynamics.py writes dynamics/*.json; `test_dynamics` compares.
Releases come from numpy alone: z = TᵀY + e with S = TTᵀ, which need not be the root that the
package takes. A golden result pins what is made of given numbers, not how they were made.
"""

import json
import math
import os
import pickle
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import privest as pv
from privest import dynamics

HERE = Path(__file__).parent / "dynamics"
FILES = ("states", "fits")
DIGITS = 15
SHOWN = 2  # steps at each end of a series, and in its middle, that are kept
AHEAD = 4


# --- cases: plain arrays -----------------------------------------------------------------------


@dataclass
class Case:
    """A call by name, and what it is given; `file` is where its results are kept."""

    call: str
    given: dict = field(default_factory=dict)

    @property
    def file(self):
        return "fits" if self.call in ("fit", "regression", "parameter_bound") else "states"


def covariance(rng, size, rank):
    factor = rng.standard_normal((size, rank))
    return factor @ factor.T, factor


def system_arrays(seed, *, n=3, m=2, steps=0, ranks=None, radius=0.95, inputs=0, diffuse=None):
    """Matrices of a random system; `steps` > 0 gives them a time axis; ranks of Q, R, cov0."""
    rng = np.random.default_rng(seed)
    rank_q, rank_r, rank_0 = ranks or (n, m, n)
    count = steps or 1
    A = rng.standard_normal((count, n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max(-1)[:, None, None]
    w, v = rng.standard_normal((count, n, rank_q)), rng.standard_normal((count, m, rank_r))
    made = {
        "A": A,
        "C": rng.standard_normal((count, m, n)),
        "Q": w @ w.swapaxes(-1, -2),
        "R": v @ v.swapaxes(-1, -2),
    }
    if inputs:
        made["B"] = rng.standard_normal((count, n, inputs))
        made["D"] = rng.standard_normal((count, m, inputs))
    if not steps:
        made = {name: matrix[0] for name, matrix in made.items()}
    made["mean0"] = rng.standard_normal(n)
    made["cov0"] = covariance(rng, n, rank_0)[0]
    if diffuse is not None:
        made["diffuse"] = diffuse
    return made


def level_arrays(seed, form="endless", *, m=2, steps=0, rank=None, lags=(), size=1.0):
    """A level as plain arrays, and T (1 or K, m, m) with S = TTᵀ."""
    rng = np.random.default_rng(seed)
    count = steps or 1
    T = math.sqrt(size) * rng.standard_normal((count, m, rank or m))
    S = T @ T.swapaxes(-1, -2)
    return {"form": form, "S": S[0] if form == "endless" else S, "lags": list(lags), "T": T}


def each(matrix, k):
    """The matrix of step k, of one that may have a time axis."""
    return matrix[k] if np.ndim(matrix) == 3 and len(matrix) > 1 else np.reshape(
        matrix, np.shape(matrix)[-2:]
    )  # fmt: skip


def releases_of(system, level, steps, seed, *, series=None, inputs=None):
    """z (…, K, m) of a path of the system: correlation of w and v is left out, as it may be."""
    rng = np.random.default_rng(seed)
    A, C = np.atleast_2d(system["A"]), np.atleast_2d(system["C"])
    n, m = A.shape[-1], C.shape[-2]
    count = series or 1
    x = np.broadcast_to(system.get("mean0", np.zeros(n)), (count, n)).copy()
    x += rng.standard_normal((count, n))
    T, lags = level["T"], level["lags"]
    y = np.empty((count, steps, m))
    for k in range(steps):
        y[:, k] = x @ each(C, k).T + 0.7 * rng.standard_normal((count, m))
        x = x @ each(A, k).T + 0.5 * rng.standard_normal((count, n))
        if inputs is not None:
            y[:, k] += each(system["D"], k) @ inputs[k]
            x = x + each(system["B"], k) @ inputs[k]
    seen = y.copy()
    for j, weight in enumerate(lags, start=1):
        seen[:, j:] += y[:, :-j] @ np.atleast_2d(weight * np.eye(m) if np.ndim(weight) == 0
                                                 else weight).T  # fmt: skip
    z = np.empty((count, steps, m))
    noise = rng.standard_normal((count, steps, m))
    for k in range(steps):
        root = each(T, k)
        z[:, k] = noise[:, k]
        z[:, k, : root.shape[1]] += seen[:, k] @ root
    return z if series else z[0]


def states_case(seed, steps=12, *, system=None, level=None, gaps=(), parts=(), series=None, **more):
    """Filter, smoother, predictions and bound of one system; gaps: steps; parts: (step, entry)."""
    system = system or system_arrays(seed)
    m = np.atleast_2d(system["C"]).shape[-2]
    level = level or level_arrays(seed + 1000, m=m)
    p = system["B"].shape[-1] if "B" in system else 0
    rng = np.random.default_rng(seed + 2000)
    inputs = rng.standard_normal((steps, p)) if p else None
    later = rng.standard_normal((AHEAD, p)) if p else None
    z = releases_of(system, level, steps, seed + 3000, series=series, inputs=inputs)
    for where in gaps:
        z[..., where, :] = np.nan
    for step, entry in parts:
        z[..., step, entry] = np.nan
    level = {name: value for name, value in level.items() if name != "T"}
    given = {"system": system, "level": level, "z": z, "inputs": inputs, "later": later}
    return Case("states", given | more)


def state_cases():
    made = {}
    a = system_arrays
    made["constant"] = states_case(1, prior=True)
    made["scalar"] = states_case(2, system=a(2, n=1, m=1))
    made["singular"] = states_case(3, system=a(3, ranks=(1, 1, 2)))
    made["no noise of readings, known start"] = states_case(4, system=a(4, ranks=(3, 0, 0)))
    made["no noise of states"] = states_case(5, system=a(5, ranks=(0, 2, 3)))
    made["varying"] = states_case(6, system=a(6, steps=12 + AHEAD))
    made["varying singular inputs"] = states_case(
        7, system=a(7, steps=12 + AHEAD, ranks=(1, 1, 1), inputs=2)
    )
    made["inputs"] = states_case(8, system=a(8, inputs=2), prior=True)
    made["inputs gaps"] = states_case(9, system=a(9, inputs=1), gaps=[0, 4, 5, 11])
    made["gaps"] = states_case(10, gaps=[0, 1, 5, 9])
    parts = [(1, 0), (4, 1), (5, 0), (5, 1), (8, 1)]
    made["parts"] = states_case(11, parts=parts, prior=True)
    made["parts of three"] = states_case(
        12, system=a(12, m=3), level=level_arrays(12, m=3), parts=[(0, 2), (3, 0), (3, 2), (9, 1)]
    )
    diagonal = {"form": "endless", "S": np.diag([2.0, 0.5]), "lags": [],
                "T": np.diag([2.0, 0.5])[None] ** 0.5}  # fmt: skip
    made["parts of a diagonal level"] = states_case(13, level=diagonal, parts=parts)
    made["parts singular level varying"] = states_case(
        14, system=a(14, steps=12 + AHEAD), level=level_arrays(14, "stream", steps=12), parts=parts
    )
    made["singular level"] = states_case(15, level=level_arrays(15, rank=1))
    some = level_arrays(16, "stream", steps=12)
    some["S"][[2, 7]] = 0.0
    some["T"][[2, 7]] = 0.0
    made["level zero at some steps"] = states_case(16, level=some)
    made["level varying"] = states_case(17, level=level_arrays(17, "stream", steps=12))
    made["diffuse"] = states_case(18, system=a(18, diffuse=True))
    made["diffuse flags"] = states_case(19, system=a(19, diffuse=[True, False, True]), gaps=[1, 2])
    columns = np.random.default_rng(20).standard_normal((3, 2))
    made["diffuse columns inputs"] = states_case(20, system=a(20, diffuse=columns, inputs=1))
    made["diffuse scalar readings gaps"] = states_case(
        21, system=a(21, m=1, diffuse=True), gaps=[0, 2, 3]
    )
    made["diffuse parts"] = states_case(22, system=a(22, diffuse=True), parts=parts)
    made["diffuse lags"] = states_case(
        23, system=a(23, diffuse=columns), level=level_arrays(23, lags=[0.5])
    )
    made["lags"] = states_case(29, level=level_arrays(29, lags=[0.6, -0.3]), prior=True)
    weights = [np.array([[0.3, 0.1], [-0.2, 0.4]]), np.array([[0.1, 0.0], [0.2, -0.3]])]
    made["lags of matrices gaps"] = states_case(
        30, level=level_arrays(30, lags=weights), gaps=[2, 6, 7]
    )
    made["lags varying inputs"] = states_case(
        31, system=a(31, steps=12 + AHEAD, inputs=1),
        level=level_arrays(31, "from_lags", steps=12, lags=[0.5, 0.2]),
    )  # fmt: skip
    made["lags parts"] = states_case(32, level=level_arrays(32, lags=[0.5]), parts=parts)
    banded = level_arrays(33, "banded", m=1, steps=12)
    banded["past"] = [0.4, -0.2]  # U_{k,k−j} = past_j S_k
    made["stream level with U"] = states_case(33, system=a(33, m=1), level=banded)
    for name, extra in (("dense", {}), ("dense gaps", {"gaps": [0, 3]})):
        seed = 34 + len(name)
        target = covariance(np.random.default_rng(seed), 16, 16)[0] / 8
        dense = {"form": "cumulative", "S": target, "sizes": [2] * 8, "lags": [],
                 "T": np.eye(2)[None]}  # fmt: skip
        made[name] = states_case(seed, 8, level=dense, **extra)
    number = {"form": "number", "S": 0.7, "lags": [], "T": math.sqrt(0.7) * np.eye(2)[None]}
    made["level a number"] = states_case(52, level=number)
    made["on a grid"] = states_case(53, level=number, grid=0.25, gaps=[3])
    F = np.array([[-0.4, 1.0], [-1.0, -0.2]])
    times = np.array([0.0, 0.3, 1.0, 1.1, 2.5, 4.0, 4.2, 5.0, 9.0, 9.5, 10.0, 11.5])
    continuous = {"F": F, "C": [[1.0, 0.5]], "Qc": np.diag([0.3, 0.1]), "R": 0.2, "times": times,
                  "cov0": "stationary"}  # fmt: skip
    sampled = dict(continuous, A=0.8 * np.eye(2))
    for name, extra in (("continuous", {}), ("continuous inputs", {"inputs": True})):
        case = states_case(54, system=sampled, level=level_arrays(54, m=1))
        own = dict(continuous)
        if extra:
            own |= {"B": np.array([[0.5], [1.0]]), "D": np.array([[0.2]]), "step": 0.5}
            own |= {"cov0": np.eye(2)}
            del own["times"]
            rng = np.random.default_rng(55)
            case.given |= {"inputs": rng.standard_normal((12, 1)), "later": np.ones((AHEAD, 1))}
        case.given["system"] = own
        if not extra:
            case.given["ahead"] = 1
        made[name] = case
    made["series"] = states_case(56, series=2, gaps=[4])
    own = states_case(57, series=3, patterns=True)
    own.given["z"][0, 3] = own.given["z"][2, 5:7] = np.nan
    made["series gaps of their own"] = own
    own = states_case(58, series=2, system=a(58, inputs=1), patterns=True)
    own.given["z"][0, 3, 1] = own.given["z"][1, 5, 0] = own.given["z"][1, 6] = np.nan
    made["series parts inputs"] = own
    made["series diffuse lags"] = states_case(
        59, series=2, system=a(59, diffuse=True), level=level_arrays(59, lags=[0.5])
    )
    made["unstable"] = states_case(60, 25, system=a(60, radius=1.15))
    made["long gap"] = states_case(61, 60, gaps=range(10, 50))
    made["wide start"] = states_case(62, system=dict(a(62), cov0=1e8 * np.eye(3)))
    made["five states"] = states_case(63, system=a(63, n=5, m=3))
    made["K 800"] = states_case(64, 800)
    made["K 800 lags"] = states_case(65, 800, level=level_arrays(65, lags=[0.5, 0.2]))
    trend = {"A": [[1.0, 1.0], [0.0, 1.0]], "C": [[1.0, 0.0]], "Q": np.diag([0.1, 0.01]),
             "R": [[0.5]], "diffuse": True, "mean0": np.zeros(2)}  # fmt: skip
    made["K 800 diffuse trend gaps"] = states_case(
        66, 800, system=trend, level=level_arrays(66, m=1), gaps=[0, *range(100, 140), 799]
    )
    made["K 800 series"] = states_case(67, 800, series=2)
    made["K 3000"] = states_case(68, 3000, system=a(68, n=3))
    made["K 3000 level varying inputs gaps parts"] = states_case(
        69, 3000, system=a(69, n=3, inputs=1), level=level_arrays(69, "stream", steps=3000),
        gaps=range(0, 3000, 7), parts=[(k, k % 2) for k in range(1, 3000, 11)],
    )  # fmt: skip
    return made


def online_cases():
    """The cases above, fed in blocks; `cut` says where the state is saved and taken up again."""
    made = {}
    a, states = system_arrays, states_case

    def online(name, case, blocks, *, lag=None, cut=None):
        made[name] = Case("online", case.given | {"blocks": blocks, "lag": lag, "cut": cut})

    one = [1] * 12
    online("online", states(101), one)
    online("online blocks", states(102), [3, 1, 5, 2, 1])
    online("online saved", states(103, gaps=[4]), one, cut=5)
    online("online inputs gaps", states(104, system=a(104, inputs=1), gaps=[0, 6]), one, cut=7)
    online("online parts", states(105, parts=[(2, 0), (7, 1)]), one)
    online("online lags saved", states(106, level=level_arrays(106, lags=[0.5, 0.2])), one, cut=4)
    online("online diffuse", states(108, system=a(108, m=1, diffuse=True), gaps=[1]), one)
    online("online diffuse saved", states(109, system=a(109, m=1, diffuse=True)), one, cut=2)
    online("online varying", states(110, system=a(110, steps=12 + AHEAD)), one)
    online("online fixed lag", states(111), one, lag=3)
    online("online fixed lag gaps parts",
           states(112, gaps=[4, 5], parts=[(7, 0)]), one, lag=4)  # fmt: skip
    online("online fixed lag of a level with lags",
           states(113, level=level_arrays(113, lags=[0.5])), [2] * 6, lag=2)  # fmt: skip
    online("online fixed lag diffuse inputs",
           states(114, system=a(114, m=1, diffuse=True, inputs=1)), one, lag=3)  # fmt: skip
    online("online K 800", states(115, 800), [1] * 800, lag=2)
    return made


def pendulum(x, u=None):
    push = 0.0 if u is None else u[0]
    return np.array([x[0] + 0.1 * x[1], x[1] - 0.3 * np.sin(x[0]) + push])


def bearing(x, u=None):
    return np.array([np.sin(x[0]), x[0] * x[1]])


def nonlinear_cases():
    made = {}
    rng = np.random.default_rng(201)
    steps = 15
    path, x = np.empty((steps, 2)), np.array([0.8, 0.0])
    for k in range(steps):
        path[k], x = x, pendulum(x) + 0.05 * rng.standard_normal(2)
    y = np.array([bearing(one) for one in path]) + 0.1 * rng.standard_normal((steps, 2))
    level = level_arrays(201, size=4.0)
    z = y @ level["T"][0] + rng.standard_normal((steps, 2))
    level = {"form": "endless", "S": level["S"], "lags": []}
    covariances = {"Q": np.diag([1e-4, 4e-3]), "R": 0.01, "mean0": [0.7, 0.1], "cov0": 0.04}
    holes = z.copy()
    holes[[3, 4]] = np.nan
    parts = holes.copy()
    parts[7, 0] = parts[9, 1] = np.nan
    pushes = 0.1 * rng.standard_normal((steps, 1))
    plain = {"covariances": covariances, "level": level, "z": z, "path": path}
    for method in ("extended", "unscented"):
        made[method] = Case("nonlinear", plain | {"method": method})
        made[f"{method} gaps"] = Case("nonlinear", plain | {"method": method, "z": holes})
        made[f"{method} inputs parts"] = Case(
            "nonlinear", plain | {"method": method, "z": parts, "inputs": pushes}
        )
    made["local bound"] = Case("local_bound", plain)
    made["local bound inputs"] = Case("local_bound", plain | {"inputs": pushes})
    return made


def bound_cases():
    """`bound` itself is in every case of states; here what has no release."""
    made = {}
    a = system_arrays

    def plain(name, call, system, **more):
        made[name] = Case(call, {"system": system} | more)

    def endless(seed, **more):
        level = level_arrays(seed, **more)
        return {"form": "endless", "S": level["S"], "lags": level["lags"]}

    plain("steady state", "steady_state", a(301), level=endless(301))
    plain("steady state scalar", "steady_state", a(302, n=1, m=1), level=endless(302, m=1))
    plain("steady state lags", "steady_state", a(303), level=endless(303, lags=[0.5, -0.2]))
    plain("steady state unstable", "steady_state", a(305, radius=1.2), level=endless(305))
    plain("information", "information", a(306), steps=9)
    plain("information varying", "information", a(307, steps=9, ranks=(2, 2, 2)), steps=9)
    plain("information K 800", "information_blocks", a(310), steps=800)
    rich = dict(a(311), R=np.diag([2.0, 3.0]))
    plain("total level", "total_level", rich, S=4.0, steps=6)
    plain("total level of a matrix", "total_level", rich, S=[[3.0, 1.0], [1.0, 2.0]], steps=6)
    plain("memoryless level", "memoryless_level", rich, S=[[3.0, 0.5], [0.5, 2.0]], steps=None)
    plain("memoryless level varying", "memoryless_level", dict(a(312, steps=5), R=0.8 * np.eye(2)),
          S=4.0, steps=5)  # fmt: skip
    plain("best directions", "best_directions", a(313, m=3), budget=2.0)
    plain("best directions weighted", "best_directions", a(314), budget=1.0,
          weight=np.diag([1.0, 0.0, 2.0]))  # fmt: skip
    plain("best directions horizon", "best_directions", a(315), budget=1.0, steps=6)
    return made


def autoregression(rng, steps, phi, q, *, mean=0.0, burn=200):
    phi = np.atleast_1d(phi)
    x = np.zeros(steps + burn)
    white = math.sqrt(q) * rng.standard_normal(steps + burn)
    for k in range(len(phi), steps + burn):
        x[k] = phi @ x[k - len(phi) : k][::-1] + white[k]
    return mean + x[burn:]


def shown(rng, y, s):
    """√s y + e, scalar readings."""
    return np.sqrt(s) * y + rng.standard_normal(y.shape)


def fit_cases():
    made = {}

    def add(name, seed, family, y, s, **more):
        rng = np.random.default_rng(seed)
        y = y(rng)
        s = np.asarray(s, dtype=float)
        z = shown(rng, y, s)
        for where in more.pop("gaps", ()):
            z[..., where] = np.nan
        level = (
            {"form": "number", "S": float(s), "lags": []}
            if s.ndim == 0
            else {"form": "stream", "S": s, "lags": []}
        )
        given = {"family": family, "level": level, "z": z[..., None]}
        made[f"fit {name}"] = Case("fit", given | more)

    def ar(steps, phi, q, **more):
        return lambda rng: autoregression(rng, steps, phi, q, **more)

    def walk(steps, q_level, q_slope, r, season=()):
        def drawn(rng):
            slope = np.cumsum(math.sqrt(q_slope) * rng.standard_normal(steps))
            level = np.cumsum(slope + math.sqrt(q_level) * rng.standard_normal(steps))
            own = np.resize(season, steps) if len(season) else 0.0
            return level + own + math.sqrt(r) * rng.standard_normal(steps)

        return drawn

    add("ar1", 401, "ar1", ar(200, 0.8, 0.36, mean=2.0), 1.0)
    add("ar1-mean low level", 402, "ar1-mean", ar(400, 0.8, 0.36), 0.2)
    add("ar1 open ends", 403, "ar1", ar(60, 0.8, 1.0, mean=5.0), 0.05)
    add("ar1 changing levels gaps", 404, "ar1", ar(150, 0.6, 1.0), np.resize([0.5, 2.0, 1.0], 150),
        gaps=[0, *range(40, 50), 149])  # fmt: skip
    add("ar1+noise", 405, "ar1+noise", ar(300, 0.85, 0.5), 2.0)
    add("ar1+noise flat", 406, "ar1+noise", ar(150, 0.1, 1.0), 1.0)
    add("ar2", 407, "ar2", ar(300, [1.5, -0.75], 0.3), 2.0)
    add("ar2-mean start", 408, "ar2-mean", ar(200, [0.5, 0.3], 1.0), 1.0, start=[0.4, 0.2, 0.8])
    add("arma1,1", 409, "arma1,1-mean", ar(250, 0.8, 1.0), 1.0)
    add("arma2,1", 410, "arma2,1", ar(400, [1.2, -0.5], 1.0, mean=1.0), 5.0)
    add("ar1 K 800", 411, "ar1", ar(800, 0.9, 0.2), 0.5)
    add("ar2 K 3000", 412, "ar2-mean", ar(3000, [1.2, -0.4], 0.5), 0.5, brief=True)
    add("ar1 white", 413, "ar1-mean", ar(120, 0.0, 1.0), 0.3)
    add("level", 414, "level", walk(200, 0.3, 0.0, 0.5), 1.0)
    add("level gaps", 415, "level", walk(200, 0.3, 0.0, 0.5), 1.0, gaps=[0, 1, 60, 61, 199])
    add("level-noise", 416, "level-noise", walk(150, 0.5, 0.0, 0.0), 0.5)
    add("level at a limit", 417, "level", walk(120, 0.0, 0.0, 1.0), 1.0)
    add("trend", 418, "trend", walk(200, 0.2, 0.01, 0.5), 2.0)
    add("seasonal", 419, "seasonal4", walk(160, 0.2, 0.0, 0.3, [1.0, -2.0, 0.5, 0.5]), 2.0)
    add("trend and season", 420, "trend+seasonal4", walk(160, 0.2, 0.01, 0.3, [1, -2, 0.5, 0.5]),
        2.0, brief=True)  # fmt: skip

    def several(rng):
        return np.stack([autoregression(rng, 80, 0.7, 0.5) for _ in range(4)])

    add("series", 421, "ar1", several, 1.0)
    add("series gaps", 422, "ar1", several, 1.0, alone=True)
    for one, where in enumerate((slice(3, 9), slice(40, 41), slice(0, 2))):
        made["fit series gaps"].given["z"][one, where] = np.nan

    u = np.random.default_rng(430).standard_normal((205, 2))

    def driven(rng):
        y = np.zeros(200)
        for k in range(2, 200):
            y[k] = 0.7 * y[k - 1] + 1.5 * u[k - 1, 0] + 0.8 * rng.standard_normal()
        return y

    add("arx1", 431, "arx1", driven, 1.0, inputs=u[:200, :1], later=u[200:, :1])
    after = np.concatenate([u[1:], np.zeros((1, 2))])  # inputs that act in their own step
    add("arx2 two inputs", 432, ("ARX", [2, 2], {"lags": 2}), driven, 3.0,
        inputs=after[:200], later=after[200:], gaps=[20, 21], brief=True)  # fmt: skip

    def lines(rng):
        return u[:200] @ [1.0, -0.5] + autoregression(rng, 200, 0.7, 0.5)

    add("regression1", 433, "regression1", lines, 1.0, inputs=u[:200], later=u[200:])
    add("regression2+mean gaps", 434, "regression2+mean", lines, 2.0, inputs=u[:200],
        later=u[200:], gaps=[5, 6, 100], brief=True)  # fmt: skip
    add("custom", 435, "custom scalar", ar(200, 0.7, 0.5), 1.0)

    lagged = Case("fit", dict(made["fit ar1-mean low level"].given))
    rng = np.random.default_rng(440)
    y = autoregression(rng, 400, 0.8, 0.36)
    z = math.sqrt(0.2) * (y + 0.5 * np.append(0.0, y[:-1])) + rng.standard_normal(400)
    lagged.given |= {"level": {"form": "endless", "S": [[0.2]], "lags": [0.5]}, "z": z[:, None]}
    made["fit ar1-mean level with lags"] = lagged

    rng = np.random.default_rng(441)
    x = np.stack([autoregression(rng, 60, 0.8, 0.5), autoregression(rng, 60, 0.3, 1.0)], axis=1)
    z = x @ np.array([[1.0, 0.4], [0.0, 0.8]]) + rng.standard_normal((60, 2))
    made["fit custom vector"] = Case("fit", {
        "family": "custom vector", "z": z, "brief": True,
        "level": {"form": "endless", "S": [[1.16, 0.32], [0.32, 0.64]], "lags": []},
    })  # fmt: skip

    for name, seed, phi in (("regression", 442, 0.8), ("regression white", 443, 0.0)):
        rng = np.random.default_rng(seed)
        rows = np.column_stack(
            [np.ones(240), np.sin(np.arange(240) / 12), u[:200, 0].repeat(2)[:240]]
        )
        y = rows @ [2.0, 1.0, -0.5] + autoregression(rng, 240, phi, 0.4)
        given = {"level": {"form": "number", "S": 1.0, "lags": []}, "rows": rows}
        made[name] = Case("regression", given | {"z": shown(rng, y, 1.0)[:, None]})

    def floor(name, family, theta, steps, **more):
        made[f"parameter bound {name}"] = Case(
            "parameter_bound", {"family": family, "theta": theta, "steps": steps} | more
        )

    number = {"form": "number", "S": 0.2, "lags": []}
    floor("ar1", "ar1-mean", [0.8, 0.36], 2000, level=number)
    floor("ar2 missing", "ar2", [1.5, -0.75, 0.3, 1.0], 60, level=number,
          missing=np.arange(60) % 7 == 3)  # fmt: skip
    floor("arma", "arma1,1", [0.8, 0.3, 1.0, 0.5], 100, level=number)
    floor("level", "level", [0.3, 0.5], 300, level=number)
    floor("season", "trend+seasonal4", [0.3, 0.01, 0.1, 0.5], 80, level=number)
    floor("arx", "arx1", [0.7, 0.6, 1.5], 50, level=number, inputs=u[:50, :1])
    floor("regression lags", "regression1", [0.7, 0.6, 1.5], 50, inputs=u[:50, :1],
          level={"form": "endless", "S": [[0.2]], "lags": [0.5]})  # fmt: skip
    return made


def refused_cases():
    """Calls that are wrong, or that have no answer: only the exception's type is kept."""
    return {f"refused {name}": Case("refused", {"name": name}) for name in REFUSED}


def cases():
    found = {}
    for made in (state_cases, online_cases, nonlinear_cases, bound_cases, fit_cases):
        found |= made()
    return found | refused_cases()


# --- adapters: every public name is here --------------------------------------------------------


def make_system(given):
    if "F" in given:
        return dynamics.StateSpace.from_continuous(**given)
    return dynamics.StateSpace(**given)


def make_level(given):
    form, S, lags = given["form"], given["S"], given["lags"]
    if form == "number":
        return S
    if form == "endless":
        return pv.StreamLevel.constant(S, lags=lags)
    if form == "cumulative":
        return pv.StreamLevel.from_cumulative(S, given["sizes"])
    if form == "from_lags":
        return pv.StreamLevel(S, lags=lags)
    if form == "banded":
        s = S[:, 0, 0]
        U = [[given["past"][k - j - 1] * s[k] if k - j <= len(given["past"]) else 0.0
              for j in range(k)] for k in range(len(s))]  # fmt: skip
        return pv.StreamLevel(s, U)
    return pv.StreamLevel(S)


def make_release(level, z, *, start=0, grid=0.0):
    """z (K, m) is one stream, z (series, K, m) many; NaN is missing."""
    z = np.asarray(z, dtype=float)
    if not isinstance(level, pv.StreamLevel):
        level = pv.StreamLevel.constant(level * np.eye(z.shape[-1]))
    lost = np.isnan(z)
    parts = bool((lost.any(axis=-1) != lost.all(axis=-1)).any())
    missing = lost if parts else lost.all(axis=-1)
    if z.ndim == 2:
        flags = missing if missing.any() else None
        return pv.Release(start, len(z), z.ravel(), flags, level.fingerprint, True, grid)
    flags = lost if lost.any() else None
    return pv.Release(start, z.shape[1], z, flags, level.fingerprint, True, grid)


def call_filter(system, level, release, inputs=None):
    return dynamics.filter(system, release, level=level, inputs=inputs)


def call_patterns(release):
    """Series that miss the same, together: their covariances are the same."""
    return [part for _, part in release.by_pattern()]


def call_smooth(filtered):
    return filtered.smoothed


def call_predict(filtered, ahead, inputs=None):
    return filtered.forecast(ahead, inputs=inputs)


def call_bound(system, level, steps, missing):
    return pv.bound(system, level, steps=steps, missing=missing)


def call_online(system, level, lag):
    return dynamics.PrivateKalman(system, level, lag=lag)


def call_saved(kalman, path):
    path.write_bytes(pickle.dumps(kalman))


def call_restored(path):
    return pickle.loads(path.read_bytes())


def call_nonlinear_system(transition, reading, covariances, inputs):
    return dynamics.NonlinearStateSpace(transition, reading, **covariances, inputs=inputs)


def call_filter_nonlinear(system, level, release, method, inputs=None):
    return dynamics.filter(system, release, level=level, inputs=inputs, method=method)


def call_local_bound(system, level, path, inputs=None):
    return dynamics.local_bound(system, level, path, inputs=inputs)


def call_diagnose(filtered, **more):
    return filtered.diagnose(**more)


def call_steady_state(system, level):
    return dynamics.steady_state(system, level)


def call_reading_information(system, steps):
    return pv.bounds.prior_information(system, steps=steps)


def call_information_blocks(system, steps):
    return pv.bound(system, 1.0, steps=steps).prior_information


def call_total_level(system, S, steps):
    return pv.bounds.release_level(system, S, steps=steps)


def call_memoryless_level(system, S, steps):
    return pv.bounds.release_level(system, S, steps=steps, lookback=False)


def call_best_directions(system, **given):
    return dynamics.best_directions(system, **given)


def call_family(given):
    """A family by its text, by its class, or one of the two of `CustomFamily` below."""
    if given == "custom scalar":
        return dynamics.CustomFamily(
            decay, {"a": 0.5, "q": 1.0}, {"a": "correlation", "q": "positive"}
        )
    if given == "custom vector":
        return dynamics.CustomFamily(
            pair, {"a": 0.5, "b": 0.1, "q": 1.0},
            {"a": "correlation", "b": "correlation", "q": "positive"},
        )  # fmt: skip
    if isinstance(given, tuple):
        name, orders, options = given
        return getattr(dynamics, name)(*orders, **options)
    return given


def decay(theta):
    a, q = theta
    return dynamics.StateSpace(A=a, C=1.0, Q=q, R=0.0, cov0=q / (1 - a**2))


def pair(theta):
    a, b, q = theta
    cov0 = np.diag([q / (1 - a**2), 1.0 / (1 - b**2)])
    return dynamics.StateSpace(np.diag([a, b]), np.eye(2), np.diag([q, 1.0]), 0.0, cov0=cov0)


def call_fit(family, level, release, inputs=None, start=None):
    return dynamics.fit(family, release, level=level, inputs=inputs, start=start)


def call_regression(level, release, rows):
    return dynamics.fit(dynamics.RegressionAR(1, rows.shape[1]), release, level=level, inputs=rows)


def call_parameter_bound(family, theta, level, steps, **given):
    return dynamics.parameter_bound(family, theta, level, steps=steps, **given)


def walk_system(**more):
    return dynamics.StateSpace(**{"A": 0.9, "C": 1.0, "Q": 1.0, "R": 0.5, "cov0": 1.0, **more})


def filtered_walk(steps=6, **more):
    level = pv.StreamLevel.constant(1.0)
    release = make_release(level, np.linspace(-1, 1, steps)[:, None])
    return call_filter(walk_system(**more), level, release)


REFUSED = {
    "no cov0": lambda: dynamics.StateSpace(A=1.0, C=1.0, Q=1.0, R=1.0),
    "Q not psd": lambda: walk_system(Q=-1.0),
    "shapes": lambda: walk_system(C=np.ones((1, 2))),
    "another level": lambda: call_filter(
        walk_system(), 2.0, make_release(pv.StreamLevel.constant(1.0), [[0.0]])
    ),
    "release that starts later": lambda: call_filter(
        walk_system(), 1.0, make_release(pv.StreamLevel.constant(1.0), [[0.0]], start=3)
    ),
    "more steps than the system": lambda: call_filter(
        walk_system(A=0.9 * np.ones((3, 1, 1))), 1.0,
        make_release(pv.StreamLevel.constant(1.0), np.zeros((5, 1))),
    ),
    "inputs missing": lambda: filtered_walk(B=1.0),
    "ahead 0": lambda: call_predict(filtered_walk(), 0),
    "readings as a release": lambda: call_filter(walk_system(), 1.0, np.zeros(4)),
    "online dense": lambda: call_online(
        walk_system(), pv.StreamLevel.from_cumulative([[1.0, 0.5], [0.5, 1.0]]), None
    ),
    "online out of order": lambda: call_online(walk_system(), 1.0, None).update(
        make_release(pv.StreamLevel.constant(1.0), [[0.0]], start=1)
    ),
    "no steady state": lambda: call_steady_state(
        walk_system(A=np.diag([1.2, 0.5]), C=[[0.0, 1.0]]), 1.0
    ),
    "bound of a start never shown": lambda: call_bound(
        walk_system(A=np.eye(2), C=[[1.0, 0.0]], diffuse=True), 1.0, 4, None
    ),
    "total level below the prior": lambda: call_total_level(walk_system(), 0.1, 4),
    "memoryless level below the prior": lambda: call_memoryless_level(walk_system(), 0.1, None),
    "unknown family": lambda: call_fit("ar1+season", 1.0, make_release(1.0, np.zeros((20, 1)))),
    "too few steps": lambda: call_fit("ar2", 1.0, make_release(1.0, np.zeros((3, 1)))),
    "arx without inputs": lambda: call_fit("arx1", 1.0, make_release(1.0, np.zeros((20, 1)))),
    "parameters out of range": lambda: call_parameter_bound("ar1-mean", [1.2, 1.0], 1.0, 50),
    "extended with lags": lambda: call_filter_nonlinear(
        call_nonlinear_system(pendulum, bearing, {"Q": 1.0, "R": 1.0, "mean0": [0, 0], "cov0": 1.0},
                              0),
        pv.StreamLevel.constant(np.eye(2), lags=[0.5]),
        make_release(pv.StreamLevel.constant(np.eye(2), lags=[0.5]), np.zeros((3, 2))), "extended",
    ),
    "linear filter of a nonlinear system": lambda: call_filter(
        call_nonlinear_system(pendulum, bearing, {"Q": 1.0, "R": 1.0, "mean0": [0, 0], "cov0": 1.0},
                              0),
        1.0, make_release(pv.StreamLevel.constant(np.eye(2)), np.zeros((3, 2))),
    ),
    "dense level of many steps": lambda: call_bound(
        walk_system(), pv.StreamLevel.from_cumulative(np.eye(200) + 0.1), 200, None
    ),
    "unstable over a long gap": lambda: call_bound(
        walk_system(A=np.diag([1.5, 0.5]), C=np.eye(2)), 1.0, 102, np.arange(102) % 101 > 0
    ),
}  # fmt: skip


# --- records: what is kept of a result ----------------------------------------------------------


def kept_steps(count):
    """Indices: all of a short series, else some of its start, middle and end."""
    if count <= 3 * SHOWN:
        return np.arange(count)
    middle = np.arange(SHOWN) + count // 2
    return np.unique(np.concatenate([np.arange(SHOWN), middle, count - 1 - np.arange(SHOWN)]))


def some(values, axis):
    """The kept steps along an axis, and the norm over all steps that are finite."""
    values = np.asarray(values)
    kept = np.take(values, kept_steps(values.shape[axis]), axis=axis)
    return {"steps": kept, "norm": norm(values, axis)}


def norm(values, axis):
    finite = np.where(np.isfinite(values), values, 0.0)
    return np.sqrt(np.square(finite).sum(axis=axis))


def halves(matrices):
    """The upper triangle of the covariances (K, n, n) of the kept steps, and the norms of all."""
    matrices = np.asarray(matrices)
    rows, columns = np.triu_indices(matrices.shape[-1])
    kept = some(matrices, -3)["steps"][..., rows, columns]
    return {"steps": kept, "norm": variances(matrices)}


def variances(matrices):
    """Norms over all steps of the variances."""
    return norm(np.diagonal(matrices, axis1=-2, axis2=-1), -2)


def gaussian(result):
    """Mean and covariance of the states of every step."""
    return {"mean": some(result.value, -2), "covariance": halves(result.covariance)}


def filtered_record(found):
    return {
        "filtered": gaussian(found.filtered),
        "predicted": gaussian(found.predicted),
        "innovations": some(found.innovations, -2),
        "log_likelihood": found.log_likelihood,
    }


def diagnosis_record(found):
    return {
        "lags": found.lags,
        "statistics": [[one.name, one.component, one.statistic, one.freedom, one.p_value]
                       for one in found.tests],
        "autocorrelations": found.autocorrelations[:3],
    }  # fmt: skip


def record_states(given):
    """Filter, smoother, predictions; the bound has the covariances of filter and smoother."""
    system, level = make_system(given["system"]), make_level(given["level"])
    z, inputs = given["z"], given["inputs"]
    release = make_release(level, z, grid=given.get("grid", 0.0))
    ahead = given.get("ahead", AHEAD)
    later = None if given["later"] is None else given["later"][:ahead]
    if given.get("patterns"):
        parts = [call_filter(system, level, one, inputs) for one in call_patterns(release)]
        return {
            f"pattern {j}": filtered_record(one) | {"smoothed": gaussian(call_smooth(one))}
            for j, one in enumerate(parts)
        }
    found = call_filter(system, level, release, inputs)
    made = filtered_record(found) | {
        "smoothed": gaussian(call_smooth(found)),
        "ahead": gaussian(call_predict(found, ahead, later)),
    }
    one = call_predict(found, 1, None if later is None else later[:1])
    made["one ahead"] = one.value
    if z.ndim == 2 and not given.get("grid"):
        lost = np.isnan(z)
        floor = call_bound(system, level, len(z), lost if lost.any() else None)
        for name in ("predicted", "filtered", "smoothed"):
            made[f"bound {name}"] = variances(getattr(floor, name))
        if given.get("prior"):
            made["prior_information"] = some(floor.prior_information, 0)
            made["total_level"] = some(floor.total_level, 0)
            made["classical"] = variances(floor.classical.filtered)
    if len(z) >= 50:
        made["diagnosis"] = diagnosis_record(call_diagnose(found, lags=5))
    return made


def record_online(given):
    system, level = make_system(given["system"]), make_level(given["level"])
    z, inputs, later = given["z"], given["inputs"], given["later"]
    kalman, start = call_online(system, level, given["lag"]), 0
    means, covariances, lagged = [], [], []
    for block in given["blocks"]:
        own = slice(start, start + block)
        part = None if inputs is None else inputs[own]
        kalman.update(make_release(level, z[own], start=start), inputs=part)
        start += block
        means.append(kalman.value)
        covariances.append(kalman.covariance)
        if given["lag"] is not None:
            window = kalman.smoothed
            lagged.append((window.value[0], window.covariance[0]))
        if start == given["cut"]:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "state.npz"
                call_saved(kalman, path)
                kalman = call_restored(path)
    ahead = kalman.forecast(AHEAD, inputs=later)
    made = {
        "filtered": {"mean": some(means, -2), "covariance": halves(covariances)},
        "ahead": gaussian(ahead),
        "log_likelihood": kalman.log_likelihood,
        "count": kalman.steps,
    }
    if lagged:
        means, covariances = zip(*lagged)
        made["lagged"] = {"mean": some(means, -2), "covariance": halves(covariances)}
        made["window"] = gaussian(kalman.smoothed)
    return made


def nonlinear_system(given):
    p = 0 if given.get("inputs") is None else 1
    return call_nonlinear_system(pendulum, bearing, given["covariances"], p)


def record_nonlinear(given):
    level, inputs = make_level(given["level"]), given.get("inputs")
    found = call_filter_nonlinear(
        nonlinear_system(given), level, make_release(level, given["z"]), given["method"], inputs
    )
    later = None if inputs is None else inputs[:AHEAD]
    return filtered_record(found) | {
        "smoothed": gaussian(call_smooth(found)),
        "ahead": gaussian(call_predict(found, AHEAD, later)),
        "diagnosis": diagnosis_record(call_diagnose(found, lags=3)),
    }


def record_local_bound(given):
    level = make_level(given["level"])
    found = call_local_bound(nonlinear_system(given), level, given["path"], given.get("inputs"))
    return {
        name: {"covariance": halves(getattr(found, name))}
        for name in ("predicted", "filtered", "smoothed")
    }


def record_steady_state(given):
    found = call_steady_state(make_system(given["system"]), make_level(given["level"]))
    made = {name: {"covariance": halves(getattr(found, name)[None])}
            for name in ("predicted", "filtered", "smoothed")}  # fmt: skip
    return made | {"memory": found.memory}


def record_information(given):
    system, steps = make_system(given["system"]), given["steps"]
    return {
        "whole": call_reading_information(system, steps),
        "blocks": call_information_blocks(system, steps),
    }


def record_information_blocks(given):
    return {
        "blocks": some(call_information_blocks(make_system(given["system"]), given["steps"]), 0)
    }


def record_total_level(given):
    found = call_total_level(make_system(given["system"]), given["S"], given["steps"])
    return {"cumulative": found.cumulative()}


def record_memoryless_level(given):
    found = call_memoryless_level(make_system(given["system"]), given["S"], given["steps"])
    return {"blocks": found.final_blocks().dense()}


def record_best_directions(given):
    given = dict(given)
    found = call_best_directions(make_system(given.pop("system")), **given)
    return {"value": found.value, "floor": found.floor, "equal": found.equal,
            "spent": found.spent, "price": found.price}  # fmt: skip


def record_fit(given):
    level, later = make_level(given["level"]), given.get("later")
    found = call_fit(
        call_family(given["family"]), level, make_release(level, given["z"]), given.get("inputs"),
        given.get("start"),
    )  # fmt: skip
    made = fit_record(found) | {"wald": {"ends": found.interval(method="wald")}}
    if not given.get("brief"):
        made["profile"] = interval_record(found, 0.95)
        made["profile 80"] = interval_record(found, 0.8)
        made["bound"], made["classical"] = found.bound, found.classical
    if given.get("alone"):  # forecasts and signals are of one pattern of gaps
        return made
    for method in ("mixture", "plug-in"):
        made[method] = forecast_record(found.forecast(5, inputs=later, method=method))
    signal = found.signal()
    made["signal"] = {"mean": some(signal.value, -2), "covariance": halves(signal.covariance)}
    made["diagnosis"] = diagnosis_record(found.diagnose(lags=6))
    return made


def fit_record(found):
    return {
        "names": list(found.names),
        "estimate": found.value,
        "standard_error": np.sqrt(np.diagonal(found.covariance)),
        "log_likelihood": found.log_likelihood,
        "converged": found.converged,
        "at_limit": found.at_limit,
        "parameters": found.parameters,
        "observations": found.observations,
        "flat": list(found.flat.values()),
    }


def interval_record(found, confidence):
    return {
        "ends": found.interval(confidence),
        "open_ends": found.open_ends(confidence),
        "notes": len(found.notes(confidence)),
    }


def forecast_record(found):
    return {"mean": found.value, "error": found.standard_error, "interval": found.interval()}


def record_regression(given):
    level = make_level(given["level"])
    found = call_regression(level, make_release(level, given["z"]), given["rows"])
    return fit_record(found) | {"profile": interval_record(found, 0.95)}


def record_parameter_bound(given):
    given = dict(given)
    found = call_parameter_bound(
        given.pop("family"), given.pop("theta"), make_level(given.pop("level")),
        given.pop("steps"), **given,
    )  # fmt: skip
    return {"bound": found.covariance, "classical": found.classical, "exposure": found.exposure}


def record_refused(given):
    try:
        REFUSED[given["name"]]()
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
        if not math.isfinite(value):
            return str(value)
        return float(f"{value:.{DIGITS}g}")
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


def text(tree):
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def write(wanted=""):
    """All cases, or those whose names contain a text: the others stay as they are."""
    HERE.mkdir(exist_ok=True)
    made = {name: {} for name in FILES}
    before = stored() if wanted else {}
    for name, case in cases().items():
        made[case.file][name] = records(case) if wanted in name else before[name]
    for name, content in made.items():
        lines = [f"{text(key)}:{text(one)}" for key, one in content.items()]
        (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if os.environ.get("GOLDEN") != "write":
        raise SystemExit("GOLDEN=write python tests/golden/dynamics.py [part of a name]")
    write(*sys.argv[1:2])
