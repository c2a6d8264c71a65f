"""Releases so noisy that every fitted variance is at its limit: a fit still answers everything."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import privest as pv
from privest import dynamics
from privest.cli.identify import identify


@pytest.fixture(scope="module")
def fits():
    level = pv.StreamLevel.constant(1.0)
    found = [
        dynamics.fit(
            family,
            pv.StreamMechanism(level).simulate(np.zeros(60), np.random.default_rng(1)),
            level=level,
        )
        for family in ("level", "level-noise", "ar1-mean")
    ]
    assert all(one.at_limit[[name != "phi1" for name in one.names]].all() for one in found)
    return found


def test_floors_of_parameters_at_their_limits_are_unknown(fits):
    for one in fits[:2]:
        for floor in (one.bound, one.classical):
            assert floor.shape == one.covariance.shape
            assert np.isnan(floor).all()
        assert json.dumps(one.to_dict())
    for one in fits:
        assert "log-likelihood" in one.summary()


def test_wald_ends_stay_within_the_limits(fits):
    """exp(t̂ + 1.96 sd) overflowed, as a RuntimeWarning (here an error)."""
    for one in fits:
        wald = one.interval(method="wald")
        assert np.isfinite(wald).all()
        assert (wald[:, 0] <= wald[:, 1]).all()


def test_the_command_answers(tmp_path):
    measurements, rows = tmp_path / "y.csv", tmp_path / "rows.csv"
    measurements.write_text("y\n" + "0\n" * 60, encoding="utf-8")
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("identify")(identify)
    app.command("other")(lambda: None)
    asked = ["identify", str(measurements), "--family", "level", "--level", "1", "--simulate"]
    done = CliRunner().invoke(app, [*asked, "--seed", "1", "--output", str(rows)])
    assert done.exit_code == 0, done.output
    assert done.exception is None
    assert rows.exists()


@pytest.mark.parametrize("root", [1.0, -1.0])
def test_a_moving_average_of_unit_root_is_at_its_limit(root):
    """e_k ± e_{k−1}: the likelihood of θ has its maximum at ±1 in most samples of this length."""
    rng = np.random.default_rng(1)
    e = rng.normal(size=81)
    release = pv.StreamMechanism(1e4).simulate(e[1:] + root * e[:-1], rng)
    found = dynamics.fit(dynamics.ARMA(0, 1), release)
    assert found.value[0] == pytest.approx(root, abs=1e-6)
    assert found.at_limit.tolist() == [True, False, False]
    assert np.isfinite(found.standard_error[1:]).all()
    assert "At a limit: theta1. Standard errors of the others" in found.summary()
    assert found.notes()[0].startswith("At a limit: theta1.")
