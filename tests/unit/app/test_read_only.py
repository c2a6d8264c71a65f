"""`privest app --read-only`: no route releases, charges or writes to the folder, whatever it gets.

The same requests, sent to an app that is not read-only, do all of that: so they would show it.
"""

import pytest
from starlette.routing import Route

from app_walk import Watched, released, snapshot, walk
from privest.app import job as jobs
from privest.app import make_app
from privest.workflow import Account, Privacy, release


class Everything:
    """A desk with one of each, and what would do the most at every address that takes a form."""

    def __init__(self, client):
        self.client, self.work = client, client.planned()
        self.sent = {
            "begin": {"example": "yes"}, "clear": {}, "opened_plan": {"plan_path": "plan.toml"},
            "data_written": {}, "data_done": {},
            "privacy_done": {"then": "go", "epsilon": "4"}, "privacy_numbers": {"epsilon": "3"},
            "release_look": {"name": "r.csv"}, "release_make": self.ticket,
            "release_dry": {}, "release_stop": {}, "results_mean": {"at-0": "1"},
            "open_release": {"path": "older.csv"},
        }  # fmt: skip

    def ticket(self):
        word = jobs.new_ticket(self.work, self.work.plan)
        return {
            "ticket": word, "sure": "yes", "name": "r.csv", "subject": "s5", "limit": "900",
            "again": "yes",
        }  # fmt: skip

    def place(self, route):
        """The address of a route, of the work."""
        ids = {"key": self.client.desk.key, "what": "all", "id": self.work.id, "number": "x"}
        names = [name for name in ids if f"{{{name}}}" in route.path]
        return route.url_path_for(route.name, **{name: ids[name] for name in names})

    def go(self, route):
        """Send the most that it takes; what clears things away comes last."""
        place = str(self.place(route))
        if "POST" not in route.methods:
            return self.client.get(place)
        fields = self.sent[route.name]
        return self.client.post(place, fields() if callable(fields) else fields)


def routes(client):
    found = [one for one in make_app(client.desk).routes if isinstance(one, Route)]
    last = ("data_", "clear")
    return sorted(found, key=lambda one: (one.name.startswith(last), one.name))


def with_an_older_release(client):
    """A folder that has a release and a ledger already."""
    others = {"target": "bmi", "features": ("age",), "privacy": Privacy(level=1.0, form="rows")}
    work = client.planned(**others)
    with Account(client.desk.ledger, "older", 9.0) as account:
        release(work.plan, client.desk.folder / "older.csv", account=account)
    client.desk.clear(work)


@pytest.fixture
def client(tmp_path, request):
    found = Watched(tmp_path, read_only=request.param)
    with_an_older_release(found)
    yield found
    found.close()


@pytest.mark.parametrize("client", [True], indirect=True)
def test_no_route_writes_anything(client):
    before = snapshot(client.desk.folder)
    every = Everything(client)
    for route in routes(client):
        answer = every.go(route)
        assert answer.status_code < 500, route.name
        assert snapshot(client.desk.folder) == before, route.name
    assert every.work.released is None
    client.desk.close()  # whatever still ran
    assert snapshot(client.desk.folder) == before


@pytest.mark.parametrize("client", [True], indirect=True)
def test_no_page_leads_to_a_release(client):
    before = snapshot(client.desk.folder)
    work = client.planned()
    seen = walk(client, f"/work/{work.id}/privacy", leave_out=("/clear", "/data"))
    assert ("get", client.path(f"/work/{work.id}/release")) in seen
    assert not any("release/make" in place for _, place in seen)
    assert snapshot(client.desk.folder) == before
    page = client.get(f"/work/{work.id}/release")
    assert "read-only" in page.text


@pytest.mark.parametrize("client", [False], indirect=True)
def test_the_same_requests_do_release_where_that_is_allowed(client):
    before = set(snapshot(client.desk.folder))
    every = Everything(client)
    named = {route.name: route for route in routes(client)}
    assert set(every.sent) == {name for name, one in named.items() if "POST" in one.methods}
    assert every.go(named["release_make"]).status_code == 303
    released(client, every.work)
    client.desk.close()
    assert {"r.csv", "r.csv.json"} <= set(snapshot(client.desk.folder)) - before
