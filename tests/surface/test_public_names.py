"""The public names, pinned: a change here is a change for users and belongs in the CHANGELOG."""

import re
from pathlib import Path

import pytest

import privest as pv

ROOT = Path(__file__).parents[2]

NAMES = {
    "": {
        "Bound", "Checkpoint", "EndlessLevel", "Identifiability", "LinearModel", "NonlinearModel",
        "PrivacyLevel", "PrivateLinearRegression", "PrivateRLS", "StreamLevel", "StreamMechanism",
        "StreamRelease", "__version__", "audit", "bound", "bounds", "data", "dynamics", "errors",
        "identifiability", "linalg", "mechanism", "network", "noise", "pipeline", "privacy",
        "scale",
    },
    "scale": {"Fit", "cluster_executor", "fit"},
    "data": {
        "Block", "BoxCox", "Features", "Source", "Table", "load_diabetes",
        "open_source", "read_rows", "write_table",
    },
    "dynamics": {
        "BestDirections", "DynamicBound", "ExtendedFiltered", "ExtendedStateSpace", "Filtered",
        "LocalBound", "Marginals", "Predicted", "PrivateKalman", "SeriesRelease", "Smoothed",
        "StateSpace", "SteadyState", "Trajectory", "best_directions", "bound",
        "filter_extended", "filter_releases", "information_blocks", "joined", "local_bound",
        "memoryless_level", "predict", "reading_information", "release_series", "smooth",
        "steady_state", "total_level", "trajectory_bound",
    },
    "network": {
        "ConsensusResult", "Contribution", "Contributions", "DampedNoise", "DecayingNoise",
        "Fused", "FusionCentre", "Graph", "Links", "Lossy", "PrivateAverage", "Round",
        "Sensor", "SensorRelease", "Spectrum", "TimeVarying", "Weights", "agent", "consensus",
        "fuse", "fusion_bound", "grid", "linear_information", "masked", "metropolis",
        "private_average", "random_geometric", "ring", "rounds", "spectrum_of", "star",
    },
    "pipeline": {
        "HolderReport", "LeastSquaresRelease", "LikelihoodScore", "LinearScore",
        "MaximumLikelihoodRelease", "OptimalScoreRelease", "PrivateEstimate", "Score",
        "ScoreRelease", "SmoothedLikelihoodScore", "best_bandwidth", "jacobian", "optimal_score",
    },
    "audit": {
        "Attack", "Certificate", "FisherInformation", "adversary", "certify", "fisher_information",
    },
    "mechanism": {
        "Additive", "AffineMechanism", "BinaryQuantiser", "CATALOGUE", "Channel", "ChannelEntry",
        "Componentwise", "Entry", "GaussianMechanism", "GeometricPerturbation", "Information",
        "Inverse", "LaplaceQuantiser", "Mechanism", "PrivacyWeights", "ProbabilisticQuantiser",
        "Rotation", "StreamMechanism", "TriangularQuantiser", "TruncatedInverse", "TwinUniform",
        "UserChannel", "VectorEntry", "Worst", "data_perturbation", "output_perturbation",
    },
    "bounds": {
        "BayesianBound", "Bound", "Identifiability", "LinearRelease", "StreamBound", "TraceBound",
        "TraceBudgetBound", "averaged_bound", "bayesian_bound", "bayesian_bound_from_information",
        "best_linear_release", "bound", "classical_bound", "consensus_bound", "identifiability",
        "metric_dp_bound", "stream_bound", "stream_estimates", "trace_bound", "trace_budget_bound",
    },
    "privacy": {
        "Along", "EndlessLevel", "Move", "OneBlock", "OneReading", "PrivacyLevel",
        "SequentialLevel", "StreamLevel", "as_level", "as_stream_level", "gdp", "load_level",
        "metric",
    },
    "noise": {
        "Affine", "Bump", "Cauchy", "CosSquared", "CustomLaw", "Estimate", "Gaussian",
        "GaussianLaw", "GaussianMixture", "Independent", "JointNoise", "Laplace", "Logistic",
        "MultivariateGaussian", "ScalarLaw", "Staircase", "StudentT", "Uniform", "as_joint",
        "expected_squared_curvature_by_quadrature", "fisher_information_by_quadrature",
        "from_logpdf",
    },
}  # fmt: skip


@pytest.mark.parametrize("room", NAMES)
def test_names_are_pinned(room):
    module = getattr(pv, room) if room else pv
    assert set(module.__all__) == NAMES[room]
    for name in module.__all__:
        assert hasattr(module, name)


@pytest.mark.parametrize("room", NAMES)
def test_everything_public_has_a_docstring(room):
    module = getattr(pv, room) if room else pv
    for name in set(module.__all__) - {"__version__"}:
        assert (getattr(module, name).__doc__ or "").strip(), name


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/promise.md"])
def test_every_name_in_the_docs_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for dotted in set(re.findall(r"`pv\.([\w.]+)", text)):
        found = pv
        for part in dotted.split("."):
            found = getattr(found, part)


def test_errors_are_one_tree():
    errors = [e for e in vars(pv.errors).values() if isinstance(e, type)]
    assert len(errors) >= 7
    assert all(issubclass(e, pv.errors.PrivestError) for e in errors)


def test_version_is_that_of_the_package():
    assert f'version = "{pv.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
