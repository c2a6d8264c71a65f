"""Columns: files of all kinds and states, roles that become a plan, errors beside fields."""

import gzip
import io
import os
import re
import stat
from types import SimpleNamespace

import pandas as pd
import pytest

from app_client import Client, errors, fields_of, words
from app_release import made as released
from privest.report.slider import at_epsilon
from privest.workflow.plan import make_plan
from privest.workflow.spec import load_spec, to_toml

SENTINEL = "7.31947"
PEOPLE = "age,sex,ldl,sick,id,smokes\n" + "".join(
    f"{20 + 7 * k % 60},{'fm'[k % 2]},{100 + 3 * k % 70}.5,{k % 3 % 2},p{k // 2},"
    f"{('yes', 'No')[k % 2]}\n"
    for k in range(60)
)
LDL = {"role-0": "public", "role-2": "private", "low-2": "20", "high-2": "400", "known": "yes"}


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def taken(client, content, name="people.csv", private=None):
    """The page after a table was sent, and after its private column was chosen."""
    client.work = client.begun(content, name, private)
    page = client.get(at(client))
    assert page.status_code == 200
    return page.text


def chosen(client, private):
    return client.post(at(client, "/private"), {"private": str(private)})


def at(client, rest=""):
    return f"/work/{client.work.id}/data{rest}"


def done(client, **changes):
    """The form of the columns, sent; the private column is chosen first, as a person does."""
    private = [name for name, role in changes.items() if role == "private"]
    if private and client.work.private is None:
        assert chosen(client, private[0].removeprefix("role-")).status_code == 303
    return client.post(at(client), fields_of(client.get(at(client)), "/data") | changes)


def planned(client, answer):
    assert answer.status_code == 303, words(answer)
    assert answer.headers["location"].endswith(f"/work/{client.work.id}/privacy")
    return client.work.plan.spec


def refused(answer, said):
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert said in words(answer), words(answer)
    return answer.text


# --- which table ----------------------------------------------------------------------------------


def test_a_sent_file_is_private_and_goes_with_its_work(client):
    taken(client, PEOPLE)
    table = client.work.table
    assert (table.name, table.path.read_text()) == ("people.csv", PEOPLE)
    assert stat.S_IMODE(table.path.stat().st_mode) == 0o600
    assert "people" not in table.path.name
    client.post(f"/work/{client.work.id}/clear")
    assert not table.path.exists()
    assert os.listdir(client.desk.private) == ["alive"]
    taken(client, PEOPLE)
    client.desk.close()
    assert not client.desk.private.exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("people.doc", b"x", "a table can be .csv"),
        ("people.xls", b"x", "a table can be .csv"),
        ("people.xlsx", b"x", "people.xlsx is damaged, or not an .xlsx workbook"),
        ("people.parquet", b"x", "people.parquet is damaged"),
        ("", b"x", "Choose a file first"),
    ],
)
def test_what_is_no_table_is_not_kept(client, name, content, said):
    answer = client.post("/begin", files={"table": (name, content)})
    refused(answer, said)
    assert "table" in errors(answer)
    assert client.desk.works == {}
    assert os.listdir(client.desk.private) == ["alive"]


def test_names_of_files_are_names_only(client):
    page = taken(client, PEOPLE, "../../etc/<b>\u202evsc.csv")
    assert client.work.table.name == "<b>vsc.csv"
    assert "<b>vsc" not in page
    assert "&lt;b&gt;vsc.csv" in page


def test_the_example_goes_straight_on(client):
    client.work = client.work_of(client.post("/begin", {"example": "yes"}))
    spec = planned(client, done(client))
    assert (spec.data, spec.targets, spec.model.features) == (
        "diabetes", ("s5",), ("age", "sex", "bmi", "bp"),
    )  # fmt: skip
    assert spec.model.categories == {"sex": ("0", "1")}
    assert spec.privacy.range == {"s5": (2.0, 7.0)}
    assert spec.public.residual_variance == pytest.approx(0.2025)
    assert client.work.plan.rows == 442


# --- how it is written ----------------------------------------------------------------------------

TURNED = "a\u202e"
MESSY = (
    '\ufeff"Alter\n(Jahre)";Größe;Geschlecht;LDL;Raucher;Tag;Größe;;<b>x</b>\r\n'
    + "".join(
        f"{20 + k % 60};1,{60 + k % 30};{'mw'[k % 2]};{80 + k % 90},5;{k % 3 % 2};"
        f"2024-03-{1 + k % 28:02d};3;;{'c' if k % 5 == 0 else TURNED}\r\n"
        for k in range(200)
    )
    + "99999;1,70;?;REFUSED;1;2024-03-01;3;;c\r\n99999;;m;77777;1;;3;;\r\n"
)


def test_a_messy_file_gives_a_plan(client, tmp_path):
    page = taken(client, MESSY, "Umfrage.csv")
    assert "<b>x" not in page
    assert TURNED not in page
    given = {
        "role-0": "public", "role-2": "public", "role-3": "private", "role-8": "public",
        "low-3": "20", "high-3": "400,5", "known": "yes", "gaps": "drop",
    }  # fmt: skip
    codes = {"codes": "LDL=77777; LDL=REFUSED"}
    assert planned(client, done(client, **given | codes)).format.decimal is None  # LDL alone has it
    spec = planned(client, done(client, **given | codes | {"decimal": ","}))
    assert spec.model.features == ("Alter\n(Jahre)", "Geschlecht", "<b>x</b>")
    assert spec.model.categories == {"Geschlecht": ("m", "w"), "<b>x</b>": (TURNED, "c")}
    assert set(spec.format.missing_codes) == {
        "LDL=77777", "LDL=REFUSED", "Alter\n(Jahre)=99999", "Geschlecht=?",
    }  # fmt: skip
    assert (spec.format.separator, spec.format.decimal) == (";", ",")
    assert spec.privacy.range == {"LDL": (20.0, 400.5)}
    assert client.work.plan.rows == 200
    # The plan file gives the same plan beside the table.
    (tmp_path / "Umfrage.csv").write_bytes(MESSY.encode())
    (tmp_path / "plan.toml").write_text(to_toml(spec), encoding="utf-8")
    again = make_plan(load_spec(tmp_path / "plan.toml"))
    assert again.rows == client.work.plan.rows
    assert again.privacy_error.tolist() == client.work.plan.privacy_error.tolist()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_alphabets(client, encoding):
    taken(client, ("Größe,y\n" + "1,2\n2,3\n4,4\n" * 9).encode(encoding))
    ends = {"role-0": "public", "role-1": "private", "low-1": "0", "high-1": "9", "known": "yes"}
    assert planned(client, done(client, **ends)).model.features == ("Größe",)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz", "a.tsv", "a.txt"])
def test_kinds_of_files(client, name, tmp_path):
    frame, path = pd.read_csv(io.StringIO(PEOPLE)), tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    elif name.endswith("gz"):
        path.write_bytes(gzip.compress(PEOPLE.encode()))
    else:
        frame.to_csv(path, sep="\t" if "tsv" in name else ";", index=False)
    taken(client, path.read_bytes(), name)
    assert planned(client, done(client, **LDL)).data == name


# --- what the columns are -------------------------------------------------------------------------


def test_roles_become_a_plan(client):
    taken(client, PEOPLE)
    more = {"role-1": "public", "list-1": "m\r\nf\r\n", "sd-2": "20"}
    spec = planned(client, done(client, **LDL | more))
    assert (spec.targets, spec.model.features) == (("ldl",), ("age", "sex"))
    assert spec.model.categories == {"sex": ("m", "f")}, "the first is the baseline, as it was put"
    assert (spec.privacy.epsilon, spec.privacy.delta) == (1.0, 1e-6)
    assert spec.public.residual_variance == 400.0
    assert client.work.plan.spec == spec


def test_everything_that_can_be_stated(client):
    taken(client, PEOPLE)
    spec = planned(client, done(client, **LDL | {
        "role-4": "person", "most": "3", "logarithm": "yes", "gaps": "drop",
        "codes": "77777; age=999", "family": "gaussian", "role-1": "public",
        "formula": "ldl ~ age*C(sex)",
    }))  # fmt: skip
    assert (spec.model.person, spec.model.most_rows) == ("id", 3)
    assert (spec.model.transform, spec.model.missing) == ("log", "drop")
    assert spec.format.missing_codes == ("77777", "age=999")
    assert client.work.plan.names == ("intercept", "age", "sex=m", "age:sex=m")


def test_weights_and_a_mean(client):
    taken(client, PEOPLE)
    weighted = LDL | {"role-0": "weight"}
    spec = planned(client, done(client, **weighted | {"form": "rows"}))
    assert (spec.model.weights, spec.model.features) == ("age", ())
    answer = done(client, **weighted | {"form": "aggregate"})
    assert "no survey weights" in errors(answer)["form"]


@pytest.mark.parametrize("form", ["rows", "aggregate"])
@pytest.mark.parametrize("column", [3, 5])
def test_a_yes_or_no_has_its_range_and_a_share(client, column, form):
    """As 0 and 1, or in words of any case."""
    taken(client, PEOPLE)
    given = {
        f"role-{column}": "private", "role-0": "public", "known": "yes", "form": form,
        "family": "binomial",
    }  # fmt: skip
    spec = planned(client, done(client, **given))
    name = ("sick", "smokes")[column == 5]
    assert (spec.model.family, spec.privacy.range) == ("binomial", {name: (0.0, 1.0)})
    assert spec.privacy.delta == (None if form == "rows" else 1e-6)
    assert list(client.work.plan.scenarios) == ["50% yes", "10% yes", "2% yes"]
    planned(client, done(client, **given | {f"share-{column}": "30"}))
    assert client.work.plan.mean == 0.3
    assert "30%" in words(client.get(f"/work/{client.work.id}/privacy"))
    answer = done(client, **given | {f"share-{column}": "130"})
    assert f"share-{column}" in errors(answer)
    answer = done(client, **given | {f"high-{column}": "20"})
    assert "has no range" in errors(answer)[f"high-{column}"]


def test_all_other_columns_can_be_made_public_at_once(client):
    """But those that name rows."""
    people = PEOPLE.replace("smokes", "name").replace("yes", "x").replace("No", "y")
    taken(client, people, private=2)
    answer = done(client, **{"low-2": "20", "then": "public"})
    fields = fields_of(client.follow(answer), "/data")
    roles = [fields[f"role-{k}"][0] for k in range(6)]
    assert roles == ["public", "public", "private", "public", "public", "public"]
    assert fields["low-2"] == ["20"]
    many = "id,x,y\n" + "".join(f"person {k},{k},{k}\n" for k in range(80))
    taken(client, many, private=2)
    fields = fields_of(client.follow(done(client, then="public")), "/data")
    assert [fields[f"role-{k}"][0] for k in range(3)] == ["unused", "public", "private"]


def test_all_that_is_wrong_is_said_at_once_beside_its_field(client):
    taken(client, PEOPLE)
    answer = done(client, **{
        "role-1": "public", "list-1": "f", "role-2": "private", "low-2": "much", "high-2": "",
        "sd-2": "-1", "role-3": "private", "role-0": "weight", "role-4": "weight",
        "gaps": "guess", "family": "normal",
    })  # fmt: skip
    assert answer.status_code == 422
    said = errors(answer)
    expected = {
        "list-1", "low-2", "high-2", "sd-2", "role-3", "role-4", "gaps", "family", "known",
    }  # fmt: skip
    assert set(said) == expected
    links = re.findall(r'<li><a href="#([^"]+)">', answer.text)
    assert set(links) == expected
    for name in links:  # every link leads to its field, which is marked and described
        field = re.search(rf'<(?:input|select|textarea)[^>]*id="{name}"[^>]*>', answer.text)[0]
        assert 'aria-invalid="true"' in field
        assert f"{name}-error" in field
    typed = fields_of(answer, "/data")
    assert (typed["low-2"], typed["sd-2"], typed["list-1"]) == (["much"], ["-1"], ["f"])
    assert client.work.plan is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"role-2": "unused"}, "role-0"),
        ({"role-0": "public", "role-2": "public"}, "role-0"),
        (LDL | {"family": "normal"}, "family"),
        (LDL | {"family": "poisson"}, "family"),
        (LDL | {"high-2": "10"}, "high-2"),
        (LDL | {"high-2": "nan"}, "high-2"),
        (LDL | {"high-2": "1e999"}, "high-2"),
        (LDL | {"known": ""}, "known"),
        (LDL | {"role-1": "public", "list-1": ""}, "list-1"),
        (LDL | {"role-0": "secret"}, "role-0"),
        (LDL | {"logarithm": "yes", "low-2": "0"}, "low-2"),
        (LDL | {"role-4": "person", "most": "2.5"}, "most"),
        (LDL | {"role-4": "person", "family": "poisson"}, "family"),
        (LDL | {"family": "poisson", "logarithm": "yes"}, "logarithm"),
        (LDL | {"family": "poisson", "count": "-1"}, "count"),
        (LDL | {"formula": "age ~ ldl"}, "formula"),
        (LDL | {"formula": "ldl ~ age +"}, "formula"),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field(client, changes, field):
    taken(client, PEOPLE, private=2)
    answer = done(client, **changes)
    assert answer.status_code == 422
    assert field in errors(answer), words(answer)
    assert client.work.plan is None
    assert client.work.table.path.name not in answer.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (LDL | {"role-1": "public", "list-1": "f\nx"}, "public list"),
        (LDL | {"codes": "bmi=999"}, "no column 'bmi'"),
        (LDL | {"codes": "150"}, "is a value that 'ldl' can have"),
    ],
)
def test_what_the_table_says_against_it_is_said_above(client, changes, said):
    taken(client, PEOPLE)
    refused(done(client, **changes), said)
    assert client.work.plan is None


# --- codes and gaps -------------------------------------------------------------------------------


def _words(*cells):
    """A column x of numbers and y of them, with some words in y."""
    rows = [(k, f"{k}.5") for k in range(40)] + [(k, cell) for k, cell in enumerate(cells)]
    return "x,y\n" + "".join(f"{x},{y}\n" for x, y in rows)


YX = {
    "role-0": "public", "role-1": "private", "low-1": "0", "high-1": "99", "gaps": "drop",
    "known": "yes",
}  # fmt: skip


def test_words_among_numbers_must_be_explained(client):
    rows = "".join(f"{k},{k}.5\n" for k in range(40))
    taken(client, "x,y\n" + rows + "soon,1.5\n7,n/k\n")
    answer = done(client, **YX)
    assert errors(answer) == {
        "role-0": "Words are among its numbers, in 1 row. Tick those that stand for a missing "
        "value, or correct the file."
    }
    spec = planned(client, done(client, **YX | {"codes-0": "0", "codes": "y=n/k"}))
    assert set(spec.format.missing_codes) == {"x=soon", "y=n/k"}


@pytest.mark.parametrize(
    "cells", [["Ms Jones"], ["Ms Jones"] * 2, ["Ms Jones of the third ward"] * 3, ["b=NA"] * 3]
)
@pytest.mark.parametrize("role", ["private", "person", "weight"])
def test_what_somebody_wrote_is_no_code_of_a_private_column(client, cells, role):
    """Not even where a form says that it was ticked: a plan is public."""
    taken(client, _words(*cells))
    fields = YX | {"codes-1": "0"}
    if role == "private":
        assert planned(client, done(client, **fields)).format.missing_codes == ()
        trouble = released(client, client.work).trouble
        assert "correct it, state it in `missing_codes`" in trouble
        assert "Jones" not in trouble
        return
    ends = {"role-0": "private", "low-0": "0", "high-0": "99", "role-1": role}
    answer = done(client, **fields | ends)
    plan = client.work.plan
    assert plan is None or not plan.spec.format.missing_codes
    assert plan is None or "Jones" not in str(plan.spec)
    assert answer.status_code in (303, 422)


def test_no_code_is_offered_where_a_column_is_private(client):
    for private, found in ((1, []), (0, ["0", "1", "2"])):
        page = taken(client, _words("Ms Jones", "refused", "<LOD", "<LOD"), private=private)
        assert re.findall(r'<label class="tick" for="codes-1-(.)">', page) == found


@pytest.mark.parametrize("role", ["public", "person", "weight"])
def test_a_column_without_values_is_said_to_be_empty(client, role):
    taken(client, "x,y\n" + "".join(f",{k}\n" for k in range(30)))
    ends = {"role-1": "private", "low-1": "0", "high-1": "40", "role-0": role, "known": "yes"}
    assert "empty" in errors(done(client, **ends))["role-0"]


def test_durations_and_texts_of_digits_are_no_numbers(client):
    """What the reader would refuse is refused here, or before anything is charged."""
    frame = pd.DataFrame({"x": range(30), "took": pd.to_timedelta(range(30), "D"),
                          "y": [f"{k}.5" for k in range(30)]})  # fmt: skip
    file = io.BytesIO()
    frame.to_parquet(file)
    taken(client, file.getvalue(), "a.parquet")
    public = {"role-0": "private", "low-0": "0", "high-0": "30", "known": "yes"}
    assert "cannot be used" in errors(done(client, **public | {"role-1": "public"}))["role-1"]
    for at_ in (1, 2):
        taken(client, file.getvalue(), "a.parquet")
        ends = {f"low-{at_}": "0", f"high-{at_}": "30", "role-0": "public", "known": "yes"}
        planned(client, done(client, **ends | {f"role-{at_}": "private"}))
        assert "not numbers" in released(client, client.work).trouble
        assert not client.desk.ledger.exists()


def test_gaps_in_the_features_are_left_out_or_refused(client):
    taken(client, PEOPLE.replace("\n27,", "\n,", 1), private=2)
    assert fields_of(client.get(at(client)), "/data")["gaps"] == ["drop"]
    refused(done(client, **LDL | {"gaps": "refuse"}), "a value is missing")
    planned(client, done(client, **LDL | {"gaps": "drop"}))
    assert client.work.plan.dropped == 1


# --- and besides ----------------------------------------------------------------------------------


def test_epsilon_as_it_was_chosen_stays_if_the_values_are_the_same(client):
    taken(client, PEOPLE)
    planned(client, done(client, **LDL))
    client.work.plan = at_epsilon(client.work.plan, 5.0)
    plan = client.work.plan
    assert planned(client, done(client, **LDL)).privacy.epsilon == 5.0
    assert client.work.plan is plan  # nothing was read again
    assert planned(client, done(client, **LDL | {"role-3": "public"})).privacy.epsilon == 5.0
    assert planned(client, done(client, **LDL | {"high-2": "500"})).privacy.epsilon == 1.0


def test_wide_tables_show_some_columns(client):
    names = [f"c{k}" for k in range(1200)]
    rows = "\n".join(",".join(str((k * j) % 7) for j in range(1200)) for k in range(20))
    assert "800 more columns" in taken(client, ",".join(names) + "\n" + rows + "\n")
    ends = {"role-11": "private", "low-11": "0", "high-11": "6", "known": "yes"}
    assert planned(client, done(client, **ends)).targets == ("c11",)


def test_private_values_are_on_no_screen(client):
    people = PEOPLE.replace("100.5", SENTINEL, 1)
    assert SENTINEL not in taken(client, people) + taken(client, people, private=2)
    planned(client, done(client, **LDL))
    assert SENTINEL not in str(client.work.plan.spec) + str(client.work.typed) + repr(client.work)
    assert SENTINEL not in client.get("/").text


def test_a_form_that_is_too_large_is_refused(client):
    taken(client, PEOPLE)
    assert done(client, **LDL | {"codes": "x" * 200_000}).status_code == 422
    assert client.post(at(client), {"codes": "x" * 5_000_000}).status_code == 413
    assert client.post(at(client), {f"f{k}": "" for k in range(6000)}).status_code in (400, 422)
    assert client.work.plan is None


def test_nothing_changes_while_a_release_is_made(client):
    taken(client, PEOPLE)
    planned(client, done(client, **LDL))
    before = client.work.table, client.work.plan
    client.work.job = SimpleNamespace(running=True)
    refused(done(client, **LDL | {"high-2": "500"}), "is being made")
    assert client.post(f"/work/{client.work.id}/clear").status_code == 422
    assert (client.work.table, client.work.plan) == before


def by_path(client):
    """A plan of a file of the user, which is read where it lies."""
    file = client.folder / "people.csv"
    file.write_text(PEOPLE)
    client.work = client.work_of(client.post("/begin", {"path": "people.csv"}))
    planned(client, done(client, **LDL))
    return file
