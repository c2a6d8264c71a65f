"""Results: from the release alone; means of groups, history of the account, export."""

import contextlib
import io
import json
import re
import zipfile
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import privest.app.results as screen
from app_client import Client, errors, words
from app_release import made as released
from privest.app.tables import Table
from privest.report.numbers import value as rounded
from privest.workflow import Spec
from privest.workflow.document import document_path
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Model, Privacy, Public, load_spec
from workflow_tables import people, spec, write

ENDS = {"ldl": (-50.0, 50.0)}


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


def url(work, rest=""):
    return f"/work/{work.id}/results{rest}"


def of_people(client, table=None, **changes):
    """A work with a simulated release of made-up people."""
    data = table or people(200)
    plan = make_plan(spec(**changes), data)
    return _kept(client, plan, data)


def _kept(client, plan, data):
    work = client.desk.begin()
    ending = "json" if plan.splits else "csv"
    work.released = client.folder / f"r-{work.id.strip('-_')}.{ending}"
    simulate_release(plan, work.released, simulation_source(plan, 3), data)
    work.made = plan
    return work


def shown(client, work):
    answer = client.get(url(work))
    assert answer.status_code == 200, words(answer)
    return unescape(answer.text).replace("\xa0", " ")


def test_the_finding_comes_first_then_table_chart_details_export(client):
    work = of_people(client)
    page, found = shown(client, work), estimate(work.released)
    title = re.search(r'<h1 class="finding">(.*?)</h1>', page)[1]
    assert "95% interval" in title
    order = ["Coefficients", "Intervals", "Details", "Export"]
    assert sorted(order, key=lambda one: page.index(f">{one}</h2>")) == order
    for text in ("What privacy cost", "What one person is exposed to", "Limits of the promise",
                 "Which release this is", found.release.checksum):  # fmt: skip
        assert text in page, text
    assert rounded((found.value[1], found.standard_error[1])) in page
    assert page.count("<h1") == 1
    assert "style=" not in page
    assert len(set(re.findall(r'\bid="([^"]+)"', page))) == len(re.findall(r'\bid="([^"]+)"', page))


def test_without_a_release_there_is_none(client):
    work = client.planned()
    assert client.get(url(work)).headers["location"].endswith("/release")
    assert client.post(url(work, "/mean")).status_code == 404
    assert client.get(f"/work/{work.id}/export/report").status_code == 404


def test_estimates_are_made_once(client, monkeypatch):
    work, made, own = of_people(client), [], screen.estimate
    monkeypatch.setattr(screen, "estimate", lambda *a: made.append(a) or own(*a))
    for _ in range(3):
        shown(client, work)
    assert len(made) == 1


# --- the mean of a group --------------------------------------------------------------------------


def test_a_mean_in_units_of_the_file(client):
    table = people(300) | {"ldl": np.exp(people(300)["ldl"])}
    work = of_people(
        client,
        table,
        transform="log",
        privacy=Privacy(2.0, range={"ldl": (1e-3, 1e3)}, form="rows"),
    )
    page = shown(client, work)
    assert re.findall(r'<label for="at-\d+">(.*?)</label>', page) == ["age", "bmi", "sex"]
    assert "Change of “ldl” for one unit more" in page  # in percent for a logarithm
    row = {"age": 50.0, "bmi": 27.5, "sex": "male"}
    mean = estimate(work.released).predict(row)
    size = float(np.ptp(mean.interval)) / 4
    given = {"at-0": "50", "at-1": "27,5", "at-2": "male"}
    text = words(client.follow(client.post(url(work, "/mean"), given)))
    assert f"has median {rounded((mean.value[0], size))} there" in text
    assert work.asked == [row]
    for k in range(10):
        client.post(url(work, "/mean"), given | {"at-0": str(k)})
    assert len(work.asked) == screen.MOST_ROWS
    client.post(url(work, "/mean"), {"clear": "yes"})
    assert work.asked == []


def test_a_mean_from_a_matrix_of_sums_says_what_it_assumes(client):
    work = of_people(client, people(600), privacy=replace(SUMS, epsilon=9.0, publish="matrix"))
    assert "same variance" not in shown(client, work)
    row = {"at-0": "50", "at-1": "27", "at-2": "male"}
    page = words(client.follow(client.post(url(work, "/mean"), row)))
    assert "assume that all residuals have the same variance" in page


def test_values_that_are_none_are_all_said_beside_their_fields(client):
    work = of_people(client)
    answer = client.post(url(work, "/mean"), {"at-0": "", "at-1": "old", "at-2": "other"})
    assert answer.status_code == 422
    assert set(errors(answer)) == {"at-0", "at-1", "at-2"}
    assert 'value="old"' in answer.text  # what was typed is there again
    assert work.asked == []


def test_yes_or_no_has_effects_and_no_means(client):
    table = people(2000)
    table["sick"] = (np.random.default_rng(2).uniform(size=2000) < 0.4).astype(float)
    work = of_people(
        client, table, target="sick", family="binomial", public=Public(),
        privacy=Privacy(epsilon=2.0, form="rows"),
    )  # fmt: skip
    page = shown(client, work)
    assert "odds" in page
    assert 'id="at-0"' not in page
    assert client.post(url(work, "/mean"), {"at-0": "1"}).status_code == 422


SUMS = Privacy(epsilon=1.0, range=ENDS, form="aggregate")
KINDS = {
    "weights": {"weights": "w", "privacy": Privacy(2.0, range=ENDS, form="rows")},
    "laplace": {"privacy": Privacy(epsilon=1.0, range=ENDS, distribution="laplace", form="rows")},
    "counts": {"target": "visits", "family": "poisson", "public": Public(),
               "privacy": Privacy(2.0, range={"visits": (0.0, 9.0)}, form="rows")},
    "yes or no": {"target": "sick", "family": "binomial", "public": Public(),
                  "privacy": Privacy(epsilon=3.0, form="rows")},
    "sums": {"privacy": SUMS},
    "sums, no residual variance": {"privacy": SUMS, "public": Public()},
    "a mean": {"privacy": SUMS, "features": (), "categories": {}},
    "sums of persons": {"person": "who", "privacy": SUMS},
    "sums of yes or no": {"target": "sick", "family": "binomial", "public": Public(),
                          "privacy": Privacy(epsilon=9.0, form="aggregate")},
}  # fmt: skip


TABLES = {"rows": {"table"}, "aggregate": set()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_path_of_every_kind_of_plan(client, tmp_path, kind):
    """From the release screen to the results: a real release of each."""
    table = people(120) | {"w": np.linspace(1, 2, 120), "who": np.arange(120) // 2}
    table |= {"visits": np.arange(120) % 4, "sick": np.arange(120) % 3 % 2}
    work = client.desk.begin()
    file = write(table, tmp_path / "people.csv")
    work.table = Table("people.csv", file)
    work.plan = make_plan(spec("people.csv", **KINDS[kind]), str(file))
    assert released(client, work).trouble is None
    page = words(shown(client, work))
    assert "History of" in page
    assert "0% left" in page
    offered = set(re.findall(r"/export/(\w+)", shown(client, work)))
    assert (
        offered == {"document", "report", "script", "plan", "all"} | TABLES[work.plan.privacy.form]
    )
    for what in ("table", "document", "report", "script", "plan", "all"):
        status = 200 if what in offered else 404
        assert client.get(f"/work/{work.id}/export/{what}").status_code == status, what


# --- the account ----------------------------------------------------------------------------------


def test_history_has_every_release_and_what_is_left(client):
    work = client.planned(
        privacy=Privacy(epsilon=1.0, delta=1e-6, range={"s5": (2.0, 7.0)}, form="rows")
    )
    released(client, work, limit="2")
    released(client, work, again="yes")
    page = shown(client, work)
    table = page.split('aria-label="Releases of the account"')[1].split("</table>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", one) for one in table.split("<tr>")[2:]]
    assert [row[1] for row in rows] == ["s5-release-2.csv (this one)", "s5-release.csv"]
    assert [row[3] for row in rows] == ["28%", "28%"]
    assert "44% left" in words(page)
    assert "Still possible: one release at ε = 1.2" in words(page)


def test_without_the_ledger_there_is_no_history(client):
    assert "History of" not in shown(client, of_people(client))


# --- export ---------------------------------------------------------------------------------------


def run(code):
    """A script, in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "estimate.py", "exec"), {})
    return out.getvalue()


def test_the_archive_repeats_the_results_elsewhere(client, tmp_path, monkeypatch):
    work = client.planned(
        privacy=Privacy(epsilon=30.0, delta=1e-6, range={"s5": (2.0, 7.0)}, form="rows")
    )
    released(client, work)
    answer = client.get(f"/work/{work.id}/export/all")
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert set(archive.namelist()) == {
        "s5-release.csv", "s5-release.csv.json", "report.html", "estimate.py", "plan.toml",
    }  # fmt: skip
    elsewhere = tmp_path / "elsewhere"
    archive.extractall(elsewhere)
    monkeypatch.chdir(elsewhere)
    text = run((elsewhere / "estimate.py").read_text())
    assert "not examined: " in text  # the ledger is not there
    found = estimate(work.released)
    for x in (*found.value.tolist(), *found.interval().ravel().tolist()):
        assert repr(x) in text
    assert load_spec(elsewhere / "plan.toml").privacy == work.plan.spec.privacy
    report = (elsewhere / "report.html").read_text()
    assert "Findings" in report
    document = json.loads(document_path(elsewhere / "s5-release.csv").read_text())
    assert document["checksum"] == found.release.checksum
    again = client.get(f"/work/{work.id}/export/all").content
    assert again == answer.content  # the same work gives the same bytes
    assert [one.name for one in client.desk.private.iterdir()] == ["alive"]


def test_a_release_that_was_changed_says_so(client, tmp_path, monkeypatch):
    work = of_people(client)
    table = client.get(f"/work/{work.id}/export/table")
    assert table.content == work.released.read_bytes()
    assert "attachment" in table.headers["content-disposition"]
    work.released.write_text(work.released.read_text().replace("1", "2"))
    answer = client.get(url(work))
    assert answer.status_code == 422
    assert "was changed or replaced" in words(answer)
    work.released.unlink()
    assert client.get(url(work)).status_code == 422
    assert client.get(f"/work/{work.id}/export/table").status_code == 404


# --- a release that is there already --------------------------------------------------------------


def test_names_of_others_are_shown_as_text(client):
    table = {"<b>x</b>": np.linspace(0, 1, 60), "<i>y": np.sin(np.arange(60.0))}
    stated = Spec(data="a", model=Model("<i>y", ("<b>x</b>",)), privacy=Privacy(4.0, form="rows"))
    work = _kept(client, make_plan(stated, table), table)
    text = client.get(url(work)).text
    assert "<b>x" not in text
    assert "<i>y" not in text
    assert "&lt;b&gt;x" in text


# --- a release that is in the folder already ------------------------------------------------------


def test_a_release_of_the_folder_is_read_again(client):
    made = of_people(client)
    assert made.released.name in client.get("/").text
    work = client.work_of(client.post("/release", {"name": made.released.name}))
    assert (work.plan, work.table, work.made) == (None, None, None)
    assert "dry run without protection" in shown(client, work)
    assert client.get(f"/work/{work.id}/export/script").status_code == 200
    assert client.get(f"/work/{work.id}/export/all").status_code == 200
    assert client.get(f"/work/{work.id}/export/plan").status_code == 404


@pytest.mark.parametrize("name", ["", "none.csv", "..", "table.csv", "n" * 5000, "/dev/null"])
def test_what_is_no_release_of_the_folder(client, name):
    (client.folder / "table.csv").write_text("a,b\n1,2\n")
    answer = client.post("/release", {"name": name})
    assert answer.status_code == 422
    assert "not in the folder" in answer.text
    assert client.desk.works == {}
