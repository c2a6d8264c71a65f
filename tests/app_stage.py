"""The app in-process with pieces of work in every state, for tests that try all routes."""

import re

from app_client import HOST, Client
from app_forms import FoundForm
from app_fuzz import harvested
from app_messy import SENTINELS, messy
from app_release import ended
from privest.workflow.account import Account
from privest.workflow.release import release
from privest.workflow.spec import Privacy

LONGEST = 20_000  # characters of an address that a browser sends


class Stage:
    """`places`: every address that can be asked for; `forms`: every form that can be sent.

    quick  without results.
    """

    def __init__(self, folder, *, quick=False):
        self.quick, self.client = quick, Client(folder)
        self.client.http._transport.raise_server_exceptions = False
        self.set()

    sentinels = SENTINELS

    def set(self):
        """Pieces of work again, where a form cleared them away."""
        client, desk = self.client, self.client.desk
        for work in list(desk.works.values()):
            if work.job is not None:
                ended(work)
            desk.clear(work)
        for old in desk.folder.glob("staged-*"):  # an account reads every header of its folder
            old.unlink()
        sums = Privacy(epsilon=1.0, range={"s5": (2.0, 7.0)}, form="aggregate")
        self.works = [desk.begin(), client.planned(), self._sent(), client.planned(privacy=sums)]
        if not self.quick:  # its pages have pictures, which take their time
            self.works += [self._released(self.works[1]), self._released(self.works[3])]
        self.forms = self._all_forms()

    def _released(self, like):
        """A work with a release, so that there are results; some other of it is fuzzed away."""
        work = self.client.planned(privacy=like.plan.privacy)
        ending = {"rows": "csv", "aggregate": "json"}[work.plan.privacy.form]
        with Account(self.client.desk.ledger, "staged", again=True, budget=1e6) as account:
            name = f"staged-{work.id.strip('-_')}.{ending}"
            path = self.client.desk.folder / name
            release(work.plan, path, account=account)
        work.released, work.made = path, work.plan
        return work

    def _sent(self):
        """A work with a messy table of the user, whose columns screen is done."""
        work = self.client.begun(messy(), "messy.csv", private=5)
        roles = {"role-1": "public", "role-2": "public", "role-3": "public", "role-5": "private"}
        more = {"list-2": "alt\nneu\nohne", "known": "yes", "low-5": "0", "high-5": "10",
                "codes-3": "0", "codes": "Marker=k.A.", "gaps": "drop"}  # fmt: skip
        answer = self.client.post(f"/work/{work.id}/data", roles | more)
        assert answer.status_code == 303, answer.text
        return work

    @property
    def routes(self):
        """(method, path with names, name) of everything but static files."""
        return [
            (method, route.path, route.name)
            for route in self.client.http.app.routes
            for method in sorted(getattr(route, "methods", None) or ())
        ]

    def places(self, method):
        """Every path of a method, for each piece of work."""
        found = {}
        for work in self.works:
            known = {"key": self.client.desk.key, "id": work.id}
            for way, path, _ in self.routes:
                if way == method:
                    found[re.sub(r"\{(\w+)[^}]*\}", lambda m, k=known: k.get(m[1], "x"), path)] = 1
        return list(found)

    def _all_forms(self):
        """Those of pages, and a bare one for each route that no page shows now."""
        found = harvested(self.client, self.places("GET"))
        for method in ("get", "post"):
            for place in self.places(method.upper()):
                if (method, place) not in found:
                    sent = [("csrf", self.client.desk.csrf)] if method == "post" else []
                    fields = sorted({name for forms in found.values() for one in forms
                                     for name in one.fields})  # fmt: skip
                    found[method, place] = [FoundForm(place, method, False, sent, fields)]
        return found

    def route_of(self, where):
        """The name of the route of (method, path)."""
        for method, path, name in self.routes:
            pattern = re.sub(r"\\\{[^}]*\}", "[^/]+", re.escape(path))
            if method == where[0].upper() and re.fullmatch(pattern, where[1].partition("?")[0]):
                return f"{method} {name}"
        return f"{where[0]} {where[1]}"

    def send(self, form, **arguments):
        """As a page of the app would."""
        headers = {"origin": f"http://{HOST}"} | arguments.pop("headers", {})
        if form.method == "get":
            query = arguments.get("content", b"").decode()[:LONGEST]
            sign = "&" if "?" in form.action else "?"
            return self.client.http.get(f"{form.action}{sign}{query}", headers=headers)
        return self.client.http.post(form.action, headers=headers, **arguments)

    def close(self):
        self.client.close()
