"""examples/air_quality.py runs, its pictures are drawn, and what it prints is so."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from network_sample import distance
from privest.estimator import Estimate

EXAMPLE = Path(__file__).parents[3] / "examples" / "air_quality.py"


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("air_quality", EXAMPLE)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_example(module, tmp_path, capsys):
    results, central = module.main(tmp_path / "deep", graphs=4)
    for name in ("agents.png", "rounds.png"):
        assert (tmp_path / "deep" / name).stat().st_size > 10_000
    for result in results.values():
        assert distance(result.estimates, central).max() <= result.certified_error <= 1e-9
    assert results["chebyshev"].rounds < results["plain"].rounds / 5
    text = capsys.readouterr().out
    assert f"chebyshev: {results['chebyshev'].rounds} rounds" in text


def test_distances_in_the_figure_are_standard_errors(module):
    rng = np.random.default_rng(0)
    half = rng.standard_normal((3, 3))
    central = Estimate(value=rng.standard_normal(3), covariance=half @ half.T)
    trace = rng.standard_normal((4, 6, 3))
    trace[0, 2] = np.nan
    found = module.distances(trace, central)
    assert np.isnan(found[0, 2])
    assert np.allclose(found, distance(trace, central), rtol=1e-10, equal_nan=True)
