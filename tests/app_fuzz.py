"""Forms of the app turned into ones that no page would send; what every answer must be.

Valid forms come from the pages themselves, so that the fuzz follows the templates. Every mutation
is a function of a `random.Random`: the number of a case is enough to repeat it.
"""

import random
import re
from urllib.parse import urlencode

from app_client import HOST
from app_forms import forms_of

NASTY = (
    "", " ", "0", "-0", "-1", "1e999", "-1e999", "nan", "NaN", "inf", "-Infinity", "1e-320",
    "1e308", "1e-308", "0x10", "1_000", "1,5", "1,5,5", "1.5.5", "9" * 400, "١٢٣", "½", "None",
    "null", "true", "\x00", "a\x00b", "\ud7ff", "\ufffe", "\u202egnp.exe", "\u2066x\u2069",
    "\u200b", "\ufeff", "é" * 50, "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>",
    "{{ 7*7 }}", "{% raw %}", "${7*7}", "../../etc/passwd", "/etc/passwd", "C:\\x",
    "a\r\nSet-Cookie: x=1", "x" * 5_000, "x" * 150_000, "a,b;c|d\te", "'; DROP TABLE entries; --",
    "=1+1", "__class__", "np.log(s5)", "I(age**2)", "`age`", "age:sex", "age + ", "C(sex", "~",
    "1 ~ 1", "\n" * 2_000, "0.1\n", "\t4", "4 ", "+4", "4e0", "1/3", "∞", "-nan",
)  # fmt: skip
NAMES = (
    "csrf",
    "",
    "id",
    "key",
    "level",
    "file",
    "\x00",
    "x" * 3_000,
    "private",
    "__proto__",
    "a[]",
)
FILES = (
    b"", b"\x00" * 50, b"a", b"a,b\n1,2\n", b"a;b\n1,5;2\n", b"\xff\xfe\x00", b"PK\x03\x04broken",
    b"PAR1broken", b"HEADER RECORD*******LIBRARY", b"a,a\n1,1\n", b",\n,\n", b"\x1f\x8bbroken",
    b"a,b\n1\n1,2,3\n", b"x" * 300_000, "é,ü\n1,2\n".encode("latin-1"), b'"a\n', b"a,b\n" * 3_000,
)  # fmt: skip
FILE_NAMES = (
    "a.csv", "a.parquet", "a.xlsx", "a.exe", "../../a.csv", "a\r\nX: y.csv", "é.csv",
    "\x00.csv", "a" * 300 + ".csv", ".csv", "a.csv.gz", "a.csv.xz", "", "CON.csv", "-rf.csv",
)  # fmt: skip


def mutated(form, rng: random.Random) -> tuple[list[tuple[str, str]], list[tuple[str, tuple]]]:
    """Fields and files of a form with one to three faults."""
    fields = list(form.sent)
    if form.buttons and rng.random() < 0.8:
        fields.append(rng.choice(form.buttons))
    files: list[tuple[str, tuple]] = []
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        fields = _fault(form, fields, files, rng)
    return fields, files


def _fault(form, fields, files, rng):
    kind, free = rng.randrange(9), [k for k, one in enumerate(fields) if one[0] != "csrf"]
    names = [name for name in form.fields if name != "csrf" or rng.random() < 0.05] or [""]
    if kind <= 2 and free:  # another value
        at = rng.choice(free)
        fields[at] = (fields[at][0], rng.choice(NASTY))
    elif kind == 3 and fields:  # left out; now and then the word that every form must bring
        del fields[
            rng.randrange(len(fields)) if rng.random() < 0.3 or not free else rng.choice(free)
        ]
    elif kind == 4:  # another of the values that it can take
        name = rng.choice(names)
        values = form.options.get(name) or NASTY
        fields = [one for one in fields if one[0] != name or name == "csrf"]
        fields.append((name, rng.choice(values)))
    elif kind == 5:  # twice, with another value
        fields.append((rng.choice(names), rng.choice(NASTY)))
    elif kind == 6:  # a field of no form
        fields.append((rng.choice(NAMES), rng.choice(NASTY)))
    elif kind == 7:  # everything is in another order
        rng.shuffle(fields)
    else:  # a file, also where a text is expected
        name = rng.choice([*form.files, *form.files, rng.choice(names)])
        files.append((name, (rng.choice(FILE_NAMES), rng.choice(FILES))))
    return fields


def urlencoded_or_parts(form, fields, files, rng):
    """The arguments of a post; now and then in the coding that the form does not use."""
    if not (files or form.many_parts != (rng.random() < 0.1)):
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return {"content": urlencode(fields).encode(), "headers": kind}
    return {"files": [*((name, (None, value.encode())) for name, value in fields), *files]}


def harvested(client, places):
    """The forms of all pages, by where they go."""
    found = {}
    for place in places:
        answer = client.get(place)
        if answer.status_code == 200 and "text/html" in answer.headers.get("content-type", ""):
            for form in forms_of(answer.text, str(answer.url.path)):
                found.setdefault((form.method, form.action), []).append(form)
    return found


def require_message(answer, secrets, sentinels, said=""):
    """A page, a part with a message, or a way on; nothing of the inside."""
    assert answer.status_code < 500, f"{answer.status_code} {said}: {answer.text[-300:]}"
    for bad in ("Traceback", 'File "/', ".py:", "object at 0x", "jinja2", *sentinels):
        assert bad not in answer.text, f"{bad} in the answer to {said}"
    told = answer.headers
    for name, value in told.items():
        assert not re.search(r"[\r\n]", value), f"{name} of {said}"
    assert "set-cookie" not in told
    if answer.status_code in (301, 302, 303, 307):
        where = told["location"].removeprefix(f"http://{HOST}")
        assert re.match(r"/(?!/)", where), f"{said} leads to {where}"
    elif "text/html" in told.get("content-type", "") and answer.status_code != 204:
        text = re.sub(r"<[^>]*>", " ", answer.text)
        assert len(text.split()) > 2, f"{said} says nothing: {answer.text}"
        if answer.status_code >= 400:
            assert 'role="alert"' in answer.text or "<main>" in answer.text, said
    for secret in secrets:
        assert secret not in answer.text, said
