"""An argument of the wrong kind is refused by a documented error that names it, in one sentence."""

import numpy as np
import pyarrow
import pytest

import privest as pv
from privest import dynamics, mechanism, network, noise, paper, privacy
from privest.errors import InvalidInput

H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
TABLE = {"age": [30, 40, 50, 60] * 5, "y": [1.0, 2.0, 2.5, 4.0] * 5}
GAUSS = pv.GaussianMechanism(1.0, 4)
BENT = pv.NonlinearModel(lambda theta: np.exp(H @ theta), 1.0)
INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]
DISTRIBUTION = "a distribution, such as privest.noise.Gaussian"
WRONG = {
    "estimate of a nonlinear model": (
        lambda: pv.estimate(np.ones(4), BENT, mechanism=GAUSS), r"LinearModel.*model\.at\(theta\)"),
    "estimate of a sensor": (
        lambda: pv.estimate(np.ones(4), network.Sensor(H, 1.0, 1.0), mechanism=GAUSS),
        "LinearModel.*received Sensor"),
    "calibrate a class that needs noise": (
        lambda: mechanism.calibrate(mechanism.Additive, 1.0, model=3),
        "Additive: missing.*'law'.*function of the level"),
    "calibrate a quantiser that needs noise": (
        lambda: mechanism.calibrate(mechanism.BinaryQuantiser, 1.0, model=3),
        "BinaryQuantiser: missing"),
    "calibrate a function without a level": (
        lambda: mechanism.calibrate(lambda: None, 1.0, model=3), "function of the level"),
    "calibrate a function that makes no channel": (
        lambda: mechanism.calibrate(lambda s: 3, 1.0, model=3), "Channel"),
    "calibrate what is no channel": (
        lambda: mechanism.calibrate(mechanism.Componentwise, 1.0, model=3), "Channel"),
    "noise of an additive mechanism": (
        lambda: mechanism.Additive.calibrated(1.0, law="gaussian"), "distribution.*received str"),
    "people of a dictionary": (
        lambda: paper.fig2({"y": [1.0]}), "'diabetes', 'nhanes' or a table.*received dict"),
    "people of a number": (lambda: paper.fig3(3), "'diabetes', 'nhanes' or a table.*received int"),
    "model of a figure": (lambda: paper.fig1(model=3), "LinearModel; received int"),
    "links as a function": (
        lambda: network.TimeVarying(lambda k: network.Graph.ring(3)), "list.*received function"),
    "links as one graph": (
        lambda: network.TimeVarying(network.Graph.ring(3)), "list.*received Graph"),
    "links as a number": (lambda: network.TimeVarying(3), "list.*received int"),
    "noise as text": (lambda: pv.LinearModel(H, "gaussian"), rf"{DISTRIBUTION}.*received str"),
    "noise of a nonlinear model": (lambda: pv.NonlinearModel(np.exp, "laplace"), DISTRIBUTION),
    "noise of a sensor": (lambda: network.Sensor(H, "gaussian", 1.0), DISTRIBUTION),
    "noise of a recursion": (lambda: pv.PrivateRLS(1.0, 2, "gaussian"), DISTRIBUTION),
    "noise as a list of texts": (lambda: pv.LinearModel(H, ["gaussian"] * 4), "one distribution"),
    "noise of a regression": (
        lambda: pv.PrivateLinearRegression(level=1.0, noise="gaussian", simulate=True).fit(
            H, np.ones(4)), "noise must hold real numbers; received a str"),
    "formula without ~": (
        lambda: pv.plan(TABLE, "y + age", level=1.0, range=(0, 5)), "it has no ~"),
    "formula with =": (
        lambda: pv.plan(TABLE, "y = age", level=1.0, range=(0, 5)), "it has no ~"),
    "formula that is too long": (
        lambda: pv.plan(TABLE, "y ~ " + "age + " * 4000, level=1.0, range=(0, 5)),
        r"at most 20000 letters.*24004"),
    "formula as a list": (
        lambda: pv.plan(TABLE, ["y", "age"], level=1.0, range=(0, 5)), "received list"),
    "a range as a width": (lambda: privacy.exposure(1.0, sd=1.0, range=5.0), r"\(low, high\)"),
    "a range upside down": (
        lambda: privacy.exposure(1.0, sd=1.0, range=(5.0, 0.0)), "low < high"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kind_is_named(name):
    call, words = WRONG[name]
    with pytest.raises(InvalidInput, match=words):
        call()


COVARIANCES = {
    "Q": lambda bad: dynamics.StateSpace(np.eye(2), np.eye(2), bad, np.eye(2), cov0=np.eye(2)),
    "R": lambda bad: dynamics.StateSpace(np.eye(2), np.eye(2), np.eye(2), bad, cov0=np.eye(2)),
    "cov0": lambda bad: dynamics.StateSpace(np.eye(2), np.eye(2), np.eye(2), np.eye(2), cov0=bad),
    "Qc": lambda bad: dynamics.StateSpace.from_continuous(
        np.zeros((2, 2)), np.eye(2), bad, np.eye(2), cov0=np.eye(2), step=1.0),
    "noise covariance": lambda bad: pv.LinearModel(np.eye(2), noise.Gaussian(cov=bad)),
    "privacy level": pv.PrivacyLevel,
}  # fmt: skip


@pytest.mark.parametrize("name", COVARIANCES)
def test_a_covariance_is_refused_in_its_own_words(name):
    with pytest.raises(InvalidInput, match=rf"{name} must be positive semi-definite.*-1") as told:
        COVARIANCES[name](INDEFINITE)
    assert "measurement" not in str(told.value)


@pytest.mark.parametrize("names", [None, ["a", "b"]])
def test_a_pyarrow_table_brings_the_names_of_its_columns(names):
    table = pyarrow.table({"one": H[:, 0], "x": H[:, 1]})
    model = pv.LinearModel(table, 1.0, names=names)
    assert model.names == ("one", "x") if names is None else ("a", "b")
    assert np.array_equal(model.matrix, H)


def test_a_range_is_low_and_high_everywhere():
    width, shifted = (privacy.exposure(4.0, sd=0.5, range=ends) for ends in ((0, 5), (-2, 3)))
    assert width == shifted
    wider = privacy.exposure(4.0, sd=0.5, range=(0, 6))
    assert wider.epsilon > width.epsilon
    statement = pv.GaussianMechanism(4.0, 1, range=(0, 5)).statement()
    assert width.epsilon == pytest.approx(statement.epsilon, rel=2e-3)  # whole steps of the grid
