"""Start: what is on the desk, and what is left at the end."""

import os
import re

import pytest

import privest.app
from app_client import Client
from privest.app import Desk
from privest.app.desk import MOST_WORKS, PREFIX
from privest.errors import InvalidInput


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
    fourth = Desk(tmp_path)
    assert left.exists()  # it is new: its app may not have locked it yet
    os.utime(killed.private, (0, 0))
    third = Desk(tmp_path)
    assert not killed.private.exists()
    assert other.private.exists()
    for desk in (other, third, fourth):
        desk.close()
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
