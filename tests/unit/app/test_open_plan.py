"""A plan that is there already: from its place, or sent; with its table, or in words why not."""

from dataclasses import replace

import pytest

from along_cases import CASES
from app_client import Client
from privest.app._along import Along
from privest.workflow import make_plan
from privest.workflow._commands import Steps


@pytest.fixture
def client(tmp_path):
    (tmp_path / "out").mkdir()
    found = Client(tmp_path / "out")
    yield found
    found.close()


def plan_of(case, folder):
    """A plan file beside its table, as it was taken along."""
    spec = CASES[case](folder)
    (folder / "plan.toml").write_text(Along(spec, Steps()).plan, encoding="utf-8")
    return spec


def the_work(client, answer):
    assert answer.status_code == 303, answer.text
    (work,) = client.desk.works.values()
    assert answer.headers["location"].endswith(f"/work/{work.id}/privacy")
    return work


def require_plan(work, spec, file):
    """The very numbers."""
    wanted = make_plan(spec, file)
    found = replace(work.spec, reading=spec.reading)
    assert found == spec
    assert work.reading.separator in (spec.reading.separator, ",")  # which is found
    assert work.plan.privacy_error.tolist() == wanted.privacy_error.tolist()


def test_from_its_place_with_the_table_beside_it(client, tmp_path):
    spec = plan_of("messy", tmp_path)
    work = the_work(client, client.post("/plan", {"plan_path": str(tmp_path / "plan.toml")}))
    require_plan(work, spec, tmp_path / spec.data)
    assert work.table.own is False
    client.desk.clear(work)
    assert (tmp_path / spec.data).exists()  # a file of the user stays


def test_both_are_sent(client, tmp_path):
    spec = plan_of("messy", tmp_path)
    files = {
        "plan": ("C:\\up\\plan.toml", (tmp_path / "plan.toml").read_bytes()),
        "data": (f"../{spec.data}", (tmp_path / spec.data).read_bytes()),
    }
    work = the_work(client, client.post("/plan", files=files))
    require_plan(work, spec, tmp_path / spec.data)
    assert work.table.path.parent == client.desk.private
    client.desk.clear(work)
    assert [one.name for one in client.desk.private.iterdir()] == ["alive"]


def test_of_the_embedded_table(client, tmp_path):
    spec = plan_of("embedded", tmp_path)
    files = {"plan": ("plan.toml", (tmp_path / "plan.toml").read_bytes())}
    require_plan(the_work(client, client.post("/plan", files=files)), spec, None)


@pytest.mark.parametrize(
    ("form", "files", "words"),
    [
        ({}, None, "Choose a plan file"),
        ({"plan_path": "nowhere.toml"}, None, "There is no such file"),
        ({"plan_path": "~nobody-of-this-name/plan.toml"}, None, "There is no such file"),
        ({"plan_path": "x" * 5000 + ".toml"}, None, "There is no such file"),
        ({"plan_path": "/etc"}, None, "There is no such file"),
        ({}, {"plan": ("plan.txt", b"a = 1")}, "a plan file ends with"),
        ({}, {"plan": ("plan.toml", b"\xff\x00")}, "not UTF-8"),
        ({}, {"plan": ("plan.toml", b"data = 3")}, "privacy"),
        ({}, {"plan": ("plan.toml", b"#" * (1 << 22))}, "too large"),
        ({}, {"plan": "PLAN"}, "The plan is about Über uns (1).csv"),
        ({"data_path": "other.csv"}, {"plan": "PLAN"}, "There is no such file"),
        ({"data_path": "y" * 5000 + ".csv"}, {"plan": "PLAN"}, "There is no such file"),
        ({}, {"plan": "PLAN", "data": ("a.exe", b"")}, "a table can be"),
        ({}, {"plan": "PLAN", "data": ("a.csv", b"a,b\n1,2\n")}, "a.csv has no column"),
    ],
)
def test_what_does_not_go_is_said(client, tmp_path, form, files, words):
    plan_of("messy", tmp_path)
    sent = ("plan.toml", (tmp_path / "plan.toml").read_bytes())
    files = files and {name: sent if one == "PLAN" else one for name, one in files.items()}
    answer = client.post("/plan", form, files=files)
    assert answer.status_code == 422
    assert words in answer.text
    assert 'role="alert"' in answer.text
    assert 'name="plan_path"' in answer.text
    assert client.desk.works == {}
    assert [one.name for one in client.desk.private.iterdir()] == ["alive"]


def test_a_plan_with_a_level_column_is_for_the_command_line(client, tmp_path):
    plan_of("levels", tmp_path)
    answer = client.post("/plan", {"plan_path": str(tmp_path / "plan.toml")})
    assert answer.status_code == 422
    assert "with a level column are for the command line" in answer.text.replace("\n", " ")


@pytest.mark.parametrize("case", [case for case in CASES if case != "levels"])
def test_the_data_screen_says_the_same(client, tmp_path, case):
    """Sent as it is shown it states the same plan, at the same level."""
    spec = plan_of(case, tmp_path)
    work = the_work(client, client.post("/plan", {"plan_path": str(tmp_path / "plan.toml")}))
    page = client.get(f"/work/{work.id}/data")
    assert page.status_code == 200
    if case == "formula":
        return  # the screen has no formulas
    form = client.desk.works[work.id].typed
    before = work.plan
    answer = client.post(f"/work/{work.id}/data", {name: list(one) for name, one in form.items()})
    if spec.privacy.range is None and case != "yes":
        assert answer.status_code == 422
        assert "needs its public range" in answer.text
    else:
        assert answer.status_code == 303, answer.text
        assert work.plan is before  # also of a yes or no, whose range is now stated
        assert replace(work.spec, privacy=before.spec.privacy) == before.spec


def test_its_page(client):
    assert "Open a plan" in client.get("/").text
    assert client.get("/plan").status_code == 200
