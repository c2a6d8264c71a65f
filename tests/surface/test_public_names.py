"""The public names, pinned: a change here is a change for users and belongs in the CHANGELOG."""

import ast
import dataclasses
import importlib.util
import inspect
import pkgutil
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import privest as pv

ROOT = Path(__file__).parents[2]

NAMES = {
    "": {
        "Bound", "Checkpoint", "Identifiability", "LinearModel", "NonlinearModel",
        "Estimate", "GaussianMechanism", "Ledger", "PrivacyLevel", "PrivateLinearRegression",
        "PrivateRLS", "StreamLevel", "StreamMechanism", "Release", "__version__", "audit",
        "bound", "bounds", "data", "design", "dynamics", "errors", "estimate", "estimator",
        "identifiability", "ledger", "mechanism", "network", "noise", "paper", "plan",
        "privacy", "verify", "workflow",
    },
    "app": {"Desk", "make_app", "serve"},
    "workflow": {
        "Plan", "Section", "Spec", "TableRelease", "Verification", "describe", "read_plan",
        "read_release", "report",
    },
    "streaming": {
        "LedgerOptions", "Privacy", "Simulation", "StreamPlan", "StreamRun", "known_after",
    },
    "paper": {"Figure", "LABELS", "fig1", "fig2", "fig3", "fig4", "reference"},
    "estimator": {"ClippingCost", "Prediction", "WaldTest", "clipping_cost"},
    "ledger": {
        "Account", "Budget", "Cost", "Entry",
    },
    "release": {"Release", "ReleaseRecord"},
    "reading": {
        "DOCUMENT", "HELD_WHOLE", "MOST_COLUMNS", "as_text", "chosen", "counted",
        "optional", "parse_json", "parse_toml", "ranged", "read_arrays",
        "read_bytes", "read_count", "read_document", "read_fields", "read_flag", "read_flags",
        "read_number", "read_numbers", "read_positive", "read_text", "require_parameters",
        "state_array", "state_count", "state_flag", "state_number", "text_lines",
    },
    "model": {"LinearModel", "NonlinearModel"},
    "lattice": {
        "Coin", "DiscreteGaussian", "DiscreteLaplace", "Exactly", "GAUSSIAN", "GRID",
        "LAPLACE", "MOST", "exactly", "finite", "flips_at", "flips_for",
        "gaussian_integers", "laplace_integers", "literal_factor", "literal_root", "os_words",
        "rounded", "sum_of_products", "tossed", "two_product",
    },
    "collect": {
        "Answer", "Collected", "CollectionPlan", "Device", "Report", "SqlStore", "Sums", "estimate",
        "in_process", "load_plan", "merge", "open_store", "replay", "running_sums",
    },
    "data": {"Format", "inspect", "load_diabetes", "load_nhanes"},
    "dynamics": {
        "AR", "ARMA", "ARX", "CustomFamily", "Diagnosis", "Family", "FamilyEstimate", "Forecast",
        "LocalLevel", "LocalTrend", "NonlinearStateSpace", "PrivateKalman", "RegressionAR",
        "Seasonal", "StateBound", "StateEstimate", "StateSpace",
        "best_directions", "filter", "fit", "local_bound",
        "parameter_bound", "steady_state",
    },
    "design": {
        "Allocation", "SampleSize", "allocate", "least_loss", "optimality_gap", "sample_size",
        "schedule",
    },
    "network": {
        "Consensus", "Contribution", "Graph", "Sensor", "TimeVarying", "average", "consensus",
        "fuse", "joint_model", "mpi",
    },
    "audit": {
        "Attack", "Certificate", "Information", "attack", "certify", "fisher_information",
    },
    "mechanism": {
        "Additive", "BinaryQuantiser", "CATALOGUE", "Channel", "Componentwise",
        "Gain", "GeometricPerturbation", "Inverse", "LaplaceQuantiser", "Mechanism",
        "OutputPerturbation", "PrivacyWeights", "ProbabilisticQuantiser",
        "calibrate",
    },
    "bounds": {
        "TraceBound", "consensus_bound", "prior_information", "release_level",
        "sweep", "trace_bound",
    },
    "privacy": {
        "Adjacency", "Exposure", "Statement", "epsilon_of", "exposure", "metric_trace", "mu_of",
    },
    "noise": {
        "Bump", "Cauchy", "CosSquared", "Distribution", "Gaussian", "GaussianMixture", "Laplace",
        "Logistic", "Staircase", "StudentT", "Uniform", "from_logpdf",
    },
}  # fmt: skip


# The modules that carry no underscore: the rooms, and these. All others are behind their room.
ROOMS = {
    "aggregate", "app",
    "audit", "bounds", "cli", "collect", "data", "design", "dynamics", "estimator", "lattice",
    "ledger",
    "linalg", "mechanism", "model", "network", "noise", "paper", "pipeline", "privacy", "reading",
    "report", "streaming", "vault", "workflow",
}  # fmt: skip
MODULES = {
    "arrays", "checkpoint", "errors", "estimator.device", "estimator.inference",
    "estimator.likelihood", "estimator.regression", "estimator.result", "estimator.starts",
    "files", "lattice.coins", "lazy", "ledger.upgrade", "linalg.appending", "linalg.batched",
    "linalg.compiling", "linalg.cumulative", "linalg.running", "linalg.sequential",
    "linalg.tolerances",
    "mechanism.running", "mechanism.inputs", "mechanism.numerics", "mechanism.rows",
    "mechanism.simulated", "mechanism.source", "mechanism.stream_terms", "model.derivative",
    "network.mpi",
    "noise.distribution", "noise.joint", "noise.numerics",
    "noise.numerics.density", "noise.numerics.differences", "noise.numerics.weighted",
    "noise.quadrature", "paper.reference",
    "privacy.adjacency", "privacy.exposures", "privacy.gdp", "privacy.level", "privacy.parts",
    "privacy.statement", "privacy.stream", "privacy.stream_parts", "records", "release",
    "report.charts", "report.describe",
    "report.exposure", "report.figures", "report.findings", "report.numbers", "report.page",
    "report.planning", "report.sections", "report.slider", "report.terminal", "report.words",
    "serving", "stream_file",
}  # fmt: skip


OPEN = {
    "app",
    "cli",
    "collect",
    "data",
    "report",
    "vault",
    "workflow",
}  # rooms whose modules other rooms may import


def room_of(name):
    return import_module(f"privest.{name}") if name else pv


@pytest.mark.parametrize("room", NAMES)
def test_names_are_pinned(room):
    module = room_of(room)
    assert set(module.__all__) == NAMES[room]
    for name in module.__all__:
        assert hasattr(module, name)


@pytest.mark.parametrize("room", NAMES)
def test_everything_public_has_a_docstring(room):
    module = room_of(room)
    for name in set(module.__all__) - {"__version__"}:
        assert (getattr(module, name).__doc__ or "").strip(), name


@pytest.mark.parametrize("room", ["", *sorted(set(NAMES) & set(pv.__all__))])
def test_docstrings_can_be_read_on_the_site(room):
    """They name no file of the repository, and hold no markup but `code`."""
    module = room_of(room)
    for name in NAMES[room]:
        found = getattr(module, name)
        members = vars(found).values() if isinstance(found, type) else ()
        for one in (found, *members):
            text = getattr(one, "__doc__", None) or ""
            if not isinstance(one, str | int | float | tuple | dict):
                assert not re.search(r"\w\.md\b|\*\*[a-z]", text), (name, one)


def test_every_item_of_a_list_in_a_docstring_is_one_on_the_site():
    """A long name has a line of its own; two spaces after a name make an item."""
    found = importlib.util.spec_from_file_location("docstrings", ROOT / "docs/_ext/docstrings.py")
    site = importlib.util.module_from_spec(found)
    found.loader.exec_module(site)
    lines = site.as_rst(
        ["range  (low, high)", "residual_variance", "       of a new value", "", "x"]
    )
    assert lines == [
        "- **range** (low, high)",
        "- **residual_variance**",
        "  of a new value",
        "",
        "x",
    ]
    for found in (pv.plan, pv.LinearModel, pv.Estimate, pv.estimator.Prediction):
        lines = site.as_rst(inspect.getdoc(found).splitlines())
        first = next(k for k, line in enumerate(lines) if line.startswith("- **"))
        for line in lines[first : [*lines, ""].index("", first)]:
            assert line.startswith(("- **", "  ")), (found, line)


def test_every_room_is_pinned():
    """The command line has no names of its own; the others are private."""
    assert ROOMS - set(NAMES) == {
        "aggregate", "cli", "linalg", "pipeline", "report", "vault",
    }  # fmt: skip
    assert set(NAMES) - ROOMS == {"", "release"}


# Dataclasses that are not results: what a user states, and what nobody should write to a file.
STATED = {
    "lattice": {"Coin", "DiscreteGaussian", "DiscreteLaplace", "Exactly"},
    "privacy": {"Adjacency"},
    "workflow": {"Section"},
    "streaming": {"LedgerOptions", "Privacy", "StreamPlan", "Simulation"},
}


@pytest.mark.parametrize("room", sorted(set(NAMES) - {"", "mechanism"}))
def test_every_result_has_a_to_dict(room):
    """All dataclasses but laws of noise and what `STATED` lists; and the list is not stale."""
    module = room_of(room)
    public = {name: getattr(module, name) for name in module.__all__}
    bare = {
        name
        for name, found in public.items()
        if isinstance(found, type)
        and dataclasses.is_dataclass(found)
        and not issubclass(found, pv.noise.Distribution)
        and not hasattr(found, "to_dict")
    }
    assert bare == STATED.get(room, set())


def test_modules_behind_a_room_carry_an_underscore():
    found = {
        module.name.removeprefix("privest.")
        for module in pkgutil.walk_packages(pv.__path__, "privest.")
        if not any(part.startswith("_") for part in module.name.split("."))
    }
    found = {name for name in found if name.partition(".")[0] not in OPEN or name in OPEN}
    assert found - ROOMS <= MODULES
    assert found >= ROOMS


def test_the_picture_of_the_house_is_true():
    """CONTRIBUTING lists the rooms in the order of the checked import layers."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    ((?:[a-z_]+ {2})*[a-z_]+) {4,}\S", text, flags=re.MULTILINE)
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (order,) = [
        contract["layers"]
        for contract in layers["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    assert [room for line in lines for room in line.split()] == order[1:]  # without __main__


def test_errors_are_one_tree():
    """All of them in `pv.errors`, which the reference lists, so that a caller can name them."""
    errors = {name: e for name, e in vars(pv.errors).items() if isinstance(e, type)}
    assert set(errors) == {
        "AgentSilent", "BudgetExceeded", "CheckpointError", "CollectorSilent",
        "InfeasibleTarget", "InfiniteInformation", "InvalidInput", "LedgerError", "LevelBelowPrior",
        "MissingDependency", "NotCalibratable", "NotIdentifiable", "NotOffered", "NotReleasable",
        "NumericalFailure", "PrivestError", "SmallSampleWarning",
    }  # fmt: skip
    defined = {
        node.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and errors.keys() & {ast.unparse(b) for b in node.bases}
    }
    assert defined - set(errors) == {"Unfit"}  # a form of the app: never beyond its own pages
    assert issubclass(errors.pop("SmallSampleWarning"), UserWarning)
    assert all(issubclass(e, pv.errors.PrivestError) for e in errors.values())


def test_version_is_that_of_the_package():
    for name, stated in (
        ("pyproject.toml", f'version = "{pv.__version__}"'),
        ("CITATION.cff", f"version: {pv.__version__}"),
        ("packaging/conda/recipe.yaml", f"version: {pv.__version__}"),
    ):
        assert f"{stated}\n" in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_recipe_needs_what_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")
    for stated in [*project["dependencies"], *project["optional-dependencies"]["cli"]]:
        assert f"- {stated.replace('>=', ' >=')}\n" in recipe


def test_no_package_imports_a_private_module_of_another():
    """A module with an underscore belongs to its package."""
    source, found = ROOT / "src" / "privest", []
    for path in source.rglob("*.py"):
        own = path.relative_to(source).parts[0]
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if not module.startswith("privest."):
                continue
            package, *rest = module.split(".")[1:]
            names = [alias.name for alias in node.names]
            if package != own and any(part.startswith("_") for part in rest + names):
                found.append(f"{path.relative_to(source)}: {module} {names}")
    assert found == []
