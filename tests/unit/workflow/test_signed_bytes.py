"""The signature of a release covers the bytes of its file: any other spelling is refused.

The document and its ledger are golden (`golden/of-1.0`). Each token is changed as it is, and under
a checksum made anew, which needs no key.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

import privest as pv
from privest.errors import PrivestError
from resealed import resealed, resealed_text, written

GOLDEN = Path(__file__).parents[2] / "golden" / "of-1.0"
TOKEN = re.compile(r'"[^"]*"|-?\d[\d.e+-]*|true|false|null|[{}\[\],:]|\s+')


@pytest.fixture(scope="module")
def vouched(tmp_path_factory):
    """The path of the document, its text, and the ledger that signed it."""
    folder = tmp_path_factory.mktemp("signed")
    for name in ("release.json", "ledger.db"):
        shutil.copy(GOLDEN / name, folder)
    (folder / "ledger.db").chmod(0o600)  # git does not keep this
    with pv.Ledger(folder / "ledger.db", marks=folder / "marks") as ledger:
        ledger.adopt()
        assert pv.verify(folder / "release.json", ledger).verified
        yield folder / "release.json", (GOLDEN / "release.json").read_text(), ledger


def passing(vouched, texts):
    """The changed documents that are verified: there must be none."""
    path, text, ledger = vouched
    found = []
    for label, changed in texts:
        for sealed in (changed, resealed_text(changed)):
            if sealed == text:
                continue
            path.write_bytes(sealed.encode())
            try:
                pv.verify(path, ledger)
            except PrivestError:
                continue
            found.append(label)
    path.write_text(text)
    return found


def spellings(token):
    """Other tokens: some mean the same, some something else."""
    if token[0] == '"':
        inside = token[1:-1]
        if inside:
            yield f'"\\u{ord(inside[0]):04x}{inside[1:]}"'
            yield f'"{inside[:-1]}{"a" if inside[-1] != "a" else "b"}"'
        yield "null"
    elif token in ("true", "false", "null"):
        yield from {"true", "false", "null", "0", "1", '""'} - {token}
    elif token.strip() and token not in "{}[],:":
        yield from (f"{token}0", f"{token}e0", f"{token}.0", f"1{token}", f"-{token}")
        yield from ("true", "false", "null", f'"{token}"', f"[{token}]")
        if float(token).is_integer():
            yield f"{float(token):.0f}"
        yield repr(float(token) * (1 + 2.0**-52))
    elif token.strip():
        yield from (f" {token}", f"{token} ", f"{token}\t", f"\r\n{token}", "", token + token)
    else:
        yield from ("", f"{token} ", token.replace("\n", "\r\n"), "\t")


@pytest.mark.processes
def test_every_token(vouched):
    _, text, _ = vouched
    changed = [
        (f"{token.start()}: {token[0]!r} as {other!r}",
         text[: token.start()] + other + text[token.end() :])
        for token in TOKEN.finditer(text)
        for other in spellings(token[0])
        if other != token[0]
    ]  # fmt: skip
    assert len(changed) > 2000
    assert passing(vouched, changed) == []


def objects(record, path=()):
    """Every object of a document, by its path."""
    if isinstance(record, dict):
        yield path, record
    for key, part in record.items() if isinstance(record, dict) else enumerate(record):
        if isinstance(part, dict | list):
            yield from objects(part, (*path, key))


def replaced(record, path, other):
    if not path:
        return other
    copy = dict(record) if isinstance(record, dict) else list(record)
    copy[path[0]] = replaced(record[path[0]], path[1:], other)
    return copy


def test_members_in_another_order_left_out_or_added(vouched):
    _, text, _ = vouched
    record, changed = json.loads(text), []
    for path, part in objects(record):
        names = list(part)
        others = [{name: part[name] for name in reversed(names)}]
        others += [{name: part[name] for name in names if name != absent} for absent in names]
        others += [part | {"delta": None}, part | {"more": 1}, {"more": 1} | part]
        changed += [(f"{path} {list(other)}", replaced(record, path, other)) for other in others]
    texts = [(label, written(other)) for label, other in changed]
    texts += [(label, written(resealed(other))) for label, other in changed]
    assert len(texts) > 80
    assert passing(vouched, texts) == []


def test_what_stands_around_the_document_or_is_there_twice(vouched):
    _, text, _ = vouched
    end = text.removesuffix("}\n")
    repeated = [text.replace(line, f"{line}{line}", 1) for line in text.splitlines(keepends=True)]
    around = [
        "\ufeff" + text, " " + text, "\n" + text, text + "\n", text + " ", text[:-1], text + text,
        text + '{"estimates": [666]}', end.rstrip() + ',\n "estimates": [666]\n}\n',
        text.replace("\n", "\r\n"), json.dumps(json.loads(text)),
        json.dumps(json.loads(text)) + "\n",
        written(json.loads(text) | {"signature": None}),
        text.replace('"signature": "', '"signature": "0')[:-4] + '"\n}\n',
    ]  # fmt: skip
    changed = [(repr(other[-90:]), other) for other in (*around, *repeated)]
    assert passing(vouched, changed) == []
