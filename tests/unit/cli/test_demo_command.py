"""`privest demo --first`: the table agrees with the library and the picture is a picture."""

import os
import subprocess
import sys

import numpy as np

import privest as pv
from privest.paper._first import THETA, first_model, paper_levels, save_ellipses
from privest.report.figures import RADIUS, ellipse_points

RUN = "from privest.cli import main; main()"


def demo(folder, before=""):
    return subprocess.run(
        [sys.executable, "-c", f"{before}\n{RUN}", "demo", "--first", "--out", folder],
        capture_output=True,
        text=True,
        check=True,
        env={
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "PATH": "",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    )


def test_demo_prints_the_bounds_and_writes_a_picture(tmp_path):
    done = demo(tmp_path)
    for s in (0.1, 1.0, 10.0):
        least = np.trace(pv.bound(first_model(), pv.PrivacyLevel(s)).covariance)
        assert f"{least:.3f}" in done.stdout
    picture = (tmp_path / "demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_the_set_up_is_that_of_the_paper():
    model = first_model()
    assert model.matrix.shape == (10, 5)
    assert np.abs(model.matrix).max() <= 1
    assert THETA.tolist() == [0.63, 0.81, -0.75, 0.83, 0.26]
    assert np.allclose(model.covariance.dense(), 0.04 * np.eye(10))
    assert np.allclose(paper_levels(), np.linspace(0.1, 10, 100))


def test_the_curve_falls_to_the_classical_bound():
    curve = pv.bounds.sweep(first_model(), [0.1, 1.0, 10.0, 1e8])
    assert (np.diff(curve.trace) < 0).all()
    assert np.isclose(curve.trace[-1], np.trace(curve.classical), rtol=1e-5)


def test_the_ellipse_is_the_level_set():
    cov = np.array([[2.0, 0.7], [0.7, 1.0]])
    points = ellipse_points(cov)
    distance = np.einsum("pi,ij,pj->p", points, np.linalg.inv(cov), points)
    assert np.allclose(distance, RADIUS**2)
    assert np.allclose(1 - np.exp(-(RADIUS**2) / 2), 0.95)


def test_demo_without_matplotlib_says_what_is_missing(tmp_path):
    done = demo(tmp_path, before="import sys; sys.modules['matplotlib'] = None")
    assert 'pip install ".[plot]"' in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_numbers_of_the_table(tmp_path):
    """s = 0.1: adversary 1/√s, ε at δ = 1e-6 for a move of 1."""
    done = demo(tmp_path)
    row = next(line for line in done.stdout.splitlines() if line.startswith("│   0.1"))
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    epsilon = pv.PrivacyLevel(0.1).to_epsilon(delta=1e-6, move=1.0)
    assert cells[:3] == ["0.1", f"{0.1**-0.5:.2f}", f"{epsilon:.2f}"]


def test_the_figure_draws_the_private_ellipses(monkeypatch, tmp_path):
    drawn = []
    original = ellipse_points
    monkeypatch.setattr(
        "privest.paper._first.ellipse_points", lambda c: drawn.append(c) or original(c)
    )
    curve = pv.bounds.sweep(first_model(), [0.1, 1.0])
    save_ellipses(curve, curve, tmp_path / "a.png", pair=(0, 1))
    for covariance, bound in zip(drawn, curve.covariance):
        assert np.array_equal(covariance, bound[:2, :2])
    assert np.array_equal(drawn[-1], curve.classical[:2, :2])
