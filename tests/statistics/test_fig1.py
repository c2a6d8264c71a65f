"""The paper's first figure: the Gaussian mechanism attains the bound, every other lies above it.

False alarm 1e-3 for each claim over all levels (Bonferroni), from the exact variance 2 tr Σ²/N of
a Gaussian error's square.
"""

import dataclasses

import numpy as np
import pytest

from privest.paper import fig1
from privest.paper._methods import PAPER, method_of, setting_of

LEVELS = np.array([0.1, 1.0, 10.0])


@pytest.fixture(scope="module")
def figure():
    return fig1(LEVELS, trials=250, rng=3)


def changed(figure, name, **values):
    points = [
        dataclasses.replace(p, **{key: value(p) for key, value in values.items()})
        if p.mechanism == name
        else p
        for p in figure.points
    ]
    return dataclasses.replace(figure, points=points).claims


def test_the_claims_of_the_figure(figure):
    attained, others = figure.claims
    assert attained.holds, str(attained)
    assert others.holds, str(others)
    assert attained.numbers["levels"] == 3
    assert others.numbers["points"] == 18
    assert others.numbers["least MSE/bound"] > 1.05


def test_a_gaussian_mechanism_that_is_off_is_seen(figure):
    assert not changed(figure, "gaussian", mse=lambda p: 1.4 * p.mse)[0].holds
    beaten = changed(
        figure, "laplace", mse=lambda p: 0.5 * p.bound, standard_error=lambda p: 0.01 * p.bound
    )
    assert not beaten[1].holds
    assert beaten[1].numbers["below"] == 3


def test_every_mechanism_keeps_the_level_and_uses_all_of_it(figure):
    assert {p.mechanism for p in figure.points} == set(PAPER)
    for p in figure.points:
        assert p.worst_information_over_s == pytest.approx(1.0, rel=1e-9)
        if p.mechanism == "cauchy":  # heavy tails
            assert p.median < p.mse


def test_unbiased_pairs_are_unbiased():
    """Mean error of the output-perturbation and Gaussian pairs: 0 within 5.5 standard errors."""
    setting, rng = setting_of(), np.random.default_rng(8)
    gain = "truncated-gain-gaussian-least-squares"
    for name in ("gaussian", "laplace-output", "cos2-output", "triangular-quantiser-output", gain):
        mechanism, estimate = method_of(name).pair(setting.model, 2.0)
        y = setting.model.sample(setting.theta, rng, 20_000)
        errors = estimate(mechanism.simulate(y, rng)) - setting.theta
        score = errors.mean(0) / (errors.std(0) / np.sqrt(20_000))
        assert np.abs(score).max() < 5.5, name


@pytest.mark.slow
def test_all_hundred_levels():
    (claim,) = fig1(trials=2000, methods=["gaussian"]).claims
    assert claim.holds
    assert claim.numbers["levels"] == 100
