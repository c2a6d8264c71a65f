"""The first figure with other methods than the paper's, with another H, and with one's own code."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from privest.audit import certify
from privest.errors import InvalidInput, NotCalibratable, NotIdentifiable
from privest.mechanism import CATALOGUE, Additive, ChannelEntry, data_perturbation
from privest.noise import GaussianLaw, Logistic
from privest.paper import _drawing, fig1
from privest.paper.commands import options
from privest.paper.commands.simulated import _print_levels

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "own_mechanism.py"
H = np.array([[1.0, 0.2], [0.5, -1.0], [-0.3, 0.8], [1.0, 1.0]])
SETTING = fig1.Setting(H, [0.4, -1.2], 0.3)


def logistic(model, s):
    """Logistic noise on data, least squares."""
    mechanism = data_perturbation(
        s, model.readings, lambda level: Additive.calibrated(level, law=Logistic())
    )
    return mechanism, lambda z: np.linalg.lstsq(model.matrix, z.T, rcond=None)[0].T


def leaky(model, s):
    """Half the noise that the level asks for, and it says so."""
    mechanism, estimate = logistic(model, 4 * s)
    return mechanism, estimate


def test_an_own_method_and_an_own_matrix():
    """The Gaussian pair attains (σ² + 1/s) tr (HᵀH)⁻¹; noise of the same information costs more."""
    points = fig1.figure_one(
        [0.5, 8.0], trials=4000, methods=["gaussian", logistic], setting=SETTING
    )
    for p in points:
        assert p.bound == pytest.approx((0.09 + 1 / p.s) * np.trace(np.linalg.inv(H.T @ H)))
        assert p.worst_information_over_s == pytest.approx(1.0)
    verdict = fig1.attains(points, 1e-6, SETTING)
    assert verdict.attained, str(verdict)
    own = [p for p in points if p.mechanism == "logistic"]
    assert {p.label for p in own} == {"Logistic noise on data, least squares"}
    # Least squares: σ² + Var d, and Var d = π²/9 of 1/s for logistic noise.
    for p in own:
        exact = (0.09 + np.pi**2 / 9 / p.s) * np.trace(np.linalg.inv(H.T @ H))
        assert abs(p.mse - exact) < 5 * p.standard_error


def test_a_mechanism_above_the_level_is_not_judged():
    points = fig1.figure_one([1.0], trials=500, methods=["gaussian", leaky], setting=SETTING)
    verdict = fig1.attains(points, 1e-6, SETTING)
    assert verdict.not_judged == ("leaky",)
    assert verdict.others == verdict.below == 0
    assert "Not judged" in str(verdict)


@pytest.mark.parametrize("count", [7, 8, 15, 31])
def test_every_curve_is_drawn_and_told_apart(count, monkeypatch):
    """Any number of curves, the bound among them; none looks like another."""
    points = [
        fig1.Point(f"m{i}", f"method {i}", s, 2.0 + i, 0.1, 2.0, 1.0 / s, 100, 1.0)
        for i in range(count)
        for s in (0.1, 1.0, 10.0)
    ]
    kept = []
    monkeypatch.setattr(_drawing, "save", lambda figure, path: kept.append(figure))
    fig1.save_figure(points, Path("unused.png"))
    (figure,) = kept
    lines = figure.axes[0].get_lines()
    assert len(lines) == count + 1
    assert lines[-1].get_label().startswith("private bound")
    assert len({(ln.get_color(), ln.get_marker(), ln.get_linestyle()) for ln in lines}) == count + 1
    (legend,) = [*figure.legends, *filter(None, [figure.axes[0].get_legend()])]
    words = [text.get_text() for text in legend.get_texts()]
    assert words == [line.get_label() for line in lines]


def test_no_figure_drops_points_in_silence():
    point = fig1.Point("m", "method", 1.0, 2.0, 0.1, 2.0, 1.0, 100, 1.0)
    with pytest.raises(InvalidInput, match="no curve for the points of m; there are curves for n"):
        list(_drawing.curves([point], ["n"], by="mechanism", along="s"))


def test_names():
    """The paper's seven, the eighth that it names, every channel of the catalogue three ways."""
    assert [*fig1.METHODS][:7] == [*fig1.PAPER]
    assert len(fig1.METHODS) == 8
    for name in (n for n, entry in CATALOGUE.items() if isinstance(entry, ChannelEntry)):
        labels = [fig1.method_of(name + way).label for way in ("", "-output", "-least-squares")]
        assert len(set(labels)) == 3
    with pytest.raises(InvalidInput, match="Did you mean 'laplace'"):
        fig1.method_of("laplce")
    with pytest.raises(NotCalibratable, match="jumps"):
        fig1.figure_one([1.0], methods=["uniform"])


def test_every_new_way_keeps_the_level():
    ways = ["student-t-least-squares", "truncated-gain-gaussian-output", "binary-laplace"]
    for p in fig1.figure_one([0.7], trials=2, methods=ways, setting=SETTING):
        assert p.worst_information_over_s == pytest.approx(1.0, rel=1e-9)


def test_the_example_is_calibrated_and_certified():
    """1/2b² by hand, by the density and by its samples."""
    mechanism, _ = fig1.method_of(f"{EXAMPLE}:sech").pair(SETTING.model, 2.0)
    assert mechanism.common.b == pytest.approx(0.5)
    assert mechanism.common.information(0.3) == pytest.approx(2.0, rel=1e-9)
    assert certify(mechanism, 2.0, rng=np.random.default_rng(1)).verdict == "holds"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("own = 3", "must be a function"),
        ("def own(model, s): return 1", "a mechanism and an estimator"),
        ("def own(model, s): return 1, len", "Mechanism for 4 readings"),
        ("def own(model, s): raise KeyError('x')", "failed with KeyError"),
        ("import nothing_of_this_name", "failed with ModuleNotFoundError"),
        ("other = 1", "defines no 'own'"),
        ("{0}\ndef own(m, s): return g(s, 3), len", "Mechanism for 4 readings"),
        ("{0}\ndef own(m, s): return g(s, 4), lambda z: z", r"gave shape \(2, 4\)"),
        ("{0}\ndef own(m, s): return g(s, 4), lambda z: z[:, :2] / 0", "not finite"),
        ("{0}\ndef own(m, s): return g(s, 4), lambda z: z.nothing", "AttributeError"),
    ],
)
def test_mistakes_in_own_code_are_told_before_the_work(source, words, tmp_path):
    make = "from privest.mechanism import CATALOGUE; g = CATALOGUE['laplace'].calibrated"
    (tmp_path / "own.py").write_text(source.replace("{0}", make))
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match=words):
        fig1.figure_one(
            [1.0], trials=10**9, methods=[f"{tmp_path / 'own.py'}:own"], setting=SETTING
        )


def test_settings_and_levels_that_do_not_do():
    for given, words in (
        (lambda: fig1.Setting(H, [1.0]), "2 columns and θ 1 entries"),
        (lambda: fig1.Setting(H, [1.0, 2.0], 0.0), "σ must be > 0"),
        (lambda: fig1.Setting(H, [1.0, 2.0], 1e200), "σ² must be finite"),
        (lambda: fig1.Setting(H, [1.0, 2.0], 1e-200), "σ² must be > 0"),
        (lambda: fig1.figure_one([0.0], methods=["gaussian"]), "numbers > 0"),
        (lambda: fig1.figure_one([1.0], methods=[]), "at least one"),
        (lambda: fig1.figure_one([1.0], methods=["laplace", "laplace"]), "a name of its own"),
    ):
        with pytest.raises(InvalidInput, match=words):
            given()
    huge = fig1.figure_one([1e-290], trials=4, methods=["gaussian"], setting=SETTING)
    assert fig1.attains(huge, 1e-6, SETTING).largest < 10  # warnings are errors: none overflows
    hidden = fig1.Setting(H[:, :1] @ [[1.0, 2.0]], [1.0, 1.0])
    with pytest.raises(NotIdentifiable):
        fig1.figure_one([1.0], trials=2, setting=hidden)


def test_levels_and_numbers_of_the_command(tmp_path):
    assert options.levels("0.1:10:0.1").tolist() == (np.arange(1, 101) / 10).tolist()
    assert options.levels("1, 2.5").tolist() == [1.0, 2.5]
    assert options.levels("2:2:1").tolist() == [2.0]
    for bad in ("1:2", "1:2:0", "2:1:1", "1:2:1e-9", "x", "1:a:2", "-1:2:1"):
        with pytest.raises(InvalidInput, match="--levels"):
            options.levels(bad)
    (tmp_path / "t.csv").write_text("1\n2\n3\n")
    (tmp_path / "h.csv").write_text("1,2\n3,4\n")
    assert options.setting(None, None, 0.2).theta.tolist() == [0.63, 0.81, -0.75, 0.83, 0.26]
    with pytest.raises(InvalidInput, match="so --theta with as many"):
        options.setting(str(tmp_path / "h.csv"), None, 0.2)
    with pytest.raises(InvalidInput, match="2 columns and θ 3 entries"):
        options.setting(str(tmp_path / "h.csv"), str(tmp_path / "t.csv"), 0.2)
    with pytest.raises(InvalidInput, match="one row or one column"):
        options.setting(str(tmp_path / "h.csv"), str(tmp_path / "h.csv"), 0.2)


def test_code_that_cannot_travel_is_told_so():
    def local(model, s):
        return logistic(model, s)

    with pytest.raises(InvalidInput, match="cannot be sent to other processes"):
        fig1.figure_one([1.0], trials=10**9, methods=[local], setting=SETTING, workers=2)


def test_a_label_is_text(tmp_path):
    """No formula, no markup, no escape sequence, and not too long for a legend."""
    label = "$\\frac$ [/bold] \x1b[31m"
    method = fig1.Method("own", label, logistic)
    points = fig1.figure_one([1.0, 2.0], trials=5, methods=[method], setting=SETTING)
    fig1.save_figure(points, tmp_path / "p.png")
    shown = io.StringIO()
    _print_levels(Console(file=shown, width=100), points, SETTING)
    assert "[/bold]" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()

    def wordy(model, s):
        return logistic(model, s)

    wordy.__doc__ = "word " * 100
    assert len(fig1.method_of(wordy).label) <= 60


def test_the_command_takes_all_of_it(tmp_path):
    """Own H, θ, σ, levels and code, in two processes: table, picture and points have it all."""
    np.savetxt(tmp_path / "H.csv", H, delimiter=",")
    points = tmp_path / "p.json"
    done = subprocess.run(
        [
            sys.executable, "-m", "privest", "reproduce", "fig1", "--h", str(tmp_path / "H.csv"),
            "--theta", "0.4,-1.2", "--sigma", "0.3", "--levels", "0.5,8", "--trials", "200",
            "--methods", f"gaussian,{EXAMPLE}:sech",
            "--methods", "truncated-gain-gaussian-least-squares",
            "--json", str(points), "--png", str(tmp_path / "p.png"),
        ],
        capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "120"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(points.read_text())
    assert len(found) == 6
    assert {p["s"] for p in found} == {0.5, 8.0}
    for words in ("sech noise on data", "random gain", "private bound", "all 2 levels"):
        assert words in done.stdout
    for p in found:
        assert p["bound"] == pytest.approx((0.09 + 1 / p["s"]) * np.trace(np.linalg.inv(H.T @ H)))
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_gaussian_law_in_place_of_the_mechanism_attains_too():
    """N(0, 1/s) by the additive channel, with least squares: the same curve as the optimal one."""

    def plain(model, s):
        mechanism = data_perturbation(
            s, model.readings, lambda level: Additive.calibrated(level, law=GaussianLaw())
        )
        return mechanism, lambda z: np.linalg.lstsq(model.matrix, z.T, rcond=None)[0].T

    (p,) = fig1.figure_one([2.0], trials=4000, methods=[plain], setting=SETTING)
    assert abs(p.mse - p.bound) < 5 * p.standard_error
    assert fig1.attains([p], 1e-6, SETTING).levels == 0
