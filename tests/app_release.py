"""The release screen by its forms: a release to its end, and what the page says."""

import re
import time
from html import unescape

BUSY = 60.0  # seconds that a release of a small table may take on a busy machine


def url(work, rest=""):
    return f"/work/{work.id}/release{rest}"


def shown(client, work):
    answer = client.get(url(work))
    assert answer.status_code == 200
    return unescape(answer.text)


def ticket(client, work):
    return re.search(r'name="ticket" value="([^"]+)"', shown(client, work)).group(1)


def ended(work):
    """The job, once it has ended."""
    until = time.monotonic() + BUSY
    while work.job.running:
        assert time.monotonic() < until, "the release does not end"
        time.sleep(0.01)
    return work.job


def made(client, work, **fields):
    """A release by the form, to its end."""
    fields = {"ticket": ticket(client, work), "sure": "yes"} | fields
    answer = client.post(url(work, "/make"), fields)
    assert answer.status_code == 303, message(answer)
    return ended(work)


def message(answer):
    """What is said at the top of a page that refuses a form."""
    found = re.findall(r'role="alert"[^>]*>(.*?)</div>', answer.text, re.S)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", " ".join(found))))
