"""The release screen by its forms: a release to its end, and what the page says."""

import re
import time
from html import unescape

from privest.app import _release_job as jobs


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
    job = work.more[jobs.JOB]
    until = time.monotonic() + 30
    while job.running:
        assert time.monotonic() < until
        time.sleep(0.01)
    return job


def made(client, work, **fields):
    """A release by the form, to its end."""
    fields = {"ticket": ticket(client, work), "sure": "yes"} | fields
    answer = client.post(url(work, "/make"), fields)
    assert answer.status_code == 303, message(answer)
    return ended(work)


def message(answer):
    return unescape(" ".join(re.findall(r'role="alert"><p>(.*?)</p>', answer.text, re.S)))
