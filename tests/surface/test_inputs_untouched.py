"""Inputs are never written to: every public call that takes data, with read-only arrays.

Arrays are double precision, so that no conversion makes a copy, in C and in Fortran order, with NaN
where a call allows it; they refuse writing, and are compared with what they were. What cannot be
frozen (dictionaries, releases, models, tables) is compared part by part.
`CASES` has an entry for every public callable whose parameters can hold data (`takes_data`), or
`NO_DATA` says why there is none: a new public call without an entry fails here.
"""

import contextlib
import inspect
import re
import runpy
import types
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest

import privest as pv
import workflow_inside as workflow
from privest import (
    audit,
    bounds,
    data,
    design,
    dynamics,
    estimator,
    lattice,
    ledger,
    linalg,
    mechanism,
    network,
    noise,
    paper,
    privacy,
    reading,
)
from privest.estimator.likelihood import GaussianLikelihood
from privest.mechanism.running import RunningMechanism
from privest.records import ReadOnly
from privest.release import Release
from workflow_tables import people, spec

PUBLIC = runpy.run_path(str(Path(__file__).with_name("test_public_names.py")))  # the pinned names
NAMES, room_of = PUBLIC["NAMES"], PUBLIC["room_of"]

# --- which calls ------------------------------------------------------------------------------

# Types of parameters that hold arrays or what is made of them.
KEEPS = ReadOnly.__post_init__  # it only makes arrays read-only, in views
DATA = re.compile(
    r"\b(Array|ArrayLike|AnyArray|Flags|Index|\w*Release|Mapping|object|Any|\w*Filtered|Table|Level|"
    r"Contributions?|Trail|Line|Panel|Track|Plan|Estimate|Callable|PSD|Map|Weights|Points|Diagnosis|CoursePanel|"
    r"QuasiNewtonState)\b"
)
SPECIAL = {"__init__", "__call__", "__getitem__", "__matmul__"}


def own_functions(found):
    """The functions of a public object: itself, or what a class defines or inherits from us."""
    if isinstance(found, types.FunctionType):
        return [found]
    if not isinstance(found, type):
        return []
    members = (inspect.getattr_static(found, name) for name in dir(found)
               if not name.startswith("_") or name in SPECIAL)  # fmt: skip
    plain = (getattr(member, "__func__", member) for member in members)
    return [function for function in plain if isinstance(function, types.FunctionType)]


def takes_data(function, owner):
    if not function.__module__.startswith("privest"):
        return False
    if getattr(function, "__isabstractmethod__", False):
        return False
    generated = function.__code__.co_filename == "<string>"  # of a dataclass: it only keeps
    if generated and getattr(owner, "__post_init__", KEEPS) is KEEPS:
        return False
    given = inspect.signature(function).parameters.values()
    return any(DATA.search(str(p.annotation)) for p in given if p.name not in ("self", "cls"))


def public_calls():
    """{room.name: …} of everything public that takes data; inherited calls count once."""
    found = set()
    for room in NAMES:
        module = room_of(room)
        for name in module.__all__:
            owner = getattr(module, name)
            for function in own_functions(owner):
                if takes_data(function, owner):
                    home = function.__module__.split(".")[1]
                    found.add(f"{home}.{function.__qualname__}")
    return found


# --- what is given ----------------------------------------------------------------------------


def plain_state(value, depth=0):
    """A copy of everything that `value` holds, comparable with ==."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return value.shape, [plain_state(part) for part in value.ravel()]
        return value.dtype.str, value.shape, value.flags.c_contiguous, value.tobytes()
    if isinstance(value, pd.DataFrame | pd.Series):
        return plain_state(value.to_numpy())
    if isinstance(value, Mapping):
        return {key: plain_state(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [plain_state(part, depth + 1) for part in value]
    if depth > 6 or isinstance(value, str | bytes | int | float | complex | Path | type | None):
        return repr(value)
    names = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
    parts = {name: getattr(value, name) for name in names if hasattr(value, name)}
    parts |= getattr(value, "__dict__", {})
    return {name: plain_state(part, depth + 1) for name, part in parts.items()} or repr(type(value))


def same_state(before, now):
    """What was there is there, unchanged; an object may have worked something out meanwhile."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(name in now and same_state(part, now[name]) for name, part in before.items())
    if isinstance(before, list | tuple) and isinstance(now, list | tuple):
        return len(before) == len(now) and all(map(same_state, before, now))
    return before == now


class Given:
    """Makes inputs, and knows what they were."""

    def __init__(self, order):
        self.order, self.kept = order, []

    def __call__(self, *values):
        """A read-only array, or one each."""
        arrays = []
        for value in values:
            array = np.array(value, order=self.order)
            array = array.astype(np.float64) if array.dtype.kind in "iu" else array
            array.setflags(write=False)
            arrays.append(self.keep(array))
        return arrays[0] if len(arrays) == 1 else arrays

    def keep(self, value):
        """Anything else, as it is."""
        self.kept.append((value, plain_state(value)))
        return value

    def require_untouched(self):
        for value, before in self.kept:
            assert same_state(before, plain_state(value)), type(value)


RNG = np.random.default_rng


def noisy(y):
    """A release for an audit, of one reading or of many at once."""
    return y + RNG().normal(size=y.shape)


H = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
Y = np.array([1.0, 1.5, 2.5, 4.0])
SPREAD = np.array([[2.0, 0.5, 0, 0], [0.5, 1.0, 0.2, 0], [0, 0.2, 1.5, 0.1], [0, 0, 0.1, 1.0]])
PAIR = np.array([[1.0, 0.2], [0.2, 0.5]])
GAUSS = noise.Gaussian(cov=0.5)
WALK = dynamics.StateSpace(1.0, 1.0, 0.1, 0.5, cov0=1.0)
DRIVEN = dynamics.StateSpace(1.0, 1.0, 0.1, 0.5, cov0=1.0, B=1.0, D=0.5)
TWO = dynamics.StateSpace(0.9 * np.eye(2), np.eye(2), PAIR, PAIR, cov0=PAIR)
LEVELS = (
    1.0, pv.StreamLevel.constant(1.0, lags=[0.5]), pv.StreamLevel.from_cumulative(SPREAD[:3, :3]),
)  # fmt: skip
PUSHED = dynamics.NonlinearStateSpace(
    lambda x, u: np.sin(x + u), lambda x, u: np.sin(x - u), 1.0, 1.0, [0.0], 1.0, inputs=1
)
BENT = dynamics.NonlinearStateSpace(np.sin, np.sin, 1.0, 1.0, [0.0], 1.0)


def refused(call):
    with pytest.raises(pv.errors.NotReleasable) as told:
        call()
    return str(told.value)


def frozen(array):
    array.setflags(write=False)
    return array


def booked(tmp, call):
    with pv.Ledger(tmp / "book.db") as book:
        return call(book.account("a", budget=8.0))


def charged(g, tmp):
    """A table that is charged to an account, and found to be paid when it is asked for again."""
    made, table = plan(g)
    account = workflow.Account(tmp / "book.db", "people")
    sent = workflow.release(g.keep(made), tmp / "z.csv", g.keep(table), account=account)
    workflow.describe(g.keep(sent), account=account)
    return account.paid(g.keep(sent))


def model(g, law=GAUSS):
    return pv.LinearModel(g(H), noise=law)


def stream(g, values=(0.5, np.nan, 0.7), level=1.0):
    """A release with a step that is missing, its arrays read-only."""
    z = np.array(values, dtype=float)
    gone = np.isnan(z)
    flags = g(gone) if gone.any() else None
    fingerprint = privacy.as_stream_level(level, measurements=1).fingerprint
    return g.keep(Release(0, len(z), g(z), flags, fingerprint, True))


def series(g, count):
    z = np.linspace(-1, 1, 3 * count).reshape(count, 3, 1)
    z[:, 1] = np.nan
    print_ = privacy.as_stream_level(1.0, measurements=1).fingerprint
    return g.keep(Release(0, 3, g(z), g(np.isnan(z)), print_, True))


def fitted(g):
    """A fit with public inputs and a start, all read-only."""
    z = RNG(0).standard_normal(30).cumsum()
    z[4] = np.nan
    u = np.sin(np.arange(30.0))[:, None]
    return dynamics.fit(
        "regression1", stream(g, z), level=1.0, inputs=g(u), start=g([0.5, 1.0, 0.1])
    )


def innovations(g):
    """A filter's result of two entries with gaps, its arrays read-only."""
    z = RNG(0).standard_normal((40, 2))
    z[3] = z[7, 1] = np.nan
    means, covariances = g(np.ones((40, 1)), np.ones((40, 1, 1)))
    return g.keep(dynamics.Filtered(
        means, covariances, means, covariances, g(z), np.zeros(()), WALK, 0, True, lambda: None,
        lambda steps, inputs: None,
    ))  # fmt: skip


def frozen_state(g, state):
    """A saved state whose arrays are read-only."""
    copies = {name: np.array(part) for name, part in state.items()}
    for part in copies.values():
        part.setflags(write=False)
    return g.keep(copies)


def decay(theta):
    return dynamics.StateSpace(A=theta[0], C=1.0, Q=theta[1], R=0.0, cov0=1.0)


def of_families(call, families, g):
    """A call at natural parameters, which are working ones as well."""
    for family in families:
        getattr(family, call)(g(family.natural(np.full(family.size, 0.2))))


def decaying():
    return dynamics.CustomFamily(decay, {"a": 0.5, "q": 1.0}, {"a": "correlation", "q": "positive"})


def kalman(g):
    made = dynamics.PrivateKalman(WALK, 1.0)
    made.update(stream(g))
    return made


def rls(g, count=3):
    made = pv.PrivateRLS(pv.StreamLevel.constant(1.0), 2, GAUSS)
    made.update(stream(g, [0.5, np.nan, 0.7, 0.2]), g(H))
    return made


def restored(g, made, fresh):
    fresh.restore(frozen_state(g, made.state()))
    return fresh


def mechanism_state(g):
    made = pv.StreamMechanism(pv.StreamLevel.constant(1.0, lags=[0.5]))
    made.simulate(g(Y), RNG(0))
    restored(g, made, pv.StreamMechanism(pv.StreamLevel.constant(1.0, lags=[0.5])))


def regression(g, **more):
    return pv.PrivateLinearRegression(level=1.0, noise=0.5, random_state=0, simulate=True, **more)


def checkpoint(g, tmp):
    made = pv.StreamMechanism(pv.StreamLevel.constant(1.0))
    rng = RNG(0)
    with pv.Checkpoint(tmp / "kept", mechanism=made, source=rng) as kept:
        kept.resume()
        kept.save(pending=g.keep(made.simulate(g(Y), rng)), notes=g.keep({"at": [1, 2]}))


def sensor(g, level=4.0):
    return network.Sensor(g(H), GAUSS, level)


def sensors(g):
    made = [sensor(g), sensor(g)]
    return made, [g.keep(s.simulate(g(Y), RNG(k))) for k, s in enumerate(made)]


RING_WEIGHTS = np.array([[0.4, 0.3, 0.0, 0.3], [0.3, 0.4, 0.3, 0.0], [0.0, 0.3, 0.4, 0.3],
                         [0.3, 0.0, 0.3, 0.4]])  # fmt: skip


def contributions(g):
    made, sent = sensors(g)
    return [g.keep(s.contribution(z)) for s, z in zip(made, sent)] * 2


def plan(g):
    table = {name: g(column) if column.dtype.kind == "f" else column
             for name, column in people(40).items()}  # fmt: skip
    return workflow.make_plan(spec(), g.keep(table)), table


def estimate(g, tmp):
    made, table = plan(g)
    path = tmp / "release.csv"
    sent = workflow.simulate_release(g.keep(made), path, RNG(0), g.keep(table))
    return made, workflow.estimate(path), sent


TALL = np.column_stack([np.ones(12), np.linspace(-1, 1, 12)])
LONG = np.sin(np.arange(12.0))


def perturbation(g, score="least_squares", **more):
    model = pv.LinearModel(g(TALL), noise=GAUSS)
    return mechanism.OutputPerturbation(model, 4.0, score=score, **more)


WORDS = np.arange(8, dtype=np.uint64) << np.uint64(61)


LAWS = [
    0.5 + 2.0 * noise.Laplace(1.0), noise.Bump(), noise.Cauchy(), noise.CosSquared(),
    noise.from_logpdf(lambda x: -np.abs(x) - np.log(2.0), breaks=(0.0,)),
    noise.Gaussian(), noise.GaussianMixture((0.4, 0.6), (0.0, 1.0), (1.0, 2.0)),
    noise.Laplace(), noise.Logistic(), noise.Staircase(1.0), noise.StudentT(3.0), noise.Uniform(),
]  # fmt: skip
POINTS = np.array([[-0.7, 0.0, 0.3], [0.45, 0.9, 2.5]])
CHANNELS = [
    mechanism.Additive(noise.Laplace(1.0)), mechanism.BinaryQuantiser(noise.Gaussian()),
    mechanism.Gain(noise.Gaussian(0.25, 1.0)), mechanism.Inverse(noise.Gaussian(0.5)),
    mechanism.PrivacyWeights(0.5, 1.0), mechanism.TwinUniform(0.5, 1.0),
    mechanism.LaplaceQuantiser(1.0, 1.0), mechanism.ProbabilisticQuantiser(1.0),
    mechanism.ProbabilisticQuantiser(1.0, dither="triangular"),
    mechanism.Inverse(noise.Gaussian(0.5), 0.1),
    mechanism.Gain(noise.Gaussian(0.25, 1.0), 0.1),
    mechanism.Channel.from_functions(
        sample=lambda u, rng: u + rng.laplace(size=u.shape),
        log_density=lambda z, u: -np.abs(z - u) - np.log(2.0),
    ),
]  # fmt: skip
VECTORS = [
    mechanism.GaussianMechanism(PAIR, 2), mechanism.GeometricPerturbation(2, variance=0.0),
    mechanism.GeometricPerturbation(2, 0.5),
    mechanism.Componentwise(mechanism.Additive(noise.Laplace(1.0)), PAIR, [1.0, 0.0]),
]  # fmt: skip


def each(objects, kind, name, *arguments):
    """One case that calls the method of all objects that have it from the class `kind`."""
    made = []
    for thing in objects:
        home = next((c for c in type(thing).__mro__ if name in vars(c)), None)
        if home is not None and home.__name__ == kind:
            made.append(getattr(thing, name))

    def call(g):
        assert made, f"no object has {kind}.{name}"
        for method in made:
            with contextlib.suppress(pv.errors.PrivestError):  # "no density": an answer, too
                method(*(argument(g) for argument in arguments))

    return call


def points(g):
    return g(POINTS)


def parts(g):
    return g([0.1, 0.5, 0.9])


def outcomes(g):
    return g(np.round(POINTS))


def rng(g):
    return RNG(0)


CASES = {
    # audit
    "audit.attack": lambda g: audit.attack(CHANNELS[0], g([3.0]), rng=RNG(0), trials=50),
    "audit.Errors.of": lambda g: audit.Errors.of(g(Y), g(Y + 0.1)),
    "audit.certify": lambda g: [
        audit.certify(CHANNELS[0], 1.0, search=g([[0.0], [1.0]])),
        audit.certify(noisy, g([[1.0]]), method="release", rng=RNG(0), samples=1000)],
    "audit.fisher_information": lambda g: audit.fisher_information(CHANNELS[0], g([1.0])),
    # bounds
    "bounds.bound": lambda g: [
        [pv.bound(model(g), g(S)).standard_error for S in (Y, SPREAD)],
        [pv.bound(model(g), level).covariance for level in
         (pv.StreamLevel(g(Y)), pv.StreamLevel(g(Y), lags=[0.5]),
          pv.StreamLevel.from_cumulative(g(SPREAD)))],
        pv.bound(model(g), g(SPREAD), prior=g(PAIR)).covariance,
        pv.bound(TWO, g(PAIR), steps=4, missing=g([False, True, False, False])).classical],
    "bounds.Bound.contrast": lambda g: [
        pv.bound(model(g), g(S)).contrast(g(H[:, :2])) for S in (Y, SPREAD, [1.0, 0.0, 0.0, 0.0])],
    "bounds.identifiability": lambda g: pv.identifiability(model(g), g([1.0, 0.0, 0.0, 0.0])),
    "bounds.prior_information": lambda g: bounds.prior_information(
        pv.LinearModel(g(H), noise=noise.Gaussian(cov=g(SPREAD))), prior=g(PAIR)),
    "bounds.release_level": lambda g: [
        bounds.release_level(
            pv.LinearModel(g(H), noise=noise.Gaussian(cov=g(SPREAD))), g(9 * np.eye(4)),
            prior=g(PAIR)),
        bounds.release_level(TWO, g(20 * np.eye(2)), steps=3),
        bounds.release_level(TWO, g(20 * np.eye(2)), lookback=False)],
    "bounds.consensus_bound": lambda g: [bounds.consensus_bound(g(S)) for S in (Y, SPREAD)],
    "bounds.sweep": lambda g: [
        bounds.sweep(pv.LinearModel(g(H), noise=noise.Gaussian(cov=g(cov))), g([0.0, 1.0]))
        for cov in (0.5, Y, SPREAD)],
    "bounds.trace_bound": lambda g: bounds.trace_bound(model(g), budget=4.0, weight=g(PAIR)),
    # data
    "data.Format.without_codes": lambda g: data.Format(missing_codes=(99,)).without_codes(
        g([1.0, 99.0]), "y"),
    "data.inspect": lambda g: data.inspect(
        g.keep({"a": g([1.0, 2.0, 999.0]), "b": ["x", "y", "x"]}), public=("a", "b")),
    "checkpoint.Checkpoint.save": checkpoint,
    # design
    "design.allocate": lambda g: design.allocate(
        pv.LinearModel(g(H), noise=1.0), 2.0, weight=g(PAIR), cost=g(Y**2 + 1.0),
        cap=g(Y**2 + 2.0), persons=g(Y), person_cap=3.0),
    "design.least_loss": lambda g: design.least_loss(
        pv.LinearModel(g(H), noise=1.0), 50.0, cost=g(Y**2 + 1.0)),
    "design.optimality_gap": lambda g: design.optimality_gap(
        pv.LinearModel(g(H), noise=1.0), g(Y**2)),
    "design.sample_size": lambda g: [
        design.sample_size(model(g), {0: 0.1}, level=g(Y)),
        design.sample_size(model(g), g.keep({0: 0.1}), sizes=g([100.0, 200.0]))],
    "design.schedule": lambda g: design.schedule(
        pv.LinearModel(g(H), noise=1.0), 4.0, estimates=g([0.0, 1.0, 1.0, 2.0]), weight=g(PAIR),
        cost=g(Y**2), cap=g(10 * Y)),
    # dynamics
    "dynamics.StateSpace.__init__": lambda g: dynamics.StateSpace(
        g(0.9 * np.eye(2)), g(np.eye(2)), g(PAIR), g(PAIR), g([0.0, 1.0]), g(PAIR),
        B=g([[1.0], [0.0]]), D=g([[0.0], [1.0]])).matrices.Q_root,
    "dynamics.StateSpace.from_continuous": lambda g: dynamics.StateSpace.from_continuous(
        g(-PAIR), g(np.eye(2)), g(PAIR), g(PAIR), g([0.0, 1.0]), "stationary",
        times=g([0.0, 1.0, 3.0]), B=g(PAIR), D=g(PAIR), diffuse=g([[1.0], [2.0]])),
    "dynamics.StateSpace.from_control": lambda g: dynamics.StateSpace.from_control(
        g.keep(DRIVEN.to_control()), Q=g([[1.0]]), R=g([[1.0]]), cov0=g([[1.0]]), mean0=g([0.0])),
    "dynamics.StateSpace.from_scipy": lambda g: dynamics.StateSpace.from_scipy(
        g.keep(DRIVEN.to_scipy()), Q=g([[1.0]]), R=g([[1.0]]), cov0=g([[1.0]]), mean0=g([0.0])),
    "dynamics.StateSpace.sample": lambda g: DRIVEN.sample(3, RNG(0), inputs=g(np.ones((3, 1)))),
    "dynamics.steady_state": lambda g: dynamics.steady_state(TWO, g(PAIR)),
    "dynamics.best_directions": lambda g: dynamics.best_directions(TWO, 1.0, weight=g(PAIR)),
    "dynamics.NonlinearStateSpace.__init__": lambda g: dynamics.NonlinearStateSpace(
        np.sin, np.sin, g([[1.0]]), g([[1.0]]), g([0.0]), g([[1.0]])),
    "dynamics.NonlinearStateSpace.linearised": lambda g: BENT.linearised(g([[0.1], [0.2]])),
    "dynamics.NonlinearStateSpace.move": lambda g: BENT.move(g([0.1])),
    "dynamics.NonlinearStateSpace.read": lambda g: BENT.read(g([0.1])),
    "dynamics.NonlinearStateSpace.value_moved": lambda g: PUSHED.value_moved(g([0.1]), g([1.0])),
    "dynamics.NonlinearStateSpace.value_read": lambda g: PUSHED.value_read(g([0.1]), g([1.0])),
    "dynamics.NonlinearStateSpace.inputs_of": lambda g: PUSHED.inputs_of(2, g([1.0, 2.0])),
    "dynamics.local_bound": lambda g: dynamics.local_bound(BENT, 1.0, g([[0.1], [0.2]])).classical,
    "dynamics.PrivateKalman.__init__": lambda g: dynamics.PrivateKalman(TWO, g(PAIR)),
    "dynamics.PrivateKalman.update": lambda g: dynamics.PrivateKalman(DRIVEN, 1.0).update(
        stream(g), inputs=g(np.ones((3, 1)))),
    "dynamics.PrivateKalman.forecast": lambda g: kalman(g).forecast(2),
    "dynamics.PrivateKalman.restore": lambda g: restored(
        g, kalman(g), dynamics.PrivateKalman(WALK, 1.0)).update(
            Release(3, 1, g([0.1]), None, kalman(g).level.fingerprint, True)),
    "dynamics.filter": lambda g: [
        found.smoothed for found in (
            *(dynamics.filter(WALK, series(g, count), level=1.0) for count in (1, 4)),
            *(dynamics.filter(WALK, stream(g, level=level), level=level) for level in LEVELS),
            dynamics.filter(PUSHED, stream(g), level=1.0, inputs=g(np.ones((3, 1))),
                            method="unscented"),
            dynamics.filter(BENT, stream(g), level=1.0, method="extended"),
        )],
    "dynamics.Family.checked": partial(of_families, "checked", (dynamics.AR(1), decaying())),
    **{
        f"dynamics.{owner}.{call}": partial(of_families, call, families)
        for owner, families in (
            ("AffineFamily", (dynamics.AR(2), dynamics.ARMA(1, 1, mean=False))),
            ("CustomFamily", (decaying(),)),
            ("Family", (dynamics.AR(2), decaying())),
        )
        for call in ("natural", "natural_slopes", "working", "matrices", "slopes", "system")
    },
    **dict.fromkeys(
        ("dynamics.AffineFamily.regressors", "dynamics.Family.regressors"),
        lambda g: dynamics.ARX(1, 2, mean=True).regressors(g(np.ones((4, 2))))),
    "dynamics.CustomFamily.__init__": lambda g: dynamics.CustomFamily(
        decay, g.keep({"a": 0.5, "q": 1.0}), g.keep({"a": "correlation"})),
    "dynamics.StateEstimate.forecast": lambda g: dynamics.filter(
        DRIVEN, stream(g), level=1.0, inputs=g(np.ones((3, 1)))).forecast(
            2, inputs=g(np.ones((2, 1)))),
    "dynamics.fit": fitted,
    "dynamics.FamilyEstimate.forecast": lambda g: fitted(g).forecast(2, inputs=g([[0.1], [0.2]])),
    "dynamics.parameter_bound": lambda g: dynamics.parameter_bound(
        "regression1", g([0.5, 1.0, 2.0]), g([[2.0]]), steps=6, inputs=g(np.sin(np.arange(6.0))),
        missing=g(np.arange(6) == 2)),
    "dynamics.StateEstimate.diagnose": lambda g: innovations(g).diagnose(),
    "release.Release.join": lambda g: pv.Release.join(g.keep([stream(g)])),
    # estimator
    "estimator.clipping_cost": lambda g: [
        estimator.clipping_cost(model(g), 1.0, (-1.0, 1.0), theta=g([0.1, 0.2])),
        estimator.clipping_cost(model(g), 1.0, (-1.0, 1.0), shares=g([0.1, 0.2]))],
    "estimator.estimate_clipped": lambda g: estimator.estimate_clipped(estimator.ClippedRows(
        g(H), g(Y), g(np.ones(4)), g(np.ones(4)), g(np.full(4, -9.0)), g(np.full(4, 9.0)))),
    "estimator.maximum_likelihood": lambda g: estimator.maximum_likelihood(
        g(H), g(Y[None]), GaussianLikelihood(g(Y), noise=0.0), starts=g(np.zeros((1, 2)))),
    "estimator.estimate_release": lambda g: estimator.estimate_release(
        g(Y), model(g), mechanism.Componentwise(CHANNELS[0], measurements=4)),
    "estimator.PrivateLinearRegression.__init__": lambda g: pv.PrivateLinearRegression(
        level=pv.PrivacyLevel(g(np.ones(4))), random_state=0, simulate=True
    ).fit(g(H[:, 1:]), g(Y)),
    "estimator.PrivateLinearRegression.fit": lambda g: [
        regression(g).fit(g(H[:, 1:]), g(Y)),
        regression(g, range=(-9.0, 9.0)).fit(g(H[:, 1:]), g(Y)),
        regression(g).fit(
            g.keep(pd.DataFrame(H[:, 1:], columns=["a"])), g.keep(pd.Series(Y)))],
    "estimator.PrivateLinearRegression.predict": lambda g: regression(
        g, fit_intercept=False).fit(g(H), g(Y)).predict(g(H), return_std=True),
    "estimator.PrivateRLS.follow": lambda g: [
        pv.PrivateRLS(level, 2, GAUSS).update(stream(g, Y, level), g(H))
        for level in (pv.StreamLevel.constant(1.0), pv.StreamLevel.constant(1.0, lags=[0.5]))],
    "estimator.PrivateRLS.restore": lambda g: restored(
        g, rls(g), pv.PrivateRLS(pv.StreamLevel.constant(1.0), 2, GAUSS)).result(),
    "estimator.PrivateRLS.update": lambda g: [
        pv.PrivateRLS(level, 2, GAUSS, classical=True).update(
            stream(g, [0.5, np.nan, 0.7, 0.2], level), g(H))
        for level in (pv.StreamLevel.constant(1.0), pv.StreamLevel.constant(1.0, lags=[0.5]),
                      pv.StreamLevel.from_cumulative(SPREAD))],
    "estimator.Estimate.contrast": lambda g: estimator.Estimate(
        value=np.ones(2), covariance=np.eye(2), names=("a", "b")
    ).contrast(g.keep({"a": 1.0, "b": -1.0})),
    "estimator.Estimate.compare": lambda g: estimator.Estimate(
        value=np.ones(2), covariance=np.eye(2), names=("a", "b")
    ).compare(estimator.Estimate(value=g([1.0]), covariance=g([[1.0]]), names=("a",))),
    "estimator.Estimate.predict": lambda g: estimator.Estimate(
        value=np.ones(2), covariance=np.eye(2)
    ).predict(g(PAIR), noise=1.0),
    "estimator.Estimate.wald_test": lambda g: estimator.Estimate(
        value=np.ones(2), covariance=np.eye(2)
    ).wald_test(g(PAIR), g([1.0, 2.0])),
    "estimator.Estimate.__init__": lambda g: estimator.Estimate(
        value=g([1.0, 2.0]), covariance=g(PAIR), classical=g(PAIR), bound=g(PAIR)).summary(),
    # lattice
    "lattice.exactly": lambda g: lattice.rounded(lattice.exactly(g(H)), WORDS[:8].copy()),
    "lattice.literal_factor": lambda g: lattice.literal_factor(g(SPREAD), g(np.tril(SPREAD) / 9)),
    "lattice.literal_root": lambda g: lattice.literal_root(g(np.abs(Y))),
    "lattice.rounded": lambda g: lattice.rounded(
        g.keep(lattice.exactly(g([1.0, np.nan, np.inf]))), WORDS[:3]),
    "lattice.sum_of_products": lambda g: lattice.sum_of_products(
        g.keep([(g(Y), g(H.T)), (g(2 * Y), g(H.T))])),
    # mechanism
    "mechanism.RunningMechanism.__init__": lambda g: RunningMechanism(
        g(PAIR), lambda y, rng: y, "still"),
    "mechanism.RunningMechanism.simulate": lambda g: RunningMechanism(
        PAIR, lambda y, rng: y + rng.normal(size=2), "x").simulate(g([0.1, 0.2]), RNG(0), 3),
    "mechanism.GaussianMechanism.__init__": lambda g: mechanism.GaussianMechanism(g(PAIR), 2),
    "mechanism.StreamMechanism.__init__": lambda g: pv.StreamMechanism(g(PAIR)),
    "mechanism.StreamMechanism.restore": mechanism_state,
    "lattice.finite": lambda g: lattice.finite(g([1.0, np.inf])),
    "lattice.tossed": lambda g: lattice.tossed(
        lattice.Coin(2**62), g([0.2, np.nan, np.inf]), WORDS[:3].copy()),
    "lattice.two_product": lambda g: lattice.two_product(g(Y), g(1.0 / Y)),
    "ledger.Budget.from_dict": lambda g: ledger.Budget.from_dict(
        g.keep(ledger.Budget(level=1.0).to_dict())),
    "ledger.Cost.__init__": lambda g: ledger.Cost(information=g(Y), rho=0.5, sensitivity=1.0),
    "ledger.Cost.from_dict": lambda g: ledger.Cost.from_dict(
        g.keep(ledger.Cost(information=Y).to_dict())),
    "ledger.Ledger.recover": lambda g, tmp: booked(tmp, lambda own: own.ledger.recover(
        g.keep({"a": 7}))),
    "ledger.Account.source": lambda g, tmp: booked(tmp, lambda own: pv.StreamMechanism(
        1.0).release(g(Y), own.source(ledger.Cost(information=1.0), start=0))),
    "ledger.Account.spend": lambda g, tmp: booked(tmp, lambda own: own.spend(
        ledger.Cost(information=1.0), stop=4, facts=g.keep({"level": "x"}))),
    "ledger.Account.spend_and_write": lambda g, tmp: booked(tmp, lambda own: own.spend_and_write(
        ledger.Cost(information=1.0), 0, 4, g.keep({"level": "x"}),
        lambda: (frozen(np.arange(4)), None))),
    "ledger.cost_of": lambda g: ledger.cost_of(g(PAIR), sensitivity=1.0, stop=2),
    "mechanism.Componentwise.release": lambda g: mechanism.Componentwise(
        mechanism.Additive(noise.Laplace(1.0)), g(PAIR)).release(g([0.1, np.nan])),
    "mechanism.RunningMechanism.release": lambda g: pv.StreamMechanism(1.0).as_mechanism(
        2).real().release(g([0.1, 0.2])),
    "mechanism.Source.restore": lambda g: mechanism.source.Protected().restore(g.keep({})),
    "privacy.grid_statement": lambda g: privacy.grid_statement(g(SPREAD), sensitivity=1.0),
    "privacy.rows_statement": lambda g: privacy.rows_statement(
        g(PAIR), sensitivity=1.0, law="laplace"),
    "workflow.Account.charge": lambda g, tmp: charged(g, tmp),
    "workflow.Account.paid": lambda g, tmp: charged(g, tmp),
    "mechanism.GaussianMechanism.release": lambda g: mechanism.GaussianMechanism(
        g(SPREAD), 4, range=(-3, 3)).release(g([1.0, np.nan, 2.0, np.inf])),
    "mechanism.Mechanism.release": lambda g: refused(
        lambda: mechanism.GeometricPerturbation(2, variance=0.0).release(g([0.1, 0.2]))),
    "mechanism.StreamMechanism.release": lambda g: [
        pv.StreamMechanism(level, range=(-3, 3)).release(g([1.0, np.nan, 2.0, 3.0])) for level in
        (1.0, pv.StreamLevel.constant(1.0, lags=[0.5]), pv.StreamLevel.from_cumulative(SPREAD))],
    "mechanism.StreamMechanism.simulate": lambda g: [
        pv.StreamMechanism(level).simulate(g([1.0, np.nan, 2.0, 3.0]), RNG(0)) for level in
        (1.0, pv.StreamLevel.constant(1.0, lags=[0.5]), pv.StreamLevel.from_cumulative(SPREAD))],
    "mechanism.GeometricPerturbation.calibrated": lambda g:
        mechanism.GeometricPerturbation.calibrated(g(2 * np.eye(2)), 2),
    "mechanism.Channel.from_functions": lambda g: mechanism.Channel.from_functions(
        log_density=lambda z, u: -np.abs(z - u), landmarks=lambda u: g([0.0])),
    "mechanism.Componentwise.__init__": lambda g: mechanism.Componentwise(
        CHANNELS[0], g(PAIR), g([1.0, 0.0])),
    "mechanism.GaussianMechanism.noise": lambda g: VECTORS[0].noise(
        g([0.1, 0.2]), g([0.3, 0.4])),
    "mechanism.Componentwise.inputs": lambda g: VECTORS[-1].inputs(g([0.1, 0.2])),
    "mechanism.Componentwise.spread": lambda g: VECTORS[-1].spread(g([0.1, 0.2])),
    "mechanism.calibrate": lambda g: [
        mechanism.calibrate("laplace", g(Y), model=4),
        mechanism.calibrate("laplace", 1.0, model=pv.LinearModel(g(H), noise=1.0), on="estimate")],
    **{f"mechanism.{kind}.{name}": each(CHANNELS, kind, name, *arguments)
       for kind in ("Additive", "BinaryQuantiser", "Channel", "Gain", "Inverse", "PrivacyWeights",
                    "TwinUniform", "LaplaceQuantiser", "ProbabilisticQuantiser",
                    "_Grid", "Factor", "FunctionChannel")
       for name, arguments in {
           "information": [points], "log_density": [outcomes, points], "sample": [points, rng],
           "score": [outcomes, points], "noise_width": [points]}.items()},
    "mechanism.Channel.score": lambda g: mechanism.Channel.score(
        CHANNELS[0], outcomes(g), points(g)),
    **{f"mechanism.{kind}.{name}": each(VECTORS, kind, name, *arguments)
       for kind in ("GaussianMechanism", "GeometricPerturbation", "Componentwise")
       for name, arguments in {
           "information": [lambda g: g([0.3, 0.4])],
           "log_density": [lambda g: g([0.1, 0.2]), lambda g: g([0.3, 0.4])],
           "score": [lambda g: g([0.1, 0.2]), lambda g: g([0.3, 0.4])],
           "simulate": [lambda g: g([0.3, 0.4]), rng]}.items()},
    # model
    "model.LinearModel.__init__": lambda g: model(g),
    "model.LinearModel.sample": lambda g: model(g).sample(g([1.0, 2.0]), RNG(0), 3),
    "model.NonlinearModel.__init__": lambda g: pv.NonlinearModel(
        lambda p: H @ np.sin(p), GAUSS, lambda p: g(H * np.cos(p))).at(g([0.1, 0.2])),
    "model.NonlinearModel.at": lambda g: pv.NonlinearModel(lambda p: H @ np.sin(p), GAUSS).at(
        g([0.1, 0.2])),
    "model.NonlinearModel.value": lambda g: pv.NonlinearModel(
        lambda p: H @ np.sin(p), GAUSS).value(g([0.1, 0.2])),
    # network
    "network.consensus": lambda g: network.consensus(
        g.keep(contributions(g)), network.Graph.ring(4), trace=True),
    "network.average": lambda g: network.average(
        network.Sensor(np.ones((4, 1)), 1.0, g(Y)).simulate(g(Y), RNG(0)), network.Graph.ring(4),
        level=g(Y)),
    "network.fuse": lambda g: network.fuse(*sensors(g)),
    "network.Graph.__init__": lambda g: network.Graph(np.array([[0, 1], [1, 2]])),
    "network.Graph.from_networkx": lambda g: network.Graph.from_networkx(networkx.path_graph(3)),
    "network.Graph.random_geometric": lambda g: network.Graph.random_geometric(g(H / 4), 2.0),
    "network.TimeVarying.__init__": lambda g: network.TimeVarying(g.keep([network.Graph.ring(4)])),
    "network.Contribution.__init__": lambda g: network.Contribution(g([1.0, 2.0]), g(PAIR)),
    "network.Contribution.stack": lambda g: network.Contribution.stack(g.keep(contributions(g))),
    "network.Sensor.__init__": lambda g: network.Sensor(g(H), GAUSS, g(SPREAD)),
    "network.Sensor.contribution": lambda g: contributions(g),
    "network.Sensor.release": lambda g: sensor(g).release(g(Y)),
    "network.Sensor.simulate": lambda g: sensor(g).simulate(g(Y), RNG(0)),
    "network.Sensor.view": lambda g: sensor(g).view(sensor(g).release(g(Y))),
    # noise
    "noise.Gaussian": lambda g: [noise.Gaussian(cov=g(cov), mean=g(Y)) for cov in (Y, SPREAD)],
    "noise.Distribution.expect": lambda g: noise.Laplace(1.0).expect(lambda x: x**2),
    "noise.Distribution.quantile": each(
        LAWS, "Distribution", "quantile", lambda g: g([0.1, 0.5, 0.9])),
    **{f"noise.{kind}.{name}": each(LAWS, kind, name, points)
       for kind in ["Distribution", *(type(law).__name__ for law in LAWS)]
       for name in ("cdf", "curvature", "logpdf", "pdf", "score")},
    "paper.fig1": lambda g: paper.fig1(
        g([1.0, 2.0]), methods=["gaussian"], trials=2, model=pv.LinearModel(g(H), noise=0.5),
        theta=g([0.1, 0.2])),
    "pipeline.OutputPerturbation.__init__": lambda g: perturbation(g, weight=g(PAIR)),
    "pipeline.OutputPerturbation.estimate": lambda g: perturbation(g).estimate(g(LONG)),
    "pipeline.OutputPerturbation.for_data_owner": lambda g: perturbation(g).for_data_owner(
        g(LONG)),
    "pipeline.OutputPerturbation.jacobian": lambda g: perturbation(g, "one_step").jacobian(
        g(LONG[None]), g([[1.0, 0.5]])),
    "pipeline.OutputPerturbation.release": lambda g: perturbation(g, "one_step").release(g(LONG)),
    "pipeline.OutputPerturbation.simulate": lambda g: perturbation(g).simulate(g(LONG), RNG(0)),
    "pipeline.OutputPerturbation.solve": lambda g: perturbation(g, "one_step").solve(
        g(LONG[None])),
    # privacy
    "privacy.Adjacency.mu": lambda g: [
        privacy.Adjacency.record(g(Y**2 + 1)).mu(g.keep(linalg.Diagonal(g(Y**2 + 1)))),
        *(own.mu(g.keep(linalg.Blocks([g(SPREAD)])))
          for own in (privacy.Adjacency.block(1.0), privacy.Adjacency.measurement(1.0)))],
    "privacy.Adjacency.record": lambda g: privacy.Adjacency.record(g(Y**2 + 1)),
    "privacy.Adjacency.levels": lambda g: privacy.Adjacency.record(g(Y**2 + 1)).levels(
        g.keep(linalg.Diagonal(g(Y**2 + 1)))),
    "privacy.as_stream_level": lambda g: privacy.as_stream_level(g(PAIR), measurements=2),
    "privacy.PrivacyLevel.__init__": lambda g: [pv.PrivacyLevel(g(S)).to_mu(sensitivity=1.0)
                                                for S in (Y, SPREAD)],
    "privacy.PrivacyLevel.from_blocks": lambda g: pv.PrivacyLevel.from_blocks(
        g.keep([g(PAIR), g(SPREAD)])),
    "privacy.PrivacyLevel.from_matrix": lambda g: pv.PrivacyLevel.from_matrix(
        g.keep(linalg.Blocks([g(SPREAD)]))).to_mu(sensitivity=1.0),
    "privacy.PrivacyLevel.uncorrelated": lambda g: pv.PrivacyLevel(g(SPREAD)).uncorrelated(
        g(np.eye(4) + SPREAD)),
    "privacy.as_level": lambda g: privacy.as_level(g(SPREAD)),
    "privacy.StreamLevel.__init__": lambda g: pv.StreamLevel(
        g(np.tile(PAIR, (3, 1, 1))), g.keep([None, g(0.1 * PAIR), g(np.zeros((4, 2)))])),
    "privacy.StreamLevel.constant": lambda g: pv.StreamLevel.constant(
        g(PAIR), lags=[g(PAIR)], steps=3),
    "privacy.StreamLevel.from_cumulative": lambda g: pv.StreamLevel.from_cumulative(g(SPREAD)),
    # release, report, reading
    "release.ReleaseRecord.from_dict": lambda g: Release.from_dict(g.keep(stream(g).to_dict())),
    "reading.state_array": lambda g: reading.state_array(
        frozen_state(g, {"a": PAIR}), "a", (2, 2)),
    "report.describe": lambda g, tmp: [
        workflow.describe(g.keep(one)) for one in (*estimate(g, tmp)[:2], plan(g)[0])],
    "report.report": lambda g, tmp: workflow.report(
        g.keep(estimate(g, tmp)[1]), tmp / "a.html", plan=g.keep(plan(g)[0])),
    # workflow
    "workflow.make_plan": lambda g: [plan(g), workflow.make_plan(
        spec(), g.keep(pd.DataFrame(people(40))))],
    "workflow.plan": lambda g: [
        workflow.plan(g.keep(given), "ldl ~ age + C(sex)", categories=g.keep(
            {"sex": ["female", "male"]}), form="rows", level=1.0, residual_variance=1.0,
            format=g.keep({"missing_codes": [99]})).simulate(rng=0)
        for given in (plan(g)[1], pd.DataFrame(people(40)))],
    "workflow.estimate": lambda g, tmp: workflow.estimate(g.keep(estimate(g, tmp)[2])),
    "workflow.simulate_release": estimate,
    "workflow.simulation_source": lambda g: workflow.simulation_source(g.keep(plan(g)[0]), 1),
    "workflow.stated_plan": lambda g: workflow.stated_plan(spec(), g.keep(plan(g)[1])),
    "workflow.release": lambda g, tmp: workflow.release(
        g.keep(plan(g)[0]), tmp / "z.csv", g.keep(plan(g)[1]),
        account=workflow.Account(tmp / "book.db", "people")),
    "workflow.TableRelease.from_dict": lambda g, tmp: workflow.TableRelease.from_dict(
        g.keep(estimate(g, tmp)[2].to_dict())),
    "workflow.Spec.from_dict": lambda g: workflow.Spec.from_dict(g.keep(spec().to_dict())),
    "workflow.Model.__init__": lambda g: workflow.Model(
        "y", g.keep(("x",)), categories=g.keep({"x": ("a", "b")})),
    "workflow.Public.__init__": lambda g: workflow.Public(expected=g.keep({"a": 1.0})),
    "workflow.Privacy.__init__": lambda g: workflow.Privacy(
        1.0, range=g.keep({"a": [0.0, 1.0]})),
    "workflow.TableEstimate.predict": lambda g: pv.estimate(
        pv.plan({"x": np.arange(9.0), "y": np.arange(9.0) % 4}, "y ~ x", form="rows", level=1.0)
        .simulate(rng=1)
    ).predict(g.keep({"x": 2.0})),
}  # fmt: skip

RESULT = "an Estimate, whose constructor has an entry"
DOCUMENT = "reads one value of a parsed document: nothing there can be written to"
NO_DATA = {
    "design.Allocation.__init__": RESULT,
    "dynamics.FamilyEstimate.__init__": RESULT,
    "app.Desk.new_token": "takes nothing",
    "collect.CollectionPlan.__init__": DOCUMENT, "collect.CollectionPlan.from_dict": DOCUMENT,
    "collect.Device.__init__": "takes names, numbers and calls",
    "collect.estimate": "takes sums of whole numbers; the tests of stores compare them",
    "app.Desk.run": "takes a call", "app.serve": "takes a call that is given the address",
    "ledger.Budget.__init__": "takes numbers",
    "reading.counted.<locals>.read": DOCUMENT, "reading.ranged.<locals>.read": DOCUMENT,
    "reading.read_fields": DOCUMENT, "reading.read_flag": DOCUMENT,
    "reading.read_flags": DOCUMENT, "reading.read_numbers": DOCUMENT,
    "reading.read_text": DOCUMENT, "reading.state_count": DOCUMENT,
    "reading.state_number": DOCUMENT, "reading.state_flag": DOCUMENT,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, order) for name in sorted(public_calls() & set(CASES)) for order in "CF"
     if order == "C" or not name.startswith("report.save")],  # pictures take long
)  # fmt: skip
def test_inputs_are_never_written_to(name, order, tmp_path):
    given, case = Given(order), CASES[name]
    case(*(given, tmp_path)[: len(inspect.signature(case).parameters)])
    given.require_untouched()


def test_every_public_call_that_takes_data_is_tried():
    calls = public_calls()
    assert len(calls) > 200
    assert sorted(calls - set(CASES) - set(NO_DATA)) == []
    assert sorted(set(NO_DATA) - calls) == []  # none that is gone


def test_the_test_can_fail():
    given = Given("C")
    array, record = given([1.0, 2.0]), given.keep({"a": [1, 2]})
    with pytest.raises(ValueError, match="read-only"):
        array += 1.0
    given.require_untouched()
    record["a"].append(3)
    with pytest.raises(AssertionError):
        given.require_untouched()
    values = np.array([np.nan])
    given.keep(Release(0, 1, values, None, "", True))
    values[0] = 0.0
    with pytest.raises(AssertionError):
        given.require_untouched()
