"""A choice given as text is one of its list, letter for letter: else InvalidInput, and no other."""

import numpy as np
import pytest

import privest as pv
import workflow_inside as workflow
from privest import design, dynamics, network, noise, privacy
from privest.audit import fisher_information
from privest.errors import InvalidInput
from privest.ledger import cost_of
from privest.mechanism import Additive, OutputPerturbation
from privest.mechanism.source import Generated, Protected, seeded
from privest.records import as_frame

MODEL = pv.LinearModel(np.ones((8, 1)), noise=1.0)
RING = network.Graph.ring(5)
RELEASE = network.Sensor(np.ones((5, 1)), 1.0, 1.0).simulate(np.zeros(5), np.random.default_rng(1))
PLAN = {"target": "y", "features": ("x",)}
ENDS = {"y": (1.0, 9.0)}
CHOICES = {
    "rows_statement law": (
        "gaussian", lambda o: privacy.rows_statement([1.0], sensitivity=1.0, law=o)),
    "pure_epsilon law": ("laplace", lambda o: privacy.statement.pure_epsilon(o, 1.0, 1.0)),
    "pure_level law": ("coin", lambda o: privacy.statement.pure_level(o, 1.0, 1.0)),
    "cost_of law": ("laplace", lambda o: cost_of(1.0, sensitivity=1.0, law=o)),
    "protected law": ("laplace", lambda o: Protected().add_noise(np.zeros(2), law=o)),
    "generated law": (
        "laplace", lambda o: Generated(np.random.default_rng(1)).add_noise(np.zeros(2), law=o)),
    "seeded law": ("laplace", lambda o: seeded(1).add_noise(np.zeros(2), law=o)),
    "allocate shape": ("full", lambda o: design.allocate(MODEL, 2.0, shape=o)),
    "least_loss shape": ("full", lambda o: design.least_loss(MODEL, 2.0, shape=o)),
    "least_loss loss": ("largest", lambda o: design.least_loss(MODEL, 2.0, loss=o)),
    "schedule estimates": ("every", lambda o: design.schedule(MODEL, 2.0, estimates=o)),
    "trend": ("trend", lambda o: dynamics.Seasonal(4, trend=o)),
    "average method": (
        "plain",
        lambda o: network.average(RELEASE, RING, method=o)),
    "noise shape": ("paper", lambda o: OutputPerturbation(MODEL, 1.0, shape=o)),
    "score": ("likelihood", lambda o: OutputPerturbation(MODEL, 1.0, score=o)),
    "audit method": (
        "samples",
        lambda o: fisher_information(
            Additive(noise.Laplace(1.0)), [0.0], method=o, samples=2000,
            rng=np.random.default_rng(1))),
    "privacy distribution": (
        "laplace", lambda o: workflow.Privacy(epsilon=1.0, range=ENDS, distribution=o)),
    "plan missing": ("drop", lambda o: workflow.Model(**PLAN, missing=o)),
    "plan transform": ("log", lambda o: workflow.Model(**PLAN, transform=o)),
    "plan family": ("poisson", lambda o: workflow.Model(**PLAN, family=o)),
    "frame library": ("pandas", lambda o: as_frame({"a": [1.0]}, o)),
}  # fmt: skip
OPTIONAL = {"average method", "audit method", "privacy distribution"}


@pytest.mark.parametrize("name", CHOICES)
def test_an_option_is_taken_letter_for_letter(name):
    known, call = CHOICES[name]
    call(known)
    wrong = [known.capitalize(), known + " ", "", "x" * 1000, 7.25, b"a"]
    for given in wrong if name in OPTIONAL else [*wrong, None]:
        if given == known:  # HC3
            continue
        with pytest.raises(pv.errors.InvalidInput) as told:
            call(given)
        assert len(str(told.value)) < 300


@pytest.mark.parametrize("criterion", [np.eye(2), np.zeros((0, 2)), "B", "", int, None, [0.0]])
def test_a_criterion_that_is_none_is_refused(criterion):
    with pytest.raises(InvalidInput):
        design.allocate(MODEL, 1.0, criterion=criterion)


def test_a_release_without_a_name_is_refused():
    with pytest.raises(InvalidInput, match="there is no such file"):
        pv.estimate("")
