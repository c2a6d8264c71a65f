"""A browser without a window: the app in-process, with its cookie, its origin and its forms."""

from __future__ import annotations

import re
import tempfile
from html import unescape
from pathlib import Path

from app_forms import forms_of
from privest.app import Desk, make_app
from privest.workflow import Spec
from privest.workflow.plan import make_plan
from privest.workflow.spec import Model, Privacy, Public

HOST = "127.0.0.1:8800"


def spec_of(**changes):
    """A plan of the embedded table with some fields of Spec or Model changed."""
    found = {
        "data": "diabetes",
        "target": "s5",
        "features": ("age", "sex", "bmi", "bp"),
        "public": Public(0.2),
        "privacy": Privacy(level=4.0, delta=1e-6, range={"s5": (2.0, 7.0)}, form="rows"),
    } | changes
    whole = ("data", "public", "privacy", "format")
    own = {name: found.pop(name) for name in whole if name in found}
    return Spec(model=Model(**found), **own)


def words(answer):
    """What a reader sees of a page or part."""
    text = answer if isinstance(answer, str) else answer.text
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


def errors(answer):
    """What is said beside the fields, by field."""
    found = re.findall(r'<span class="check bad" id="([^"]*)-error">(.*?)</span>', answer.text)
    return {name: unescape(text) for name, text in found}


def fields_of(page, ending):
    """What the form of a page that goes to this address sends as it stands."""
    text = page if isinstance(page, str) else page.text
    (form,) = [one for one in forms_of(text) if one.action.endswith(ending)]
    found = {}
    for name, value in form.sent:
        found.setdefault(name, []).append(value)
    return found


class Client:
    """One browser with one tab, in an app of its own (or of a desk that is given)."""

    def __init__(self, folder=None, desk=None, **options):
        from starlette.testclient import TestClient

        self.folder = Path(tempfile.mkdtemp() if folder is None else folder)
        self.desk = Desk(self.folder, **options) if desk is None else desk
        self.desk.hosts = frozenset({HOST})
        self.http = TestClient(
            make_app(self.desk), base_url=f"http://{HOST}", follow_redirects=False,
            raise_server_exceptions=True,
        )  # fmt: skip
        self.http.get("/", params={"token": self.desk.new_token()})

    def path(self, rest):
        return rest if rest.startswith(f"/{self.desk.key}") else f"/{self.desk.key}{rest}"

    def get(self, rest, **options):
        return self.http.get(self.path(rest), **options)

    def post(self, rest, data=None, files=None, **options):
        fields = {"csrf": self.desk.csrf} | (data or {})
        headers = {"origin": f"http://{HOST}"} | options.pop("headers", {})
        return self.http.post(self.path(rest), data=fields, files=files, headers=headers, **options)

    def follow(self, answer):
        """The page that a form leads to."""
        assert answer.status_code == 303, answer.text
        return self.get(answer.headers["location"])

    def begun(self, content, name="people.csv", private=None):
        """A piece of work on a file that is sent, whose private column is that of this place."""
        raw = content if isinstance(content, bytes) else content.encode()
        work = self.work_of(self.post("/begin", files={"table": (name, raw)}))
        if private is not None:
            answer = self.post(f"/work/{work.id}/data/private", {"private": str(private)})
            assert answer.status_code == 303, answer.text
        return work

    def work_of(self, answer):
        """The piece of work that a form led to."""
        assert answer.status_code == 303, answer.text
        return self.desk.works[re.search(r"/work/([^/]+)/", answer.headers["location"])[1]]

    def planned(self, **changes):
        """A piece of work whose columns screen is done, on the embedded table."""
        from privest.app.tables import Table

        work, spec = self.desk.begin(), spec_of(**changes)
        work.table, work.plan = Table("diabetes"), make_plan(spec)
        return work

    def close(self):
        self.http.close()
        self.desk.close()
