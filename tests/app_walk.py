"""A walk through the app: a client that keeps every answer, and goes where pages lead."""

from app_client import Client
from app_forms import forms_of
from app_release import ended


class Watched(Client):
    """A browser that keeps all it is sent."""

    def __init__(self, *given, **options):
        self.answers = []
        super().__init__(*given, **options)

    def get(self, rest, **options):
        return self._kept(super().get(rest, **options))

    def post(self, rest, *given, **options):
        return self._kept(super().post(rest, *given, **options))

    def _kept(self, answer):
        self.answers.append(answer)
        return answer


def released(client, work):
    """Wait until the release or dry run that is under way has ended."""
    job = ended(work)
    assert job.trouble is None, job.trouble
    return job


def walk(client, first, leave_out=(), most=80):
    """Every page that is reached from `first` by links, and every form as it stands, once."""
    seen, waiting = set(), [("get", client.path(first), ())]
    while waiting and len(seen) < most:
        method, place, fields = waiting.pop(0)
        if (method, place) in seen or any(word in place for word in leave_out):
            continue
        seen.add((method, place))
        if method == "get":
            answer = client.get(place, params=dict(fields))
        else:
            answer = client.post(place, _as_dict(fields))
        assert answer.status_code < 500, (method, place)
        if answer.status_code == 303:
            waiting.append(("get", answer.headers["location"], ()))
        elif "text/html" in answer.headers.get("content-type", ""):
            if "content-disposition" in answer.headers:
                continue
            waiting += [
                (one.method, one.action, tuple(one.sent))
                for one in forms_of(answer.text, place)
                if f"/{client.desk.key}/" in one.action
            ]
    return seen


def _as_dict(fields):
    found = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    return found


def snapshot(folder):
    """Every file of a folder, byte for byte."""
    return {
        str(one.relative_to(folder)): one.read_bytes()
        for one in sorted(folder.rglob("*"))
        if one.is_file()
    }
