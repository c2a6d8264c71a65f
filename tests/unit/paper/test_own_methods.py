"""The first figure with other methods than the paper's, with another H, and with one's own code."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.audit import certify
from privest.cli import reproduce as commands
from privest.errors import InvalidInput, NotCalibratable, NotIdentifiable
from privest.mechanism import CATALOGUE, Additive, calibrate
from privest.noise import Gaussian, Logistic
from privest.paper import fig1
from privest.paper._methods import PAPER, Method, method_of

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "own_mechanism.py"
H = np.array([[1.0, 0.2], [0.5, -1.0], [-0.3, 0.8], [1.0, 1.0]])
MODEL = pv.LinearModel(H, noise=0.09)
SETTING = {"model": MODEL, "theta": [0.4, -1.2]}


def logistic(model, s):
    """Logistic noise on data, least squares."""
    mechanism = calibrate(
        lambda level: Additive.calibrated(level, law=Logistic()), s, model=model.measurements
    )
    return mechanism, lambda z: np.linalg.lstsq(model.matrix, z.T, rcond=None)[0].T


def leaky(model, s):
    """Half the noise that the level asks for, and it says so."""
    mechanism, estimate = logistic(model, 4 * s)
    return mechanism, estimate


def test_an_own_method_and_an_own_matrix():
    """The Gaussian pair attains (σ² + 1/s) tr (HᵀH)⁻¹; noise of the same information costs more."""
    found = fig1([0.5, 8.0], trials=4000, methods=["gaussian", logistic], **SETTING)
    points = found.points
    for p in points:
        assert p.bound == pytest.approx((0.09 + 1 / p.s) * np.trace(np.linalg.inv(H.T @ H)))
        assert p.worst_information_over_s == pytest.approx(1.0)
    assert all(claim.holds for claim in found.claims), found.summary()
    own = [p for p in points if p.mechanism == "logistic"]
    assert {p.label for p in own} == {"Logistic noise on data, least squares"}
    # Least squares: σ² + Var d, and Var d = π²/9 of 1/s for logistic noise.
    for p in own:
        exact = (0.09 + np.pi**2 / 9 / p.s) * np.trace(np.linalg.inv(H.T @ H))
        assert abs(p.mse - exact) < 5 * p.standard_error


def test_a_mechanism_above_the_level_is_not_judged():
    found = fig1([1.0], trials=500, methods=["gaussian", "laplace", leaky], **SETTING)
    (others,) = [claim for claim in found.claims if "other" in claim.claim]
    assert others.numbers["points"] == 1
    assert "leaky" in str(others)


@pytest.mark.parametrize("count", [7, 31])
def test_every_curve_is_drawn_and_told_apart(count):
    """Any number of curves, the bound among them; none looks like another."""
    found = fig1([0.1, 1.0, 10.0], trials=2, methods=["gaussian"])
    points = [
        dataclasses.replace(p, mechanism=f"m{i}", label=f"method {i}", mse=2.0 + i)
        for i in range(count)
        for p in found.points
    ]
    figure = found._draw(points)
    lines = figure.axes[0].get_lines()
    assert len(lines) == count + 1
    assert lines[-1].get_label().startswith("private bound")
    assert len({(ln.get_color(), ln.get_marker(), ln.get_linestyle()) for ln in lines}) == count + 1
    (legend,) = [*figure.legends, *filter(None, [figure.axes[0].get_legend()])]
    words = [text.get_text() for text in legend.get_texts()]
    assert words == [line.get_label() for line in lines]


def test_names():
    """The paper's seven, and every channel of the catalogue three ways."""
    assert len(PAPER) == 7
    for name in (n for n, entry in CATALOGUE.items() if entry.channel is not None):
        labels = [method_of(name + way).label for way in ("", "-output", "-least-squares")]
        assert len(set(labels)) == 3
    with pytest.raises(InvalidInput, match="Did you mean 'laplace'"):
        method_of("laplce")
    with pytest.raises(NotCalibratable, match="jumps"):
        fig1([1.0], methods=["uniform"])


def test_every_new_way_keeps_the_level():
    ways = ["student-t-least-squares", "truncated-gain-gaussian-output", "binary-laplace"]
    for p in fig1([0.7], trials=2, methods=ways, **SETTING).points:
        assert p.worst_information_over_s == pytest.approx(1.0, rel=1e-9)


def test_the_example_is_calibrated_and_certified():
    """1/2b² by hand, by the density and by its samples."""
    mechanism, _ = method_of(f"{EXAMPLE}:sech").pair(MODEL, 2.0)
    assert mechanism.common.b == pytest.approx(0.5)
    assert mechanism.common.information(0.3) == pytest.approx(2.0, rel=1e-9)
    assert (
        certify(mechanism, 2.0, rng=np.random.default_rng(1)).verdict
        == "holds on the examined domain"
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("own = 3", "must be a function"),
        ("def own(model, s): return 1", "a mechanism and an estimator"),
        ("def own(model, s): return 1, len", "Mechanism for 4 measurements"),
        ("def own(model, s): raise KeyError('x')", "failed with KeyError"),
        ("import nothing_of_this_name", "failed with ModuleNotFoundError"),
        ("other = 1", "defines no 'own'"),
        ("{0}\ndef own(m, s): return g(s, 3), len", "Mechanism for 4 measurements"),
        ("{0}\ndef own(m, s): return g(s, 4), lambda z: z", r"gave shape \(2, 4\)"),
        ("{0}\ndef own(m, s): return g(s, 4), lambda z: z[:, :2] / 0", "not finite"),
        ("{0}\ndef own(m, s): return g(s, 4), lambda z: z.nothing", "AttributeError"),
    ],
)
def test_mistakes_in_own_code_are_told_before_the_work(source, words, tmp_path):
    make = "import privest as pv\ndef g(s, m): return pv.mechanism.calibrate('laplace', s, model=m)"
    (tmp_path / "own.py").write_text(source.replace("{0}", make))
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match=words):
        fig1([1.0], trials=10**9, methods=[f"{tmp_path / 'own.py'}:own"], **SETTING)


def test_settings_and_levels_that_do_not_do():
    for given, words in (
        (lambda: fig1(model=MODEL, theta=[1.0]), "2 columns and theta 1 entries"),
        (lambda: fig1(model=pv.LinearModel(H, [1.0, 2.0, 1.0, 1.0]), theta=[1, 2]), "white"),
        (lambda: fig1(model=pv.LinearModel(H, Logistic()), theta=[1, 2]), "white Gaussian"),
        (lambda: fig1([0.0], methods=["gaussian"]), "numbers > 0"),
        (lambda: fig1([1.0], methods=[]), "at least one method"),
        (lambda: fig1([1.0], methods=["laplace", "laplace"]), "each once"),
    ):
        with pytest.raises(InvalidInput, match=words):
            given()
    huge = fig1([1e-290], trials=4, methods=["gaussian"], **SETTING)
    assert huge.claims[0].numbers["largest deviation in standard deviations"] < 10  # no overflow
    hidden = pv.LinearModel(H[:, :1] @ [[1.0, 2.0]], noise=0.04)
    with pytest.raises(NotIdentifiable):
        fig1([1.0], trials=2, model=hidden, theta=[1.0, 1.0])


def test_numbers_of_the_command(tmp_path):
    for bad in ("1:2:1", "x", "1;2", ""):
        with pytest.raises(InvalidInput, match="--theta"):
            commands.Problem(theta=bad).setting()
    file = str(tmp_path / "h.csv")
    (tmp_path / "h.csv").write_text("1,2\n3,4\n")
    assert commands.Problem().setting()[1].tolist() == [0.63, 0.81, -0.75, 0.83, 0.26]
    assert commands.Problem(h=file, theta="1, 2.5").setting()[1].tolist() == [1.0, 2.5]
    with pytest.raises(InvalidInput, match="so --theta with as many"):
        commands.Problem(h=file).setting()


def test_code_that_cannot_travel_is_told_so():
    def local(model, s):
        return logistic(model, s)

    with pytest.raises(InvalidInput, match="cannot be sent to other processes"):
        fig1([1.0], trials=10**9, methods=[local], **SETTING, workers=2)


def test_a_label_is_text(tmp_path):
    """No formula, no markup, no escape sequence, and not too long for a legend."""
    label = "$\\frac$ [/bold] \x1b[31m"
    method = Method("own", label, logistic)
    found = fig1([1.0, 2.0], trials=5, methods=[method], **SETTING)
    found.save(tmp_path / "p.png")
    assert "[/bold]" in found.summary()
    assert "\x1b" not in found.summary()

    def wordy(model, s):
        return logistic(model, s)

    wordy.__doc__ = "word " * 100
    assert len(method_of(wordy).label) <= 60


def test_the_command_takes_all_of_it(tmp_path):
    """Own H, θ, σ, levels and code, in two processes: table, picture and points have it all."""
    np.savetxt(tmp_path / "H.csv", H, delimiter=",")
    points = tmp_path / "p.json"
    done = subprocess.run(
        [
            sys.executable, "-m", "privest", "reproduce", "fig1", "--h", str(tmp_path / "H.csv"),
            "--theta", "0.4,-1.2", "--sigma", "0.3", "--levels", "0.5,8", "--trials", "200",
            "--methods", f"gaussian,{EXAMPLE}:sech,truncated-gain-gaussian-least-squares",
            "--json", str(points), "--png", str(tmp_path / "p.png"),
        ],
        capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "120"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(points.read_text())
    assert len(found) == 6
    assert {p["s"] for p in found} == {0.5, 8.0}
    for words in ("sech noise on data", "random gain", "private bound", "levels 2"):
        assert words in done.stdout
    for p in found:
        assert p["bound"] == pytest.approx((0.09 + 1 / p["s"]) * np.trace(np.linalg.inv(H.T @ H)))
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_gaussian_law_in_place_of_the_mechanism_attains_too():
    """N(0, 1/s) by the additive channel, with least squares: the same curve as the optimal one."""

    def plain(model, s):
        mechanism = calibrate(
            lambda level: Additive.calibrated(level, law=Gaussian()), s, model=model.measurements
        )
        return mechanism, lambda z: np.linalg.lstsq(model.matrix, z.T, rcond=None)[0].T

    (p,) = fig1([2.0], trials=4000, methods=[plain], **SETTING).points
    assert abs(p.mse - p.bound) < 5 * p.standard_error


class Hidden(Additive):
    """A kind of channel of one's own."""

    @classmethod
    def calibrated(cls, level):
        return cls(Logistic().with_fisher_information(level))


def test_a_kind_of_channel_is_a_method():
    (p,) = fig1([2.0], trials=2000, methods=[Hidden], **SETTING).points
    assert p.label == "Hidden on data, maximum likelihood"
    assert p.worst_information_over_s == pytest.approx(1.0)
    assert p.mse > p.bound - 5 * p.standard_error
