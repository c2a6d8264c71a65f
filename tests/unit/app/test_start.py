"""Start: what is on the desk, plans that are opened, and what is left at the end."""

import re

import pytest

import privest.app
from app_client import Client, errors, fields_of
from privest.app import Desk
from privest.app.desk import MOST_WORKS, PREFIX
from privest.errors import InvalidInput
from privest.workflow.plan import make_plan
from privest.workflow.spec import Privacy, load_spec, save_spec
from workflow_tables import people, spec, write


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def test_first_page(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "Start a release" in page.text
    assert client.desk.session not in page.text


def test_works_are_listed_and_cleared(client):
    work = client.planned()
    assert work.title in client.get("/").text
    page = client.follow(client.post(f"/work/{work.id}/clear"))
    assert page.status_code == 200
    assert work.title not in page.text
    assert client.desk.works == {}
    assert client.post(f"/work/{work.id}/clear").status_code == 404


def test_desk_is_not_endless(client):
    for _ in range(MOST_WORKS):
        client.desk.begin()
    with pytest.raises(InvalidInput, match="clear one away"):
        client.desk.begin()


def test_private_folder_is_removed_at_the_end_and_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = Desk(tmp_path)
    left = killed.private_file(".csv")
    assert (left.stat().st_mode & 0o777, killed.private.stat().st_mode & 0o777) == (0o600, 0o700)
    other = Desk(tmp_path)
    assert left.exists()  # its app runs
    killed._alive.close()  # what the system does when a process is killed
    third = Desk(tmp_path)
    assert not killed.private.exists()
    assert other.private.exists()
    other.close()
    third.close()
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_folder_must_be_there(tmp_path):
    with pytest.raises(InvalidInput, match="no folder"):
        Desk(tmp_path / "nowhere")


def test_no_mathematics_in_the_app():
    folder = next(iter(privest.app.__path__))
    from pathlib import Path

    modules = sorted(Path(folder).glob("*.py"))
    assert len(modules) > 4
    for module in modules:
        found = re.findall(r"^\s*(?:import|from)\s+(numpy|scipy|math)\b", module.read_text(), re.M)
        assert not found, f"{module.name} imports {found}"


# --- plans ----------------------------------------------------------------------------------------

ENDS = {"ldl": (-50.0, 50.0)}
PLANS = {
    "a level": {"privacy": Privacy(2.0, delta=1e-6, range=ENDS, form="rows")},
    "ε and a formula": {
        "privacy": Privacy(epsilon=2.0, delta=1e-6, range=ENDS, form="rows"),
        "formula": "ldl ~ age*C(sex)", "target": (), "features": (),
    },
    "a logarithm": {
        "transform": "log", "privacy": Privacy(2.0, range={"ldl": (0.01, 99.0)}, form="rows"),
    },
    "sums": {"privacy": Privacy(epsilon=2.0, range=ENDS, form="aggregate", publish="matrix")},
    "sums of differences": {
        "privacy": Privacy(epsilon=2.0, range=ENDS, form="aggregate", within=9.0, pilot=0.2),
    },
    "sums with their exposure": {"privacy": Privacy(0.01, range=ENDS, form="aggregate")},
    "Laplace": {"privacy": Privacy(epsilon=1.0, range=ENDS, distribution="laplace", form="rows")},
}  # fmt: skip


def saved(folder, **changes):
    write(people(80), folder / "people.csv")
    save_spec(spec(str(folder / "people.csv"), **changes), folder / "plan.toml")
    return folder / "plan.toml"


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("how", ["path", "sent"])
def test_a_plan_is_opened_and_its_columns_say_the_same(client, tmp_path, kind, how):
    plan = saved(tmp_path, **PLANS[kind])
    if how == "path":
        answer = client.post("/plan", {"plan_path": "plan.toml"})
    else:
        table = (tmp_path / "people.csv").read_bytes()
        files = {"plan": ("plan.toml", plan.read_bytes()), "data": ("people.csv", table)}
        answer = client.post("/plan", files=files)
    work = client.work_of(answer)
    assert answer.headers["location"].endswith("/privacy")
    wanted = make_plan(load_spec(plan))
    assert work.plan.names == wanted.names
    assert work.plan.standard_error.tolist() == wanted.standard_error.tolist()
    before = work.plan
    page = client.get(f"/work/{work.id}/data")  # and on, without a change
    answer = client.post(f"/work/{work.id}/data", fields_of(page, "/data"))
    assert answer.status_code == 303, errors(answer)
    assert work.plan.standard_error.tolist() == before.standard_error.tolist()
    assert work.plan.spec.privacy == before.privacy


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"privacy": Privacy(2.0, form="rows")}, "without a range"),
        ({"privacy": Privacy(level_column="w", form="rows")}, "a level for each row"),
        (
            {"privacy": Privacy(2.0, range=ENDS, delta=1e-6, sensitivity=1.0, form="rows")},
            "a stated sens",
        ),
    ],
)
def test_plans_for_the_command_line_are_said_to_be(client, tmp_path, changes, said):
    saved(tmp_path, **changes)
    answer = client.post("/plan", {"plan_path": "plan.toml"})
    assert answer.status_code == 422
    assert said in errors(answer)["plan"]
    assert client.desk.works == {}


def test_a_plan_that_is_none_or_has_no_table(client, tmp_path):
    (tmp_path / "bad.toml").write_text("version = 4")
    for given in ({}, {"plan_path": "nowhere.toml"}, {"plan_path": "bad.toml"}):
        answer = client.post("/plan", given)
        assert (answer.status_code, list(errors(answer))) == (422, ["plan"])
    plan = saved(tmp_path, **PLANS["a level"])
    (tmp_path / "people.csv").rename(tmp_path / "other.csv")
    answer = client.post("/plan", files={"plan": ("plan.toml", plan.read_bytes())})
    assert "choose that file too" in errors(answer)["data"]
    assert client.desk.works == {}
    answer = client.post("/plan", {"plan_path": "plan.toml", "data_path": "other.csv"})
    assert client.work_of(answer).table.name == "other.csv"
