"""`privest levels`: the table of the notes, and nothing promised that a release does not keep."""

import json

import numpy as np
import pytest

from privest.privacy import exposures, gdp
from workflow_command import runner


@pytest.fixture
def privest(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


def test_the_table_is_that_of_the_formulas(privest):
    """s·c² and ε at δ = 1e-6 of `real-tables.md` 8, computed again without the grid."""
    done = privest("levels", "--tolerance", "2", "--json")
    assert done.code == 0, done.err
    for one in json.loads(done.out)["levels"]:
        exact = (exposures.mu_for_chance(one["chance"]) / 2.0) ** 2
        # A step of the grid is 2⁻¹⁰ of μ: at most so much less, in s twice that.
        mu = exposures.mu_for_chance(one["chance"])
        assert exact * (1 - 2.1 * 2**-10 / mu) <= one["level"] <= exact
        assert one["epsilon"] <= gdp.epsilon_of(mu, 1e-6) * (1 + 1e-9)
        assert one["measurement_error"] == pytest.approx(one["level"] ** -0.5)
        assert one["informed_error"] is None


def test_the_table_for_people_fits_a_terminal(privest):
    done = privest("levels", "--tolerance", "0.5", "--spread", "1")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "right at most level s unbiased sd reader's sd ε" in text
    assert " 75% 7.275 0.37 0.347 6.9 " in text
    assert "where a range of width 0.5 is enforced" in text
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_one_chance_is_told_in_sentences(privest):
    done = privest("levels", "--tolerance", "0.5", "--attacker", "0.75")
    text = " ".join(done.out.split())
    assert "Privacy level s = 7.275, a cap on Fisher information" in text
    assert "that differ by 0.5, an attacker is right at most 75% (guessing: 50%)" in text
    assert "No range is enforced: ε is unlimited" in text
    level = json.loads(privest("levels", "--tolerance", "0.5", "--attacker", "0.75", "--json").out)
    assert np.isclose(level["levels"][0]["level"], 7.275, rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--tolerance", "0"), "--tolerance must be > 0"),
        (("--attacker", "0.5"), "0.5, a guess, and 1"),
        (("--attacker", "75"), "0.5, a guess, and 1"),
        (("--spread", "-1"), "--spread"),
        (("--delta", "2"), "delta"),
    ],
)
def test_wrong_uses_are_one_sentence(privest, given, words):
    done = privest("levels", *given)
    assert done.code == 2
    assert words in " ".join(done.err.split())
