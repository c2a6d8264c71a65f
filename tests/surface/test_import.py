"""`import privest` is quick because it loads little; the ratio itself is in `make bench`."""

import subprocess
import sys

import pytest

HEAVY = [
    "scipy.linalg", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.integrate",
    "matplotlib", "rich", "typer", "pandas", "cvxpy", "sklearn",
]  # fmt: skip


def loaded_after(code):
    listing = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(listing.stdout.split())


def test_heavy_parts_are_loaded_when_used():
    assert loaded_after("import privest").isdisjoint([*HEAVY, "numpy"])
    loaded = loaded_after("import privest; privest.bound")
    assert "numpy" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_reproduction_stands_beside_the_library():
    """No other package loads `privest.paper`; it needs no extra to be imported."""
    others = "import privest as pv\nfor name in {*pv.__all__} - {'paper'}: getattr(pv, name)"
    assert "privest.paper" not in loaded_after(others)
    loaded = loaded_after("import privest.paper")
    assert loaded.isdisjoint({"matplotlib", "rich", "typer", "pandas", "sklearn"})


def test_the_library_never_needs_the_extras():
    """A bound, a conversion and an SDP-free optimum with numpy and scipy only."""
    blocked = "\n".join(
        [
            "import sys",
            "for name in ('matplotlib', 'rich', 'typer', 'cvxpy', 'mpmath', 'pandas', 'sklearn'):",
            "    sys.modules[name] = None",
            "import numpy as np, privest as pv",
            "m = pv.LinearModel(np.eye(3), noise=pv.noise.Laplace(1.0))",
            "pv.bound(m, pv.PrivacyLevel(np.eye(3) + 1.0)).covariance",
            "pv.bounds.trace_bound(m, budget=1.0)",
            "pv.PrivacyLevel(1.0).to_epsilon(delta=1e-6, sensitivity=1.0)",
        ]
    )
    assert "privest" in loaded_after(blocked)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_the_command_says_which_extra_is_missing(missing):
    code = f"import sys; sys.modules['{missing}'] = None\nfrom privest.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "privest[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_the_regression_is_loaded_when_asked_for():
    asked = "from privest import PrivateLinearRegression\nimport privest as pv\n"
    assert "sklearn" in loaded_after(asked + "pv.PrivateLinearRegression()")
    quick = "import privest as pv; assert 'PrivateLinearRegression' in dir(pv)\n"
    quick += "assert not hasattr(pv, 'PrivateNothing')"
    assert "sklearn" not in loaded_after(quick)


def test_rooms_that_a_bound_does_not_need_are_loaded_when_asked_for():
    rooms = ("audit", "dynamics", "estimator", "mechanism", "network", "workflow")
    loaded = loaded_after("import privest as pv\npv.PrivacyLevel(1.0)")
    assert loaded.isdisjoint(f"privest.{room}" for room in rooms)
    every = f"import privest as pv\nfor room in {rooms}: assert getattr(pv, room).__all__"
    assert {f"privest.{room}" for room in rooms} <= loaded_after(every)
    assert "privest.network" in loaded_after("from privest import network, StreamMechanism")


def test_the_regression_says_which_extra_is_missing():
    code = "import sys; sys.modules['sklearn'] = None\nimport privest as pv\n"
    code += "try: pv.PrivateLinearRegression\n"
    code += "except pv.errors.MissingDependency as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "privest[learn]"' in done.stdout


def test_importing_has_no_side_effects():
    code = (
        "import numpy as np\n"
        "before = np.geterr(), np.get_printoptions(), np.random.get_state()[1].tolist()\n"
        "import privest\n"
        "after = np.geterr(), np.get_printoptions(), np.random.get_state()[1].tolist()\n"
        "assert before == after\n"
    )
    loaded_after(code)
