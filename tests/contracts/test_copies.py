"""Every error and every public value goes through pickle, copy and deepcopy, and stays what it is.

A process pool sends values and errors as pickles: one that cannot be read again ends the pool with
all its work. A public class without an instance here fails.
"""

import copy
import dataclasses
import functools
import inspect
import pickle
import re
from multiprocessing import get_context

import numpy as np
import pytest

import privest as pv
from privest import (
    audit,
    bounds,
    data,
    design,
    dynamics,
    errors,
    estimator,
    ledger,
    mechanism,
    network,
    noise,
    paper,
    privacy,
    workflow,
)

COPIES = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
MESSAGE = "what is wrong, and what to do."
ERRORS = {
    errors.NotOffered: lambda: errors.NotOffered({"form": MESSAGE, "publish": "another."}),
    errors.NotIdentifiable: lambda: errors.NotIdentifiable(MESSAGE, np.eye(3, 1)),
    errors.InfeasibleTarget: lambda: errors.InfeasibleTarget(MESSAGE, "caps", 0.25),
}
ERROR_CLASSES = [
    found
    for found in vars(errors).values()
    if inspect.isclass(found) and issubclass(found, Exception)
]

H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
Y = np.array([0.5, -1.0, 2.0, 0.25])
SWINGS = np.arange(12.0) + 2 * (-1.0) ** np.arange(12)
TABLE = {"age": [30, 40, 50, 60] * 50, "y": [1.0, 2.0, 2.5, 4.0] * 50}


def rng():
    return np.random.default_rng(0)


def linear():
    return pv.LinearModel(H, noise=1.0)


def curve(theta):
    return np.exp(H @ theta)


def kept(state):
    return 0.9 * state


def walk():
    return dynamics.StateSpace(A=0.9, C=1.0, Q=1.0, R=0.5, cov0=1.0)


def bent():
    return dynamics.NonlinearStateSpace(kept, kept, 1.0, 0.5, [0.0], 1.0)


def family(theta):
    return dynamics.StateSpace(A=theta[0], C=1.0, Q=1.0, R=0.5, cov0=1.0)


def bell(x):
    return -0.5 * x**2


def stream(count=40):
    measured = np.cumsum(rng().standard_normal(count))
    return pv.StreamMechanism(1.0).simulate(measured, rng())


def filtered():
    return dynamics.filter(walk(), stream(), level=1.0)


def fitted():
    return dynamics.fit("ar1-mean", stream(), level=1.0)


def sensor():
    return network.Sensor(H, noise.Gaussian(cov=1.0), 1.0)


def contribution():
    return sensor().contribution(sensor().simulate(Y, rng()))


def consensus():
    return network.consensus([contribution()] * 4, network.Graph.ring(4))


def planned():
    return pv.plan(TABLE, "y ~ age", epsilon=1.0, range=(0, 5), residual_variance=0.25)


def table_release():
    return planned().simulate(rng=1)


def rows_planned():
    return pv.plan(TABLE, "y ~ age", level=1.0, range=(0, 5), form="rows")


def attacks():
    return audit.attack(pv.GaussianMechanism(1.0, 4), Y, rng=rng(), trials=50)


def predicted():
    return pv.estimate(rows_planned().simulate(rng=1)).predict({"age": [35, 45]})


def account(folder):
    return pv.Ledger(folder / "ledger.db", marks=folder).account("table")


def spent(folder):
    opened = account(folder)
    opened.open(ledger.Budget(level=2.0))
    opened.spend(ledger.Cost(information=1.0))
    return opened


def regression():
    rows, values = np.arange(24.0).reshape(12, 2) % 7, np.arange(12.0)
    model = pv.PrivateLinearRegression(level=1.0, noise=1.0, simulate=True, random_state=1)
    return model.fit(rows, values)


def recursive():
    found = pv.PrivateRLS(1.0, 2, 1.0)
    found.update(pv.StreamMechanism(1.0).simulate(Y, rng()), H)
    return found


def verified(folder):
    planned().simulate(folder / "release.json", rng=1)
    return pv.verify(folder / "release.json", allow_simulated=True)


def perturbation():
    rows = np.column_stack([np.ones(12), np.arange(12.0)])
    return mechanism.OutputPerturbation(pv.LinearModel(rows, noise=noise.Logistic(1.0)), 1.0)


# Public name → what makes an instance, in a folder where it needs one.
VALUES = {
    "pv.Bound": lambda: pv.bound(linear(), 1.0),
    "pv.Estimate": lambda: pv.estimate(table_release()),
    "pv.GaussianMechanism": lambda: pv.GaussianMechanism(1.0, 4),
    "pv.Identifiability": lambda: pv.identifiability(linear(), 1.0),
    "pv.LinearModel": linear,
    "pv.NonlinearModel": lambda: pv.NonlinearModel(curve, 1.0),
    "pv.PrivacyLevel": lambda: pv.PrivacyLevel([[2.0, 1.0], [1.0, 2.0]]),
    "pv.PrivateLinearRegression": regression,
    "pv.PrivateRLS": recursive,
    "pv.Release": stream,
    "pv.StreamLevel": lambda: pv.StreamLevel.constant(1.0, lags=[0.5]),
    "pv.StreamMechanism": lambda: pv.StreamMechanism(1.0),
    "pv.audit.Attack": lambda: attacks()[0],
    "pv.audit.Certificate": lambda: audit.certify(mechanism.Additive(noise.Logistic(1.0)), 1.0),
    "pv.audit.Information": lambda: audit.fisher_information(
        mechanism.Additive(noise.Logistic(1.0)), [0.0]
    ),
    "pv.bounds.TraceBound": lambda: bounds.trace_bound(linear(), budget=1.0),
    "pv.data.Format": lambda: data.Format(separator=";", missing_codes=("-9",)),
    "pv.design.Allocation": lambda: design.allocate(linear(), 2.0),
    "pv.design.SampleSize": lambda: design.sample_size(linear(), {"θ[0]": 0.5}, level=1.0),
    "pv.dynamics.AR": lambda: dynamics.AR(2),
    "pv.dynamics.ARMA": lambda: dynamics.ARMA(1, 1),
    "pv.dynamics.ARX": lambda: dynamics.ARX(1),
    "pv.dynamics.CustomFamily": lambda: dynamics.CustomFamily(family, {"a": 0.5}),
    "pv.dynamics.Diagnosis": lambda: filtered().diagnose(),
    "pv.dynamics.Family": lambda: dynamics.AR(1),
    "pv.dynamics.FamilyEstimate": fitted,
    "pv.dynamics.Forecast": lambda: fitted().forecast(3),
    "pv.dynamics.LocalLevel": dynamics.LocalLevel,
    "pv.dynamics.LocalTrend": dynamics.LocalTrend,
    "pv.dynamics.NonlinearStateSpace": bent,
    "pv.dynamics.PrivateKalman": lambda: dynamics.PrivateKalman(walk(), 1.0, lag=2),
    "pv.dynamics.RegressionAR": lambda: dynamics.RegressionAR(1),
    "pv.dynamics.Seasonal": lambda: dynamics.Seasonal(4),
    "pv.dynamics.StateBound": lambda: pv.bound(walk(), 1.0, steps=5),
    "pv.dynamics.StateEstimate": filtered,
    "pv.dynamics.StateSpace": walk,
    "pv.estimator.ClippingCost": lambda: estimator.clipping_cost(
        linear(), 1.0, (-1.0, 2.0), theta=[0.0, 0.1]
    ),
    "pv.estimator.Prediction": predicted,
    "pv.estimator.WaldTest": lambda: pv.estimate(table_release()).wald_test("age"),
    "pv.ledger.Account": spent,
    "pv.ledger.Budget": lambda: ledger.Budget(level=2.0),
    "pv.ledger.Cost": lambda: ledger.Cost(information=2.0),
    "pv.ledger.Entry": lambda folder: spent(folder).history()[0],
    "pv.mechanism.CATALOGUE": lambda: mechanism.CATALOGUE,
    "pv.mechanism.Additive": lambda: mechanism.Additive(noise.Laplace(1.0)),
    "pv.mechanism.BinaryQuantiser": lambda: mechanism.BinaryQuantiser(noise.Logistic(1.0)),
    "pv.mechanism.Channel": lambda: mechanism.Additive(noise.Logistic(1.0)),
    "pv.mechanism.Componentwise": lambda: mechanism.Componentwise(
        mechanism.Additive(noise.Laplace(1.0)), measurements=2
    ),
    "pv.mechanism.Gain": lambda: mechanism.Gain(1.0 + noise.Laplace(1.0), 0.5),
    "pv.mechanism.GeometricPerturbation": lambda: mechanism.GeometricPerturbation(2),
    "pv.mechanism.Inverse": lambda: mechanism.Inverse.calibrated(1.0),
    "pv.mechanism.LaplaceQuantiser": lambda: mechanism.LaplaceQuantiser(1.0, 1.0),
    "pv.mechanism.Mechanism": lambda: pv.GaussianMechanism(1.0, 4),
    "pv.mechanism.OutputPerturbation": perturbation,
    "pv.mechanism.PrivacyWeights": lambda: mechanism.PrivacyWeights(1.0, 1.0),
    "pv.mechanism.ProbabilisticQuantiser": lambda: mechanism.ProbabilisticQuantiser(1.0),
    "pv.network.Consensus": consensus,
    "pv.network.Contribution": contribution,
    "pv.network.Graph": lambda: network.Graph.ring(4),
    "pv.network.Sensor": sensor,
    "pv.network.TimeVarying": lambda: network.TimeVarying([network.Graph.ring(4)], loss=0.1, rng=0),
    "pv.noise.Bump": noise.Bump,
    "pv.noise.Cauchy": noise.Cauchy,
    "pv.noise.CosSquared": noise.CosSquared,
    "pv.noise.Distribution": lambda: noise.from_logpdf(bell, normalise=True),
    "pv.noise.Gaussian": noise.Gaussian,
    "pv.noise.GaussianMixture": lambda: noise.GaussianMixture((0.5, 0.5), (0.0, 1.0), (1.0, 2.0)),
    "pv.noise.Laplace": noise.Laplace,
    "pv.noise.Logistic": noise.Logistic,
    "pv.noise.Staircase": lambda: noise.Staircase(1.0),
    "pv.noise.StudentT": lambda: noise.StudentT(3.0),
    "pv.noise.Uniform": noise.Uniform,
    "pv.paper.Figure": lambda: paper.fig1([1.0], methods=("gaussian",), trials=20),
    "pv.privacy.Adjacency": lambda: privacy.Adjacency.record([1.0, 2.0]),
    "pv.privacy.Exposure": lambda: privacy.exposure(4.0, sd=0.5),
    "pv.privacy.Statement": lambda: pv.GaussianMechanism(1.0, 4).statement(1.0),
    "pv.workflow.Plan": planned,
    "pv.workflow.Section": lambda: workflow.describe(pv.estimate(table_release()))[0],
    "pv.workflow.Spec": lambda: planned().spec,
    "pv.workflow.TableRelease": table_release,
    "pv.workflow.Verification": verified,
}  # fmt: skip
# What public calls return beside the classes that have a public name.
RETURNED = {
    "bound of a stream": lambda: pv.bound(linear(), pv.StreamLevel([1.0, 2.0, 1.0, 1.0])),
    "bound with a prior": lambda: pv.bound(linear(), 1.0, prior=np.eye(2)),
    "bound of a contrast": lambda: pv.bound(linear(), 1.0).contrast([1.0, -1.0]),
    "sweep": lambda: bounds.sweep(linear(), [0.5, 1.0]),
    "parameter bound": lambda: dynamics.parameter_bound("ar1-mean", [0.5, 1.0], 1.0, steps=20),
    "steady state": lambda: dynamics.steady_state(walk(), 1.0),
    "best directions": lambda: dynamics.best_directions(walk(), 1.0),
    "local bound": lambda: dynamics.local_bound(bent(), 1.0, np.zeros((3, 1))),
    "nonlinear filter": lambda: dynamics.filter(bent(), stream(), level=1.0, method="extended"),
    "schedule": lambda: design.schedule(linear(), 1.0),
    "sensor release": lambda: sensor().simulate(Y, rng()),
    "perturbed output": lambda: perturbation().simulate(
        np.arange(12.0) + 2 * (-1.0) ** np.arange(12), rng()
    ),
    "estimate of rows": lambda: pv.estimate(rows_planned().simulate(rng=1)),
    "inspected": lambda: data.inspect(TABLE),
    "joint Gaussian": lambda: noise.Gaussian(cov=[[2.0, 1.0], [1.0, 2.0]]),
    "entry of the catalogue": lambda: mechanism.CATALOGUE["inverse-gaussian"],
}


MAKERS = VALUES | RETURNED

# Open files: whoever needs one in another process opens it there.
HANDLES = {"pv.Checkpoint", "pv.Ledger"}


# A plan's copy has the public facts, without the frame. Accounts open their ledger anew.
LEFT_BEHIND = {
    "pv.workflow.Plan": {"data"},
    "pv.ledger.Account": {"_ledger"},
}


def public_classes():
    """Dotted names of the public classes."""
    packages = [name for name in pv.__all__ if inspect.ismodule(getattr(pv, name))]
    for home in ("", *packages):
        module = getattr(pv, home) if home else pv
        for name in getattr(module, "__all__", ()):
            if inspect.isclass(getattr(module, name)):
                yield ".".join(filter(None, ("pv", home, name)))


@functools.cache
def instance(name, folder):
    make = MAKERS[name]
    return make(folder) if "folder" in inspect.signature(make).parameters else make()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    yield tmp_path_factory.mktemp("values")
    instance.cache_clear()  # closes the ledger of an account


def test_every_public_class_has_an_instance_here(folder):
    classes = set(public_classes())
    assert classes - HANDLES <= set(VALUES)
    assert set(VALUES) | HANDLES <= classes | {"pv.mechanism.CATALOGUE"}
    for name in classes - HANDLES:
        found = functools.reduce(getattr, name.split(".")[1:], pv)
        assert isinstance(instance(name, folder), found), name


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", ERROR_CLASSES, ids=lambda kind: kind.__name__)
def test_errors_are_copied_with_all_they_say(kind, how):
    error = ERRORS.get(kind, lambda: kind(MESSAGE))()
    twin = COPIES[how](error)
    assert type(twin) is kind
    assert str(twin) == str(error)
    assert MESSAGE in str(twin)
    np.testing.assert_equal(vars(twin), vars(error))


def refuse(kind):
    raise ERRORS.get(kind, lambda: kind(MESSAGE))()


def test_a_process_pool_hands_every_error_on():
    """With `fork`, which needs no import of this file: the pool hung on two of them."""
    with get_context("fork").Pool(1) as pool:
        for kind in ERROR_CLASSES:
            with pytest.raises(kind, match=MESSAGE):
                pool.apply_async(refuse, (kind,)).get(timeout=60)


def text_of(found):
    if isinstance(found, np.random.Generator):
        return repr(found.bit_generator.state)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(found))


def state_of(value):
    """What it holds, as text: attributes and slots, caches too."""
    names = [*vars(value)] if hasattr(value, "__dict__") else [*type(value).__slots__]
    return {name: text_of(getattr(value, name)) for name in names}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", MAKERS)
def test_values_are_copied_whole(name, how, folder):
    value = instance(name, folder)
    twin = COPIES[how](value)
    assert type(twin) is type(value)
    assert text_of(twin) == text_of(value)
    before, after = state_of(value), state_of(twin)
    changed = {one for one in before if after.get(one) != before[one]}
    assert changed <= LEFT_BEHIND.get(name, set())


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_plan_has_no_private_column_and_says_so(how, tmp_path):
    """It answers all that its survey knows; what needs the table is refused in one sentence."""
    table = TABLE | {"y": [1.234567, 2.0, 2.5, 4.0] * 50}
    plan = pv.plan(table, "y ~ age", epsilon=1.0, range=(0, 5), residual_variance=0.25)
    twin = COPIES[how](plan)
    assert b"1.234567" not in pickle.dumps(plan, protocol=0)
    assert np.float64(1.234567).tobytes() not in pickle.dumps(plan)
    assert plan.data is table
    assert twin.data is None
    assert twin.summary() == plan.summary()
    assert twin.at(0.5).summary() == plan.at(0.5).summary()
    for call in (
        lambda: twin.simulate(rng=1),
        lambda: twin.release(account=account(tmp_path)),
    ):
        with pytest.raises(errors.InvalidInput, match="made from a frame, which a copied"):
            call()
    assert plan.simulate(rng=1).rows == 200


def test_a_copied_plan_of_a_file_still_finds_its_table(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"{age},{y}" for age, y in zip(TABLE["age"], TABLE["y"])]
    path.write_text("\n".join(["age,y", *lines]))
    plan = pv.plan(path, "y ~ age", epsilon=1.0, range=(0, 5))
    twin = pickle.loads(pickle.dumps(plan))
    assert twin.simulate(rng=1).to_dict() == plan.simulate(rng=1).to_dict()


def test_a_saved_plan_of_a_frame_says_the_same(tmp_path):
    planned().save(tmp_path / "plan.toml")
    with pytest.raises(errors.InvalidInput, match="made from a frame, which a copied"):
        workflow.read_plan(tmp_path / "plan.toml")


# --- equality and read-only arrays ------------------------------------------------------------


BY_VALUE = [
    "pv.PrivacyLevel", "pv.StreamLevel", "pv.data.Format", "pv.ledger.Budget", "pv.ledger.Cost",
    "pv.mechanism.Additive", "pv.mechanism.BinaryQuantiser", "pv.mechanism.Gain",
    "pv.mechanism.LaplaceQuantiser", "pv.mechanism.PrivacyWeights",
    "pv.mechanism.ProbabilisticQuantiser", "pv.noise.Bump", "pv.noise.Cauchy",
    "pv.noise.CosSquared", "pv.noise.Distribution", "pv.noise.Gaussian",
    "pv.noise.GaussianMixture", "pv.noise.Laplace", "pv.noise.Logistic", "pv.noise.Staircase",
    "pv.noise.StudentT", "pv.noise.Uniform", "pv.privacy.Adjacency", "pv.privacy.Exposure",
]  # fmt: skip


@pytest.mark.parametrize("name", BY_VALUE)
def test_what_users_state_compares_by_value(name):
    make = VALUES[name]
    value = make()
    for twin in (make(), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert hash(twin) == hash(value)
    assert value != 1.0


DIFFERENT = [
    pv.PrivacyLevel(1.0),
    pv.PrivacyLevel(2.0),
    pv.PrivacyLevel([1.0, 1.0]),
    pv.PrivacyLevel([1.0, 1.0, 1.0]),
    pv.PrivacyLevel([1.0, 2.0]),
    pv.PrivacyLevel([[2.0, 1.0], [1.0, 2.0]]),
    pv.StreamLevel.constant(1.0),
    pv.StreamLevel.constant(1.0, steps=2),
    pv.StreamLevel.constant(1.0, steps=3),
    pv.StreamLevel.constant(1.0, lags=[0.5]),
    pv.StreamLevel.constant(1.0, lags=[0.5], steps=3),
]


def test_levels_that_differ_are_not_equal():
    for k, level in enumerate(DIFFERENT):
        assert [other == level for other in DIFFERENT] == [j == k for j in range(len(DIFFERENT))]
    assert len(set(DIFFERENT)) == len(DIFFERENT)
    assert pv.PrivacyLevel([[4.0, 0.0], [0.0, 4.0]]) == pv.PrivacyLevel([4.0, 4.0])


def held_arrays(value):
    """(name, array) of public attributes that give the same memory again: it is the value's own."""
    names = {*dir(type(value)), *getattr(value, "__dict__", ())}
    for name in sorted(name for name in names if not name.startswith("_")):
        if inspect.isroutine(inspect.getattr_static(value, name)):
            continue
        try:
            found, again = getattr(value, name), getattr(value, name)
        except (errors.PrivestError, KeyError):
            continue
        if isinstance(found, np.ndarray) and np.shares_memory(found, again):
            yield name, found


@pytest.mark.parametrize("name", MAKERS)
def test_no_array_of_a_frozen_value_can_be_written_to(name, folder):
    value = instance(name, folder)
    frozen = isinstance(value, pv.Bound) or dataclasses.is_dataclass(value)
    held = held_arrays(value) if frozen else ()
    assert [name for name, array in held if array.flags.writeable and array.size] == []


def test_the_arrays_that_a_value_is_made_of_stay_writable():
    values, covariance = np.ones(2), np.eye(2)
    estimate = pv.Estimate(value=values, covariance=covariance)
    values[0] = covariance[0, 0] = 3.0
    with pytest.raises(ValueError, match="read-only"):
        estimate.value[0] = 4.0
