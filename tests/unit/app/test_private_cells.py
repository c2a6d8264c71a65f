"""Nothing on the way to a release is made of a private cell: in the app, `look`, `plan`, Python.

Two tables differ in private cells alone; everything that is shown, asked or written before the
release must be the same, byte for byte, but for the secrets of each run. Which cells are empty is
public, and is equal here.
"""

import re

import pandas as pd
import pytest

import privest as pv
from app_client import Client, fields_of, words
from app_release import made as released
from privest.data import inspect
from workflow_command import called

ROWS = 300


def table(cells, separator=","):
    """The public columns age and sex, the private one y, whose first cells are these."""
    private = [*cells, *(str(k % 2) for k in range(ROWS - len(cells)))]
    lines = [separator.join(("age", "sex", "y"))]
    for k, cell in enumerate(private):
        shown = f'"{cell}"' if "," in cell and separator == "," else cell
        lines.append(separator.join((str(20 + k % 60), "fm"[k % 3 == 0], shown)))
    return "\n".join(lines).encode()


# Cells of 0 and 1 otherwise. What one of each pair would decide, if private cells decided.
PAIRS = {
    "one value is no yes or no": (table(["1"]), table(["2"])),
    "an outlier": (table(["1"]), table(["-123456.5"])),
    "yes and no in words": (table(["1"] * ROWS), table(["yes", "no"] * (ROWS // 2))),
    "few values, and many": (
        table([str(k % 5) for k in range(ROWS)]), table([f"{k}.25" for k in range(ROWS)]),
    ),
    "whole numbers, and not": (table(["3", "4"]), table(["3.5", "4"])),
    "a code of a missing value": (table(["1"] * 5), table(["999"] * 5)),
    "a word": (table(["1"]), table(["Jones"])),
    "a word that looks like a code": (table(["1"] * 5), table(["refused"] * 5)),
    "a date": (table(["1"]), table(["2024-03-01"])),
    "decimal commas": (table(["15", "25"], ";"), table(["1,5", "2,5"], ";")),
    "commas between thousands": (table(["1"]), table(["1,234"])),
    "a letter of an old alphabet": (table(["1"]), table(["X"]).replace(b"X", b"\xe9")),
    "infinite": (table(["1"]), table(["inf"])),
}  # fmt: skip
STATED = {
    "a number": {"family": "gaussian", "low-2": "0", "high-2": "10", "sd-2": "2"},
    "a number of which nothing is known": {"family": "gaussian", "low-2": "0", "high-2": "10"},
    "yes or no": {"family": "binomial"},
    "a count": {"family": "poisson", "low-2": "0", "high-2": "10", "form": "rows"},
    "a mean": {"family": "gaussian", "low-2": "0", "high-2": "10", "role-0": "unused",
               "role-1": "unused"},
    "no range": {"family": "gaussian"},
    "yes or no with a range": {"family": "binomial", "low-2": "0", "high-2": "20"},
}  # fmt: skip


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def without_secrets(client, text):
    """A page without the words that are drawn anew in every run, or for every piece of work."""
    for secret in (client.desk.key, client.desk.csrf, *client.desk.works):
        text = text.replace(secret, "·")
    return re.sub(r'name="ticket" value="[^"]*"', "", text)


def walked(client, content, stated):
    """Every page up to the release, in order, and the plan file."""
    pages = []

    def kept(answer):
        pages.append((answer.status_code, without_secrets(client, answer.text)))
        return answer

    work = client.begun(content)
    place = f"/work/{work.id}"
    page = kept(client.get(f"{place}/data"))
    if 'name="private"' in page.text:
        kept(client.post(f"{place}/data/private", {}))
        kept(client.post(f"{place}/data/private", {"private": "2"}))
        page = kept(client.get(f"{place}/data"))
    roles = {"role-0": "public", "role-1": "public", "role-2": "private", "known": "yes"}
    fields = fields_of(page, "/data") | roles | stated
    kept(client.post(f"{place}/data", fields | {"then": "public"}))
    kept(client.get(f"{place}/data"))
    answer = kept(client.post(f"{place}/data", fields))
    if answer.status_code == 303:
        kept(client.get(f"{place}/privacy"))
        kept(client.post(f"{place}/privacy/numbers", {"epsilon": "3", "of": "0"}))
        kept(client.post(f"{place}/privacy", {"then": "need", "need": "0.9", "of": "0"}))
        kept(client.get(f"{place}/privacy"))
        kept(client.get(f"{place}/release"))
        kept(client.post(f"{place}/release/look", {"name": "a.json", "limit": "9"}))
        pages.append(str(work.plan.spec))
    client.post(f"{place}/clear")
    return pages


def cases(kinds):
    """All pairs and kinds but one: rows of a mean are counted by a column that must be text."""
    every = [(pair, kind) for pair in PAIRS for kind in kinds]
    return [one for one in every if one != ("a letter of an old alphabet", "a mean")]


@pytest.mark.parametrize(("pair", "kind"), cases(STATED))
def test_pages_and_forms_of_the_app_do_not_depend_on_private_cells(client, pair, kind):
    one, other = (walked(client, content, STATED[kind]) for content in PAIRS[pair])
    assert len(one) == len(other)
    for a, b in zip(one, other):
        assert a == b
    refused = kind in ("no range", "yes or no with a range")
    assert (one[-1][0] == 422) == refused if isinstance(one[-1], tuple) else not refused


def test_the_start_screen_reads_no_cell(client):
    """Before the private column is chosen names alone are known."""
    work = client.begun(table(["731947"]))
    page = client.get(f"/work/{work.id}/data")
    assert re.findall(r'<span class="name">(.*?)</span>', page.text) == ["age", "sex", "y"]
    assert {column.kind for column in work.look.columns} == {"unread"}
    assert work.look.rows is None
    client.post(f"/work/{work.id}/data/private", {"private": "2"})
    assert [column.kind for column in work.look.columns] == ["number", "text", "unread"]


def test_another_private_column_forgets_what_its_cells_proposed(client):
    """Its list of categories, ticked codes and gaps were filled in while it was public."""
    work = client.begun(table(["1"]).replace(b"20,m,", b",m,", 1))
    place = f"/work/{work.id}"
    client.post(f"{place}/data/private", {"private": "2"})
    page = client.get(f"{place}/data")
    fields = fields_of(page, "/data")
    assert (fields["list-1"], fields["gaps"]) == (["f\nm"], ["drop"])
    moved = fields | {"role-2": "public", "role-1": "private", "role-0": "private"}
    assert client.post(f"{place}/data", moved).status_code == 422  # two are private
    moved |= {"role-0": "unused"}
    assert client.post(f"{place}/data", moved).headers["location"].endswith("/data")
    assert [column.kind for column in work.look.columns] == ["number", "unread", "yes-no"]
    assert fields_of(client.get(f"{place}/data"), "/data")["list-1"] == [""]
    assert "f\nm" not in str(work.typed)


@pytest.mark.parametrize("decimal", ["", ","])
def test_the_decimal_mark_of_a_private_column_is_stated(client, decimal):
    work = client.begun(table([f"{k % 9},5" for k in range(ROWS)], ";"))
    place = f"/work/{work.id}"
    client.post(f"{place}/data/private", {"private": "2"})
    fields = fields_of(client.get(f"{place}/data"), "/data") | STATED["a number"]
    fields |= {"role-0": "public", "known": "yes", "decimal": decimal}
    answer = client.post(f"{place}/data", fields)
    assert answer.headers["location"].endswith("/privacy"), words(answer)
    assert work.plan.spec.format.decimal == (decimal or None)
    trouble = released(client, work).trouble
    if decimal:
        assert trouble is None
    else:  # before anything is charged, and without the cell
        assert "state the `decimal` mark" in trouble
        assert not client.desk.ledger.exists()


# --- the terminal and Python ----------------------------------------------------------------------

ASKED = {
    "a number": ["--features", "age,sex", "--category", "sex=f,m", "--range", "0,10"],
    "a mean": ["--range", "0,10"],
    "yes or no": ["--features", "age", "--family", "binomial"],
}


@pytest.mark.parametrize(("pair", "kind"), cases(ASKED))
def test_what_the_terminal_says_does_not_depend_on_private_cells(tmp_path, pair, kind):
    said = []
    path, plan = tmp_path / "people.csv", tmp_path / "plan.toml"
    for content in PAIRS[pair]:
        path.write_bytes(content)
        looks = called("look", path).stdout, called("look", path, "--public", "age,sex").stdout
        options = ("--target", "y", *ASKED[kind], "--epsilon", 2)
        done = called("plan", path, *options, "--save", plan, "--overwrite")
        assert done.returncode == 0, done.stderr
        exported = called("plan", plan, "--json").stdout
        summary = pv.workflow.read_plan(plan).summary()
        said.append((*looks, done.stdout, plan.read_text(), exported, summary))
    assert said[0] == said[1]


@pytest.mark.parametrize("features", [["age"], []])
def test_a_frame_with_a_text_in_its_private_column_is_planned_alike(features):
    said = []
    for cell in (1.0, "Jones"):
        frame = pd.DataFrame({"age": range(40), "y": pd.Series([cell] + [0.0] * 39, dtype=object)})
        plan = pv.plan(frame, target="y", features=features, range=(0, 9), epsilon=1.0)
        said.append((plan.summary(), plan.to_dict()))
    assert said[0] == said[1]


def test_a_private_column_is_not_looked_at_unless_it_is_called_public(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(table(["731947"]))
    for public in ((), ("age", "sex")):
        look = inspect(path, public=public)
        assert look.columns[2].kind == "unread"
        assert "731947" not in str(look.to_dict())
    assert inspect(path, public=["y"]).columns[2].kind == "number"
    with pytest.raises(pv.errors.InvalidInput, match="Did you mean 'age'"):
        inspect(path, public=["agee"])
