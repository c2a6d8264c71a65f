"""The aggregate form in the app: the question on the first screen, its account, its results."""

import re
import sys

import numpy as np
import pytest
from scipy.special import ndtr

from app_client import Client, errors, fields_of, words
from app_release import ended, made, message, shown, ticket, url
from privest.ledger import Budget, Ledger
from privest.privacy import gdp
from privest.report.numbers import half
from privest.report.planning import planned_errors
from privest.report.slider import at_epsilon, error_curve
from privest.workflow import read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from workflow_tables import people, spec

RANGE = {"s5": (2.0, 7.0)}
SUMS = Privacy(epsilon=1.0, range=RANGE, form="aggregate")


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))


@pytest.fixture
def client(tmp_path):
    folder = tmp_path / "releases"
    folder.mkdir()
    found = Client(folder)
    yield found
    found.close()


def at(work, rest):
    return f"/work/{work.id}/{rest}"


def done(client, work, **changes):
    return client.post(at(work, "data"), fields_of(client.get(at(work, "data")), "/data") | changes)


# --- the question ---------------------------------------------------------------------------------


def test_the_first_screen_asks_and_the_answer_is_the_form_of_the_plan(client):
    assert "Are you trusted with this table?" in words(client.get("/"))
    asked = fields_of(client.get("/"), "/begin")
    assert asked["form"] == ["aggregate"]
    for form in ("aggregate", "rows"):
        work = client.work_of(client.post("/begin", asked | {"form": form, "example": "yes"}))
        assert done(client, work).status_code == 303
        assert (work.plan.privacy.form, work.plan.privacy.epsilon) == (form, 1.0)
        kind = {"aggregate": "aggregate release", "rows": "row-level release"}[form]
        for screen in ("privacy", "release"):
            assert kind in words(client.get(at(work, screen)))


def test_an_answer_that_was_given_stays(client):
    """After a file that cannot be read; and when the private column is chosen."""
    answer = client.post("/begin", {"path": "nowhere.csv", "form": "rows"})
    assert fields_of(answer, "/begin")["form"] == ["rows"]
    assert client.post("/begin", {"example": "yes", "form": "none"}).status_code == 422
    content = {"table": ("a.csv", b"a;b\n1;2\n3;4\n")}
    work = client.work_of(client.post("/begin", {"form": "rows"}, files=content))
    client.post(at(work, "data/private"), {"private": "1"})
    assert fields_of(client.get(at(work, "data")), "/data")["form"] == ["rows"]


def test_another_answer_on_the_columns_screen_is_another_plan(client):
    work = client.work_of(client.post("/begin", {"example": "yes"}))
    done(client, work)
    client.post(at(work, "privacy"), {"epsilon": "2"})
    done(client, work)
    assert work.plan.privacy.epsilon == 2.0  # nothing was changed
    done(client, work, form="rows")
    assert (work.plan.privacy.form, work.plan.privacy.epsilon) == ("rows", 1.0)
    assert errors(done(client, work, form="both")).keys() == {"form"}


# --- the slider -----------------------------------------------------------------------------------


def test_errors_exposure_and_range_of_the_privacy_screen(client):
    work = client.planned(privacy=SUMS)
    said = words(client.get(at(work, "privacy")))
    for error in (work.plan.standard_error[3], work.plan.classical_error[3]):
        assert half(error) in said
    mu = gdp.mu_of(1.0, 1e-6)
    assert f"{np.ceil(100 * ndtr(mu / 2)):.0f} of 100 at most" in said
    for text in ("with or without that person's row", "An attacker who knows every other value",
                 "15% of the promise goes to noisy squares", "choose the range with care",
                 "2.21 residual sd away"):  # fmt: skip
        assert text in said, text
    assert "privacy noise on a value" not in said


def test_the_curve_goes_through_the_errors_of_plans(client):
    """Also beyond the ε from which on squares are released."""
    plan = make_plan(client.planned(privacy=SUMS).plan.spec)
    kinds = {at_epsilon(plan, x).splits[0].kind for x in (0.1, 100.0)}
    assert kinds == {"none", "squares"}
    curve = error_curve(plan, planned_errors(plan)[0], 3, 1.0)
    ends = [half(at_epsilon(plan, x).standard_error[3]) for x in (0.1, 100.0)]
    assert list(curve["ends"]) == ends


def test_an_accuracy_that_no_epsilon_gives(client):
    work = client.planned(privacy=SUMS)
    least = 1.959964 * float(np.sqrt(work.plan.survey.sums.sampling[3] * 0.2))
    answer = client.post(at(work, "privacy"), {"then": "need", "need": f"{least:.6f}", "of": "3"})
    assert answer.status_code == 422
    assert work.plan.privacy.epsilon == 1.0


# --- the account ----------------------------------------------------------------------------------


def test_one_document_leaves_and_the_account_counts_by_composition(client):
    work = client.planned(privacy=SUMS)
    page = words(shown(client, work))
    for text in ("5 coefficients with standard errors, made from noisy sums", "The exact sums",
                 "Every row: values of “s5” and features", "100% of the account"):  # fmt: skip
        assert text in page, text
    part = client.post(url(work, "/look"), {"limit": "2"}, headers={"hx-request": "true"})
    assert "28% of the account" in words(part)  # as the mock has it
    assert "Still possible afterwards ε = 1.67" in words(part)
    job = made(client, work, limit="2")
    assert job.trouble is None
    assert {one.name for one in client.folder.iterdir()} == {"s5-release.json", "privest-ledger.db"}
    header = read_release(client.folder / "s5-release.json")
    assert (header.rows, header.simulated, len(header.sums)) == (442, False, 1)
    with Ledger(client.desk.ledger) as ledger:
        ledger.verify()
        assert [one.cost.mu2 for one in ledger.history() if one.cost] == [work.plan.cost.mu2]
    page = words(client.get(at(work, "results")))
    assert "72% left" in page
    assert "Still possible: one release at ε = 1.67" in page
    assert "The limit of the account is ε = 2 for" in page
    assert "28%" in words(client.get(at(work, "privacy")))


def test_releases_without_squares_do_not_exceed_the_limit(client):
    """Squares are 13 times as much Fisher information, and 15% of μ²: a limit is one of μ."""
    work = client.planned(privacy=SUMS)
    first = at_epsilon(work.plan, 0.1)
    assert (work.plan.splits[0].kind, first.splits[0].kind) == ("squares", "none")
    client.post(at(work, "privacy"), {"epsilon": "0.1"})
    made(client, work, limit="1")
    share = (gdp.mu_of(0.1, 1e-6) / gdp.mu_of(1.0, 1e-6)) ** 2
    assert f"Uses {100 * share:.1f}% of the account" in words(shown(client, work))
    client.post(at(work, "privacy"), {"epsilon": "1"})
    given = {"ticket": ticket(client, work), "sure": "yes", "again": "yes"}
    answer = client.post(url(work, "/make"), given)
    assert "more than is left of the account" in message(answer)
    client.post(at(work, "privacy"), {"epsilon": "0.9"})
    assert made(client, work, again="yes").trouble is None
    with Ledger(client.desk.ledger) as ledger:
        spent = ledger.account("s5 of diabetes").spent.mu2
    assert gdp.epsilon_of(float(spent) ** 0.5, 1e-6) <= 1.0


def test_an_account_that_is_limited_by_a_level(client):
    """As the command line opens it: what the release reveals in Fisher information is counted."""
    work = client.planned(privacy=SUMS)
    with Ledger(client.desk.ledger) as ledger:
        ledger.account("s5 of diabetes", budget=Budget(level=2 * work.plan.level))
    page = words(shown(client, work))
    assert "50% of the account" in page
    assert "Still possible afterwards ε = 1" in page
    made(client, work)
    page = words(client.get(at(work, "results")))
    assert "50% left" in page
    assert "Still possible: one release at ε = 1." in page


# --- dry runs, kills, names -----------------------------------------------------------------------


def test_a_dry_run_leaves_nothing(client):
    work = client.planned(privacy=SUMS)
    client.post(url(work, "/dry"))
    job = ended(work)
    assert (job.trouble, job.found.release.simulated) == (None, True)
    assert "for your eyes only" in shown(client, work)
    assert list(client.folder.iterdir()) == []
    assert [one.name for one in client.desk.private.iterdir()] == ["alive"]


@pytest.mark.parametrize("name", ["z.csv", "z.csv.json", "z", "diabetes"])
def test_names_of_documents(client, name):
    work = client.planned(privacy=SUMS)
    given = {"ticket": ticket(client, work), "sure": "yes", "name": name}
    answer = client.post(url(work, "/make"), given)
    refused = "name" in errors(answer) if answer.status_code == 422 else ended(work).trouble
    assert refused
    assert not client.desk.ledger.exists()


def test_a_release_that_was_killed_after_its_charge_is_finished(client, monkeypatch):
    work = client.planned(privacy=SUMS)

    def killed(*args):
        raise KeyError

    with monkeypatch.context() as here:
        here.setattr(sys.modules["privest.workflow.release"], "_write_document", killed)
        assert made(client, work, name="z.json").document is None
    work.choice = work.job = None
    page = words(shown(client, work))
    assert "was charged and then cut off" in page
    assert 'value="z.json"' in shown(client, work)
    assert made(client, work, name="z.json").trouble is None
    with Ledger(client.desk.ledger) as ledger:
        assert len([one for one in ledger.history() if one.cost]) == 1


# --- results --------------------------------------------------------------------------------------


def test_results_have_no_diagnostics_and_means_only_with_the_matrix(client):
    for publish in ("estimates", "matrix"):
        work = client.planned(privacy=Privacy(
            epsilon=3.0, range=RANGE, form="aggregate", publish=publish
        ))  # fmt: skip
        assert made(client, work, subject=publish, again="yes").trouble is None
        assert ("weight matrix" in words(shown(client, work))) == (publish == "matrix")
        page = client.get(at(work, "results"))
        said = words(page)
        assert "Noisy sums show no residuals, no outliers" in said
        assert "estimates from the release" in said
        assert "One noisy value per row" not in said
        assert ('id="at-0"' in page.text) == (publish == "matrix")
        row = {"at-0": "50", "at-1": "0", "at-2": "25", "at-3": "90"}
        asked = client.post(at(work, "results/mean"), row)
        assert asked.status_code == (303 if publish == "matrix" else 422)


def test_no_estimate_is_said_with_what_it_cost(client, tmp_path):
    """Score equations of few rows may have no solution: it is charged, and said."""
    data = people(60) | {"sick": (np.arange(60) % 15 == 0).astype(float)}
    stated = spec(
        "people.csv", target="sick", family="binomial", public=Public(),
        privacy=Privacy(epsilon=0.2, form="aggregate"),
    )  # fmt: skip
    plan, folder = make_plan(stated, data), client.folder
    for seed in range(20):
        path = folder / f"{seed}.json"
        simulate_release(plan, path, np.random.default_rng(seed), data)
        if not np.isfinite(estimate(path).standard_error).all():
            break
    work = client.planned()
    work.released, work.made = path, plan
    page = client.get(at(work, "results"))
    assert page.status_code == 200, words(page)
    assert "The noisy score equations have no solution" in words(page)
    assert "The release bounds no coefficient" in words(page)
    assert not re.search(r"\bnan\b", words(page))
    assert client.get(at(work, "export/report")).status_code == 200
