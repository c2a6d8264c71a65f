"""Results: from the release alone; confidence, errors, means, totals; a release that is there."""

import re
import time
from html import unescape

import numpy as np
import pytest

from app_client import Client
from privest.app import _results_screen as screen
from privest.app._desk import Made, Table
from privest.report.numbers import value as rounded
from privest.workflow import (
    Model,
    Privacy,
    Public,
    Spec,
    estimate,
    make_plan,
    simulate_release,
    simulation_source,
)
from workflow_tables import people, spec, write

HTMX = {"hx-request": "true"}


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def url(work, rest=""):
    return f"/work/{work.id}/results{rest}"


def tried(client, seed=3, **changes):
    """A work with a trial."""
    work = client.planned(**changes)
    return released(client, work, work.plan, None, seed)


def released(client, work, plan, data, seed=3):
    work.released = client.folder / f"trial-{work.id.strip('-_')}.csv"
    simulate_release(plan, work.released, simulation_source(plan, seed), data)
    work.made = Made(plan, seed=seed)
    return work


def of_people(client, rows=200, table=None, **changes):
    """A work on made-up people, in memory."""
    data = table or people(rows)
    plan = make_plan(spec(**changes), data)
    return released(client, client.desk.begin(), plan, data)


def shown(client, work):
    answer = client.get(url(work))
    assert answer.status_code == 200, answer.text
    return unescape(answer.text).replace("\xa0", " ")


def part(client, work, rest, data):
    answer = client.post(url(work, rest), data, headers=HTMX)
    assert "<html" not in answer.text
    return answer.status_code, unescape(answer.text).replace("\xa0", " ")


def test_the_report_is_there(client):
    work = tried(client)
    page, found = shown(client, work), estimate(work.released)
    for words in (
        "Findings", "95% interval", "in two parts; their squares add up", "What privacy cost",
        "What one person is exposed to", "How the standard errors were made", "A trial",
        "Limits of the promise",
        "Which release this is", found.release.checksum, "Download the report",
    ):  # fmt: skip
        assert words in page, words
    value, error = found.estimate[3], found.standard_error[3]
    assert rounded((value, error)) in page
    assert page.count("<h1") == 1
    assert page.count('<svg class="chart"') == 3
    assert "style=" not in page
    assert len(set(re.findall(r'id="([^"]+)"', page))) == len(re.findall(r'\bid="([^"]+)"', page))


def test_without_a_release_there_is_none(client):
    work = client.planned()
    assert client.get(url(work)).headers["location"].endswith("/release")
    for rest in ("/ask", "/predict"):
        assert client.post(url(work, rest)).status_code == 404


def test_errors_are_split_and_their_squares_add_up(client):
    work = tried(client)
    text = shown(client, work).split("in two parts", 1)[1]
    rows = re.findall(r"<tr role=\"row\">(.*?)</tr>", text, re.S)[1:6]
    for row in rows:
        cells = [c.replace("−", "-") for c in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        whole, sampling, privacy = map(float, cells[:3])
        assert whole**2 == pytest.approx(sampling**2 + privacy**2, rel=0.02)  # three digits each
        assert float(cells[3].strip("%")) == pytest.approx(100 * privacy**2 / whole**2, abs=2)


def test_another_confidence(client):
    work = tried(client)
    found = estimate(work.released)
    assert (screen.CONFIDENCES[0], screen.CONFIDENCES[-1]) == ("0.8", "0.999")
    for chosen in screen.CONFIDENCES:
        status, text = part(client, work, "/ask", {"confidence": chosen})
        assert status == 200
        assert f"{100 * float(chosen):g}% interval" in text
        assert work.asked["confidence"] == float(chosen)
        low, high = found.interval(float(chosen))[3]
        error = found.standard_error[3]
        assert f"{rounded((low, error))} to {rounded((high, error))}" in text
        page = unescape(client.follow(client.post(url(work, "/ask"), {"confidence": chosen})).text)
        assert f'value="{chosen}" selected' in page


LEVELS = Privacy(level_column="level")


def levelled():
    return people(200) | {"level": np.linspace(1.0, 3.0, 200)}


def test_every_way_of_errors_that_is_offered(client):
    table = people(200) | {"w": np.full(200, 2.0), "who": np.arange(200) // 2}
    works = [
        of_people(client), of_people(client, table=table, weights="w"),
        of_people(client, table=table, person="who"),
        of_people(client, table=levelled(), public=spec().public, privacy=LEVELS),
    ]  # fmt: skip
    for work in works:
        offered = re.findall(
            r'<option value="(\w+)"',
            shown(client, work).split('id="errors"')[1].split("<button")[0],
        )
        assert offered[0] == "auto"
        assert len(offered) > 1
        for way in offered:
            assert part(client, work, "/ask", {"errors": way})[0] == 200, way
            assert work.asked["errors"] == way
    assert part(client, works[0], "/ask", {"errors": "cr2"})[0] == 422
    assert works[0].asked["errors"] != "cr2"


def test_estimates_are_made_once(client, monkeypatch):
    work, made = tried(client), []
    own = estimate
    monkeypatch.setattr(screen, "estimate_release", lambda *a: made.append(a) or own(*a))
    for chosen in ("0.8", "0.9", "0.8"):
        shown(client, work)
        part(client, work, "/ask", {"confidence": chosen})
    assert len(made) == 1
    part(client, work, "/ask", {"errors": "t"})
    assert [errors for _, errors in made] == ["auto", "t"]
    for k in range(3 * screen.MOST_KEPT):
        screen._kept(work, ("x", k), lambda: None)
    assert len(work.more[screen.PARTS]) <= screen.MOST_KEPT


def test_a_mean_in_units_of_the_file(client):
    work = of_people(client, transform="log", privacy=Privacy(2.0, range={"ldl": (1e-3, 1e3)}),
                     table=people(300) | {"ldl": np.exp(people(300)["ldl"])})  # fmt: skip
    page = shown(client, work)
    assert re.findall(r'<label for="at-\d+">(.*?)</label>', page) == ["age", "bmi", "sex"]
    assert "Change of “ldl” for one unit more" in page  # in percent for a logarithm
    row = {"age": 50.0, "bmi": 27.5, "sex": "male"}
    mean = estimate(work.released).mean_at(row)
    size = float(mean.interval[1] - mean.interval[0]) / 4
    given = {"at-0": "50", "at-1": "27,5", "at-2": "male"}
    status, text = part(client, work, "/predict", given)
    assert status == 200
    assert f"has mean {rounded((mean.mean, size))} there" in text
    assert rounded((float(mean.interval[0]), size)) in text
    assert work.asked["at"] == (row,)
    answer = client.post(url(work, "/predict"), given | {"at-2": "female"})
    assert "50" not in answer.headers["location"]
    assert len(work.asked["at"]) == 2
    for k in range(10):
        client.post(url(work, "/predict"), given | {"at-0": str(k)})
    assert len(work.asked["at"]) == screen.MOST_ROWS
    client.post(url(work, "/predict"), {"clear": "yes"})
    assert "at" not in work.asked


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("at-0", "", "“age” has no value"),
        ("at-0", "old", "“age” must be a number"),
        ("at-2", "other", "“sex” must be one of female, male"),
    ],
)
def test_a_value_that_is_none(client, field, value, words):
    work = of_people(client)
    given = {"at-0": "50", "at-1": "27", "at-2": "male"} | {field: value}
    status, text = part(client, work, "/predict", given)
    assert status == 422
    assert words in text
    page = client.post(url(work, "/predict"), given)
    assert page.status_code == 422
    assert words in unescape(page.text)
    assert 'value="27"' in page.text  # what was typed is there again
    assert "at" not in work.asked


def test_the_total(client):
    work = tried(client)
    assert "Total of" not in shown(client, work)
    assert "Total of “s5” over 442 rows" in part(client, work, "/ask", {"total": "yes"})[1]
    weighed = of_people(client, table=levelled(), public=spec().public, privacy=LEVELS)
    assert "There is none" in part(client, weighed, "/ask", {"total": "yes"})[1]


def test_several_private_columns(client):
    table = people(200)
    table["hdl"] = table["ldl"] * 0.5 + np.random.default_rng(1).normal(size=200)
    units = {"ldl": 1.0, "hdl": 1.0}
    work = of_people(
        client,
        table=table,
        target=("ldl", "hdl"),
        public=Public(),
        privacy=Privacy(3.0, units=units),
    )
    page = shown(client, work)
    assert "Findings: ldl" in page
    assert "Findings: hdl" in page
    text = part(client, work, "/predict", {"at-0": "50", "at-1": "27", "at-2": "male"})[1]
    assert "“ldl” is" in text
    assert "“hdl” is" in text


def test_yes_or_no_has_effects_and_no_means(client):
    table = people(2000)
    table["sick"] = (np.random.default_rng(2).uniform(size=2000) < 0.4).astype(float)
    work = of_people(
        client, table=table, target="sick", family="binomial", public=Public(),
        privacy=Privacy(epsilon=2.0),
    )  # fmt: skip
    page = shown(client, work)
    assert "odds" in page
    assert 'id="at-0"' not in page
    assert client.post(url(work, "/predict"), {"at-0": "1"}).status_code == 422


KINDS = {
    "persons": {"person": "who"},
    "weights": {"weights": "w"},
    "laplace": {"privacy": Privacy(epsilon=1.0, range={"ldl": (-9.0, 9.0)}, distribution="laplace")},
    "counts": {"target": "visits", "family": "poisson", "public": Public()},
    "record": {
        "target": ("ldl", "hdl"), "public": Public(),
        "privacy": Privacy(3.0, units={"ldl": 1.0, "hdl": 1.0}),
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_path_of_every_kind_of_plan(client, tmp_path, monkeypatch, kind):
    """From the release screen to the results: a real release of each."""
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    table = people(120) | {"w": np.linspace(1, 2, 120), "who": np.arange(120) // 2}
    table |= {"hdl": table["ldl"][::-1].copy(), "visits": np.arange(120) % 4}
    work = client.desk.begin()
    file = write(table, tmp_path / "people.csv")
    work.table, work.spec = Table("people.csv", file), spec("people.csv", **KINDS[kind])
    work.plan = make_plan(work.spec, str(file))
    page = client.get(f"/work/{work.id}/release").text
    ticket = re.search(r'name="ticket" value="([^"]+)"', page).group(1)
    client.post(f"/work/{work.id}/release/make", {"ticket": ticket, "sure": "yes"})
    job = work.more["release job"]
    while job.running:
        time.sleep(0.01)
    assert job.trouble is None
    assert "It is released" in client.get(f"/work/{work.id}/release").text
    assert "Findings" in shown(client, work)


# --- a release that is there already --------------------------------------------------------------


def test_a_release_that_is_there(client):
    made = tried(client)
    name = made.released.name
    for given in (name, str(made.released), f"{name}.json"):
        work = opened(client, given)
        assert (work.plan, work.table, work.made) == (None, None, None)
        page = shown(client, work)
        assert "Findings" in page
        assert "Download the report" not in page
        assert part(client, work, "/ask", {"confidence": "0.8", "errors": "HC2"})[0] == 200
    assert name in client.get("/open").text
    assert f"the release {name}" in client.get("/").text
    assert name not in client.post("/open/release", {"path": name}).headers["location"]


def opened(client, path):
    answer = client.post("/open/release", {"path": path})
    assert answer.status_code == 303, answer.text
    return client.desk.works[answer.headers["location"].split("/")[3]]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "Name the table"),
        ("none.csv", "no such file"),
        ("..", "no such file"),
        ("table.csv", "document"),
        ("~nobody/z.csv", "no such file"),
        ("n" * 5000 + ".csv", "no such file"),
        ("/dev/null", "no such"),
    ],
)
def test_what_is_no_release(client, path, words):
    (client.folder / "table.csv").write_text("a,b\n1,2\n")
    answer = client.post("/open/release", {"path": path})
    assert answer.status_code == 422
    assert words in unescape(answer.text)
    assert client.desk.works == {}


def test_a_table_that_was_changed_or_is_gone(client):
    work = tried(client)
    shown(client, work)
    table = work.released
    table.write_text(table.read_text().replace("1", "2"))
    for answer in (client.get(url(work)), client.post("/open/release", {"path": table.name})):
        assert answer.status_code == 422
        assert "was changed or replaced" in unescape(answer.text)
    table.unlink()
    assert client.get(url(work)).status_code == 422


def test_names_of_others_are_shown_as_text(client):
    table = {"<b>x</b>": np.linspace(0, 1, 60), "<i>y": np.sin(np.arange(60.0))}
    plan = make_plan(
        Spec(data="a", model=Model("<i>y", ("<b>x</b>",)), privacy=Privacy(4.0)), table
    )
    work = released(client, client.desk.begin(), plan, table)
    text = client.get(url(work)).text
    assert "<b>x" not in text
    assert "<i>y" not in text
    assert "&lt;b&gt;x" in text


def test_nothing_is_read_but_the_release(client, monkeypatch):
    """The table of the data may be gone: results do not need it."""
    work = of_people(client)
    assert work.table is None
    monkeypatch.setattr("privest.workflow.rows.open_source", None, raising=False)
    assert "Findings" in shown(client, work)
