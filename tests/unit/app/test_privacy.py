"""Privacy: one slider for ε, what it means, and the smallest ε for an accuracy."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest

from app_client import Client, errors, fields_of, words
from privest.aggregate import FeatureRows
from privest.privacy.exposures import band, told_apart
from privest.report.describe import exposed
from privest.report.numbers import half
from privest.report.slider import epsilon_at, epsilon_of, position_of
from privest.workflow.spec import Privacy, Public
from workflow_tables import people, write

RANGE = {"s5": (2.0, 7.0)}
SUMS = Privacy(epsilon=1.0, range=RANGE, form="aggregate")
KINDS = {
    "one column": {},
    "no residual variance": {"public": Public()},
    "a logarithm": {"transform": "log"},
    "counts": {
        "family": "poisson", "public": Public(), "privacy": Privacy(4.0, range=RANGE, form="rows"),
    },
    "Laplace": {"privacy": Privacy(4.0, distribution="laplace", range=RANGE, form="rows")},
    "yes or no": {
        "target": "sex", "features": ("age", "bmi"), "family": "binomial", "public": Public(),
        "privacy": Privacy(epsilon=1.0, form="rows"),
    },
    "survey weights": {"features": ("age", "sex"), "weights": "bp"},
    "sums": {"privacy": SUMS},
    "sums, no residual variance": {"privacy": SUMS, "public": Public()},
    "sums of logarithms": {"privacy": SUMS, "transform": "log"},
    "sums of yes or no": {
        "target": "sex", "features": ("age", "bmi"), "family": "binomial", "public": Public(),
        "privacy": Privacy(epsilon=1.0, form="aggregate"),
    },
    "sums of persons": {"privacy": SUMS, "features": ("bmi",), "person": "age"},
    "sums of differences": {"privacy": replace(SUMS, within=2.0, pilot=0.2)},
    "a mean": {"privacy": SUMS, "features": ()},
    "sums with their exposure": {"privacy": Privacy(0.01, range=RANGE, form="aggregate")},
}  # fmt: skip


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def at(work, rest=""):
    return f"/work/{work.id}/privacy{rest}"


def move(client, work, epsilon, **more):
    """What the page does when the slider moves."""
    asked = {"epsilon": epsilon} | more
    return client.post(at(work, "/numbers"), asked, headers={"hx-request": "true"})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_plan_has_its_screen(kind, client):
    work = client.planned(**KINDS[kind])
    page = client.get(at(work))
    assert page.status_code == 200, words(page)
    assert "nan" not in words(page).split()
    assert not re.search(r"\d[eE][-−+]?\d", words(page).split("Details and")[0].replace("1e-6", ""))
    moved = move(client, work, "2.5")
    assert moved.status_code == 200, words(moved)
    assert "<html" not in moved.text
    assert work.plan.spec.privacy.epsilon == 2.5
    for part in exposed(work.plan).parts:  # word for word, at the ε that is moved to
        assert getattr(part, "text", "") in words(moved)
    taken = client.post(at(work), {"epsilon": "2.5", "then": "go"})
    assert taken.headers["location"].endswith("/release")
    assert work.plan.spec == work.plan.spec


def test_headline_numbers_and_table_follow_epsilon(client):
    work = client.planned()
    said = words(move(client, work, "5", of="3"))  # bmi
    plan = work.plan
    assert half(plan.standard_error[3]) in said
    assert half(plan.classical_error[3]) in said
    rate = 100 * told_apart(plan.level, 5.0)
    assert f"{int(np.ceil(rate))} of 100" in said
    assert f"s = {plan.level * 25:.4g}/R², where R = 5" in said.replace("0.9810", "0.981")
    assert client.get(at(work)).text.count('<option value="3" selected>bmi') == 1


@pytest.mark.parametrize(
    ("epsilon", "word", "key"),
    [("0.5", "small", "A 10% suspicion becomes at most"), ("2", "moderate", "A 10% suspicion"),
     ("5", "large", "ε alone permits near-certainty"),
     ("50", "very large", "ε alone promises almost nothing")],
)  # fmt: skip
def test_the_bands_are_those_of_the_panel_and_large_ones_warn(client, epsilon, word, key):
    work = client.planned()
    answer = move(client, work, epsilon)
    assert band(float(epsilon)) == word
    note = re.search(r'<div class="zone-note note (\w+)"[^>]*data-word="([^"]+)"', answer.text)
    assert note[2] == word
    assert note[1] == {"small": "good", "moderate": "warn"}.get(word, "bad")
    assert key in words(answer)


def test_where_no_variance_is_known_guesses_are_fixed_fractions_of_the_range(client):
    """They do not move with ε, and so the numbers beside them do."""
    work = client.planned(public=Public())
    seen = []
    for epsilon in ("1", "30"):
        said = words(move(client, work, epsilon))
        assert "sd 0.25, 0.5 or 1 around the prediction (R/20, R/10, R/5; R: the range" in said
        assert "if residual sd 0.25" in said
        seen.append(re.search(r"a reader guesses with sd ([\d., or]+)", said)[1])
    assert seen[0] != seen[1]


def test_guessing_a_yes_is_not_right_half_of_the_time(client):
    """With 30% of yes, "no" is right in 70: what the release adds is the rest."""
    public = Public(expected={"sex": 0.3})
    work = client.planned(**KINDS["yes or no"] | {"public": public})
    said = words(client.get(at(work)))
    assert "74 of 100" in said  # e/(1 + e), rounded up
    assert "70 right by guessing" in said
    assert "4 more because of the release" in said
    assert "50 by guessing" not in said


def test_the_slider_is_a_scale_of_four_bands():
    for epsilon in np.geomspace(0.1, 100, 30):
        assert epsilon_at(position_of(epsilon)) == pytest.approx(epsilon)
    borders = [epsilon_at(k / 4) for k in range(5)]
    assert [band(x * 0.999) for x in borders[1:]] == ["small", "moderate", "large", "very large"]


@pytest.mark.parametrize("typed", ["-1", "0", "many", "1e9", "nan", "1,000"])
def test_what_cannot_be_says_why_and_keeps_what_is_stored(typed, client):
    work = client.planned()
    plan = work.plan
    part = move(client, work, typed)
    assert part.status_code == 422
    assert "<h1" not in part.text
    whole = client.post(at(work), {"epsilon": typed, "then": "go"})
    assert whole.status_code == 422
    assert "epsilon" in re.findall(r'<a href="#([^"]+)">', whole.text)
    assert work.plan is plan


@pytest.mark.parametrize(
    "stated",
    [
        Privacy(level=1 / 3, delta=1.23456789e-7, range=RANGE, form="rows"),
        Privacy(epsilon=3.0, delta=1e-6, range=RANGE, form="rows"),
        Privacy(standard_error={"bmi": 0.02}, range=RANGE, form="rows"),
        Privacy(level=1 / 30, delta=1.23456789e-7, range=RANGE, form="aggregate"),
        Privacy(standard_error={"bmi": 0.02}, range=RANGE, form="aggregate", publish="matrix"),
    ],
)
def test_what_was_not_moved_stays_as_it_was_stated(stated, client):
    """ε is shown in three digits, rounded up; the plan keeps all of them."""
    work = client.planned(privacy=stated)
    shown = fields_of(client.get(at(work)), "/privacy")
    assert float(shown["epsilon"][0]) >= epsilon_of(work.plan)
    for then in ("show", "go"):
        client.post(at(work), shown | {"then": then})
        assert work.plan.spec.privacy == stated


def test_a_request_that_comes_late_moves_nothing(client, monkeypatch):
    """Requests that were given up are still answered, perhaps after the one that replaced them."""
    work = client.planned()
    move(client, work, "0.5")
    monkeypatch.setattr("privest.app.pages.NUMBERS", iter([0]))  # as if it had come before
    move(client, work, "2")
    assert work.plan.spec.privacy.epsilon == 0.5


@pytest.mark.parametrize("form", ["rows", "aggregate"])
@pytest.mark.parametrize("public", [Public(0.2), Public()])
def test_the_smallest_epsilon_for_an_accuracy(client, public, form):
    work = client.planned(public=public, privacy=replace(SUMS, form=form))
    answer = client.post(at(work), {"then": "need", "need": "0,02", "of": "3"})
    assert answer.status_code == 200
    epsilon = work.plan.spec.privacy.epsilon
    assert f"ε = {epsilon:g} is the smallest" in words(answer)
    errors_ = work.plan.standard_error if public.residual_variance else work.plan.privacy_error
    assert 0.0195 < 1.959964 * errors_[3] <= 0.02
    assert 'value="0,02"' in answer.text  # still there


def test_an_accuracy_that_cannot_be_is_said_beside_its_field(client):
    work = client.planned()
    plan = work.plan
    for typed in ("0.001", "", "x", "-1"):
        answer = client.post(at(work), {"then": "need", "need": typed, "of": "3"})
        assert answer.status_code == 422
        assert "need" in re.findall(r'<a href="#([^"]+)">', answer.text), words(answer)
        assert 'id="need-said"' in answer.text
    assert "rows like these are needed" in words(
        client.post(at(work), {"then": "need", "need": "0.001", "of": "3"})
    )
    assert work.plan is plan
    assert client.post(at(work), {"of": "17"}).status_code == 422


def test_without_a_plan_every_route_leads_to_the_columns(client):
    work = client.desk.begin()
    for answer in (client.get(at(work)), client.post(at(work)), client.post(at(work, "/numbers"))):
        assert answer.headers["location"].endswith("/data")


@pytest.mark.parametrize("form", ["rows", "aggregate"])
def test_no_value_and_no_file_is_read_while_the_slider_moves(tmp_path, form, monkeypatch):
    """The table is gone; a private sentinel is in no answer. Nor are features read again."""
    client = Client(tmp_path)
    table = people(300) | {"ldl": np.full(300, 31337.5)}
    table["ldl"][1] = 1.0
    file = write(table, tmp_path / "people.csv")
    work = client.planned(
        data=str(file), target="ldl", features=("age", "bmi", "sex"),
        categories={"sex": ("female", "male")},
        privacy=Privacy(4.0, delta=1e-6, range={"ldl": (2.0, 7.0)}, form=form),
    )  # fmt: skip
    file.unlink()
    monkeypatch.setattr(FeatureRows, "__iter__", None)
    for answer in (client.get(at(work)), move(client, work, "2")):
        assert answer.status_code == 200
        assert "31337" not in answer.text
    client.close()


@pytest.mark.parametrize("kind", ["one column", "sums"])
def test_an_answer_is_quick(client, kind):
    work = client.planned(**KINDS[kind])
    move(client, work, "4")
    begun = time.perf_counter()
    move(client, work, "4.2")
    assert time.perf_counter() - begun < 1.0  # a machine that does ten other things


def test_errors_are_marked(client):
    work = client.planned()
    answer = client.post(at(work), {"epsilon": "x"})
    assert errors(answer) == {}  # the dial has no room: it is said below it, with a link
    assert re.search(r'<input id="epsilon"[^>]*aria-invalid="true"', answer.text)
