"""Screen 1: every route, tables of all kinds and states, and what is said where one is off."""

import gzip
import io
import os
import re
import stat
from types import SimpleNamespace

import openpyxl
import pandas as pd
import pytest

from app_client import Client
from app_forms import forms_of
from privest.app._data_screen import LOOK
from privest.workflow import load_spec, make_plan, to_toml

SENTINEL = "7.31947"
PEOPLE = "age,sex,ldl,sick,id\n" + "".join(
    f"{20 + 7 * k % 60},{'fm'[k % 2]},{100 + 3 * k % 70}.5,{k % 3 % 2},p{k // 2}\n"
    for k in range(60)
)


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    found.work = found.desk.begin()
    yield found
    found.close()


def at(client, rest=""):
    return f"/work/{client.work.id}/data{rest}"


def send(client, content, name="people.csv"):
    raw = content if isinstance(content, bytes) else content.encode()
    return client.post(at(client, "/file"), files={"table": (name, raw)})


def taken(client, content, name="people.csv"):
    """The page after a table was sent."""
    found = client.follow(send(client, content, name))
    assert found.status_code == 200
    return found.text


def roles(client, page=None):
    """What the form about the columns would send as it stands."""
    text = client.get(at(client)).text if page is None else page
    (form,) = [form for form in forms_of(text) if form.action.endswith("/data")]
    fields = {}
    for name, value in form.sent:
        fields.setdefault(name, []).append(value)
    return fields


def done(client, **changes):
    return client.post(at(client), roles(client) | changes)


LDL = {"role-0": "public", "role-2": "private", "low-2": "20", "high-2": "400"}


def planned(client, answer):
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"].endswith(f"/work/{client.work.id}/privacy")
    return client.work.spec


def refused(answer, said):
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert said in answer.text.replace("&#39;", "'"), answer.text
    return answer.text


# --- which table ----------------------------------------------------------------------------------


def test_first_there_are_three_ways_to_a_table(client):
    page = client.get(at(client)).text
    posted = [form.action for form in forms_of(page) if form.method == "post"]
    assert [action.rpartition("/")[2] for action in posted] == ["file", "path", "example"]


def test_a_sent_file_is_private_and_goes_when_another_comes(client):
    taken(client, PEOPLE)
    table = client.work.table
    assert (table.name, table.own) == ("people.csv", True)
    assert table.path.read_text() == PEOPLE
    assert stat.S_IMODE(table.path.stat().st_mode) == 0o600
    assert "people" not in table.path.name
    taken(client, PEOPLE, "others.csv")
    assert not table.path.exists()
    assert client.work.table.name == "others.csv"
    assert client.post(at(client, "/another")).status_code == 303
    assert client.work.table is None
    assert [path.name for path in client.desk.private.iterdir()] == ["alive"]


def test_nothing_is_left_when_work_is_cleared_away_or_the_app_ends(client):
    taken(client, PEOPLE)
    path = client.work.table.path
    client.post(f"/work/{client.work.id}/clear")
    assert not path.exists()
    client.work = client.desk.begin()
    taken(client, PEOPLE)
    client.desk.close()
    assert not client.desk.private.exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("people.doc", b"x", "a table can be .csv"),
        ("people.xls", b"x", "Save it as .xlsx or .csv"),
        ("people", b"x", "a table can be .csv"),
        ("people.xlsx", b"x", "people.xlsx is damaged, or not an .xlsx workbook"),
        ("people.parquet", b"x", "people.parquet is damaged"),
        ("people.xpt", b"x", "people.xpt is damaged"),
        ("", b"x", "Choose a file first"),
    ],
)
def test_what_is_no_table_is_not_kept(client, name, content, said):
    refused(send(client, content, name), said)
    assert client.work.table is None
    assert [path.name for path in client.desk.private.iterdir()] == ["alive"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "people.csv is empty"),
        (b"1,2\n3,4\n", "must name the columns"),
        (b"PK\x03\x04rest", "binary data"),
        (b"a,b\n1,2,3\n", "3 fields where the header has 2"),
        (b"\x00\x01\x02", "binary data"),
    ],
)
def test_a_text_that_cannot_be_read_stays_to_be_corrected(client, content, said):
    page = refused(send(client, content), said)
    assert "Read it again like this" in page
    assert client.work.table.path.name not in page
    assert client.work.plan is None


def test_a_bad_file_does_not_take_the_place_of_a_good_one(client):
    taken(client, PEOPLE)
    refused(send(client, b"x", "a.doc"), "a table can be")
    assert client.work.table.name == "people.csv"
    assert roles(client)["role-0"] == ["unused"]


def test_names_of_files_are_names_only(client):
    taken(client, PEOPLE, "../../etc/<b>\u202evsc.csv")
    assert client.work.table.name == "<b>vsc.csv"
    page = client.get(at(client)).text
    assert "<b>vsc" not in page
    assert "&lt;b&gt;vsc.csv" in page


def test_a_file_of_this_machine_is_read_where_it_lies(client, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE)
    for given in ("people.csv", str(path), f'"{path}"'):
        answer = client.post(at(client, "/path"), {"path": given})
        assert client.follow(answer).status_code == 200
        assert client.work.table.path == path
        assert not client.work.table.own
    client.post(at(client, "/another"))
    assert path.exists()


@pytest.mark.parametrize("path", ["", "nobody.csv", ".", "/dev/null", "a" * 5000, "~nobody/x.csv"])
def test_paths_that_lead_nowhere(client, path):
    answer = client.post(at(client, "/path"), {"path": path})
    assert answer.status_code == 422
    assert client.work.table is None


def test_a_path_of_another_kind_of_file(client, tmp_path):
    (tmp_path / "a.doc").write_text("x")
    refused(client.post(at(client, "/path"), {"path": "a.doc"}), "a table can be .csv")


def test_the_example_goes_straight_on(client):
    client.follow(client.post(at(client, "/example")))
    spec = planned(client, done(client))
    assert (spec.data, spec.targets[0], spec.model.features) == (
        "diabetes",
        "s5",
        ("age", "sex", "bmi", "bp"),
    )
    assert spec.model.categories == {"sex": ("0", "1")}
    assert spec.privacy.range == {"s5": (2.0, 7.0)}
    assert client.work.plan.rows == 442


@pytest.mark.parametrize("rest", ["", "/written", "/another"])
def test_forms_without_a_table_lead_to_the_first_page(client, rest):
    assert client.post(at(client, rest)).headers["location"].endswith("/data")


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


def test_a_messy_file_gives_a_plan(client):
    page = taken(client, MESSY)
    assert "semicolons between columns, decimal comma, utf-8" in page
    assert "<b>x" not in page
    assert "a\u202e" not in page
    answer = done(client, **{
        "role-0": "public", "role-2": "public", "role-3": "private", "role-8": "public",
        "low-3": "20", "high-3": "400,5", "lists_public": "yes", "gaps": "drop",
    })  # fmt: skip
    spec = planned(client, answer)
    assert spec.model.features == ("Alter\n(Jahre)", "Geschlecht", "<b>x</b>")
    assert spec.model.categories == {"Geschlecht": ("m", "w"), "<b>x</b>": ("a\u202e", "c")}
    assert set(spec.format.missing_codes) == {
        "LDL=77777", "LDL=REFUSED", "Alter\n(Jahre)=99999", "Geschlecht=?",
    }  # fmt: skip
    assert (spec.format.separator, spec.format.decimal) == (";", ",")
    assert list(spec.privacy.range.values()) == [(20.0, 400.5)]
    assert client.work.plan.rows == 200


def test_the_plan_file_gives_the_same_plan_beside_the_file(client, tmp_path):
    taken(client, MESSY, "Umfrage.csv")
    ends = {"role-3": "private", "low-3": "20", "high-3": "400", "gaps": "drop"}
    planned(client, done(client, **{"role-0": "public", "noise_variance": "400"} | ends))
    (tmp_path / "Umfrage.csv").write_bytes(MESSY.encode())
    (tmp_path / "plan.toml").write_text(to_toml(client.work.spec), encoding="utf-8")
    again = make_plan(load_spec(tmp_path / "plan.toml"))
    assert again.rows == client.work.plan.rows
    assert again.standard_error.tolist() == client.work.plan.standard_error.tolist()


def test_what_was_found_can_be_corrected(client):
    page = taken(client, "x;y\n1,500;2\n2,500;3\n")
    assert "decimal commas" in page
    fields = {"separator": "semicolon", "decimal": "comma", "encoding": "utf-8"}
    client.follow(client.post(at(client, "/written"), fields))
    assert client.work.more["data"].columns[0].kind == "number"
    assert client.work.reading.decimal == ","


@pytest.mark.parametrize(
    ("cells", "decimal", "chosen", "sign"),
    [
        (("1,500", "2,500"), "comma", "none", ""),
        (("1,500", "2,500"), "point", "comma", ","),
        (("1 500", "2 500"), "point", "space", " "),
        (("1'500", "2'500"), "point", "apostrophe", "'"),
        (("1.500", "2.500"), "comma", "point", "."),
        (("1,500", "2,500"), "comma", "", None),
    ],
)
def test_what_is_between_thousands_is_kept_as_it_was_said(client, cells, decimal, chosen, sign):
    taken(client, "x;y\n{};2\n{};3\n".format(*cells))
    fields = {"separator": "semicolon", "decimal": decimal, "encoding": "utf-8"}
    answer = client.post(at(client, "/written"), fields | {"thousands": chosen})
    page = client.follow(answer).text
    assert client.work.reading.thousands == sign
    (choice,) = re.findall(r'name="thousands".*?</select>', page, re.DOTALL)
    assert f'<option value="{chosen}" selected>' in choice
    assert client.work.more["data"].columns[0].kind == "number"
    assert ("decimal commas or stand" in page) == (sign is None)  # what is stated is not asked


def test_what_is_corrected_wrongly_is_said_and_nothing_changes(client):
    taken(client, MESSY)
    fields = {"separator": "comma", "decimal": "point", "encoding": "utf-8"}
    refused(client.post(at(client, "/written"), fields), "people.csv")
    assert client.work.reading.separator == ";"
    fields = {"separator": "semicolon", "decimal": "comma", "encoding": "klingon"}
    refused(client.post(at(client, "/written"), fields), "no encoding known here")


def test_quoted_decimal_commas_between_commas_can_be_confirmed(client):
    taken(client, 'x,y\n"1,5",2\n"2,5",3\n')
    fields = {"separator": "comma", "decimal": "comma", "encoding": "utf-8"}
    assert client.post(at(client, "/written"), fields).status_code == 303
    assert client.work.more["data"].columns[0].kind == "number"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_alphabets(client, encoding):
    taken(client, ("Größe,y\n" + "1,2\n2,3\n4,4\n" * 9).encode(encoding))
    answer = done(client, **{"role-0": "public", "role-1": "private", "low-1": "0", "high-1": "9"})
    assert planned(client, answer).model.features == ("Größe",)


def test_a_sheet_is_chosen(client):
    book = openpyxl.Workbook()
    book.active.append(["note"])
    book.active.append(["nothing here"])
    sheet = book.create_sheet("people")
    for row in [["x", "y"], *[[k, 2 * k % 7] for k in range(30)]]:
        sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    page = taken(client, file.getvalue(), "book.xlsx")
    assert "people" in page
    client.follow(client.post(at(client, "/written"), {"sheet": "people"}))
    spec = planned(client, done(client, **{
        "role-0": "public", "role-1": "private", "low-1": "0", "high-1": "9",
    }))  # fmt: skip
    assert spec.format.sheet == "people"


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz", "a.tsv", "a.txt"])
def test_kinds_of_files(client, name, tmp_path):
    frame = pd.read_csv(io.StringIO(PEOPLE))
    path = tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    elif name.endswith("gz"):
        path.write_bytes(gzip.compress(PEOPLE.encode()))
    else:
        frame.to_csv(path, sep="\t" if "tsv" in name else ";", index=False)
    taken(client, path.read_bytes(), name)
    assert client.work.table.path.name.endswith(name[1:])
    assert planned(client, done(client, **LDL)).data == name


# --- what the columns are -------------------------------------------------------------------------


def test_roles_become_a_plan(client):
    taken(client, PEOPLE)
    spec = planned(client, done(client, **LDL | {"role-1": "public", "lists_public": "yes",
                                                 "list-1": "m\r\nf\r\n"}))  # fmt: skip
    assert (spec.targets[0], spec.model.features) == ("ldl", ("age", "sex"))
    assert spec.model.categories == {"sex": ("m", "f")}, "the first is the baseline, as it was put"
    assert spec.privacy.delta == 1e-6
    assert client.work.plan.spec == spec
    assert client.work.steps["privacy"]


def test_everything_that_can_be_stated(client, tmp_path):
    (tmp_path / "public.csv").write_text(PEOPLE.replace(".5,", ".25,"))
    taken(client, PEOPLE)
    spec = planned(client, done(client, **LDL | {
        "role-4": "person", "most": "3", "logarithm": "yes", "gaps": "refuse",
        "reference": "public.csv", "codes": "77777; age=999", "family": "gaussian",
    }))  # fmt: skip
    assert (spec.model.person, spec.model.most_rows) == ("id", 3)
    assert (spec.model.transform, spec.model.missing) == ("log", "refuse")
    assert spec.public.reference == str(tmp_path / "public.csv")
    assert spec.format.missing_codes == ("77777", "age=999")


def test_weights_and_a_mean(client):
    taken(client, PEOPLE)
    spec = planned(client, done(client, **LDL | {"role-0": "weight"}))
    assert (spec.model.weights, spec.model.features) == ("age", ())


def test_a_yes_or_no_has_its_range_and_coins(client):
    taken(client, PEOPLE)
    spec = planned(client, done(client, **{"role-3": "private", "role-0": "public"}))
    assert (spec.model.family, spec.privacy.range, spec.privacy.delta) == (
        "binomial",
        {"sick": (0.0, 1.0)},
        None,
    )


def test_several_private_columns(client):
    taken(client, PEOPLE)
    spec = planned(client, done(client, **LDL | {"role-0": "private", "low-0": "0",
                                                 "high-0": "120", "role-3": "public"}))  # fmt: skip
    assert spec.targets == ("age", "ldl")
    assert spec.privacy.range == {"age": (0.0, 120.0), "ldl": (20.0, 400.0)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Say which column is private"),
        ({"role-0": "public"}, "Say which column is private"),
        ({"role-2": "private"}, "needs its public range"),
        (LDL | {"high-2": ""}, "needs its public range"),
        (LDL | {"high-2": "a lot"}, "Each end of the range of 'ldl' must be a number"),
        (LDL | {"high-2": "nan"}, "Each end of the range of 'ldl' must be a number"),
        (LDL | {"high-2": "1e999"}, "Each end of the range of 'ldl' must be a number"),
        (LDL | {"high-2": "10"}, "range"),
        (LDL | {"role-1": "public"}, "are public knowledge"),
        (LDL | {"role-1": "public", "lists_public": "yes", "list-1": ""}, "needs its public list"),
        (LDL | {"role-1": "public", "lists_public": "yes", "list-1": "f"}, "must be two or more"),
        (LDL | {"role-1": "public", "lists_public": "yes", "list-1": "f\nx"}, "public list of 2"),
        ({"role-1": "private", "low-1": "0", "high-1": "1"}, "holds texts"),
        (LDL | {"role-1": "person", "role-4": "person"}, "One column says whose row it is; 2"),
        (LDL | {"role-0": "weight", "role-3": "weight"}, "One column is the weight; 2"),
        (LDL | {"role-0": "secret"}, "must be one of"),
        (LDL | {"family": "normal"}, "must be one of"),
        (LDL | {"gaps": "guess"}, "must be one of"),
        (LDL | {"noise_variance": "-1"}, "residual_variance"),
        (LDL | {"noise_variance": "1", "reference": "people.csv"}, "There is no such file"),
        (LDL | {"codes": "bmi=999"}, "no column 'bmi'"),
        (LDL | {"codes": "150"}, "is a value that 'ldl' can have"),
        (LDL | {"logarithm": "yes", "low-2": "0"}, "range above 0"),
        (LDL | {"role-4": "person", "most": "2.5"}, "whole number"),
        (LDL | {"role-4": "person", "family": "poisson"}, "several rows"),
    ],
)  # fmt: skip
def test_what_does_not_fit_comes_back_with_what_was_typed(client, changes, said):
    taken(client, PEOPLE)
    page = refused(done(client, **changes), said)
    assert client.work.plan is None
    kept = roles(client, page)
    marked = re.findall(
        r'<(?:input|select|textarea)[^>]*id="([^"]+)"[^>]*aria-invalid="true"', page
    )
    assert marked == re.findall(r'href="#([^"]+)">Go to the field', page)
    for name, value in changes.items():
        if name in kept and value not in ("normal", "guess", "secret"):
            assert kept[name] == [value], name
    assert client.work.table.path.name not in page


def test_words_among_numbers_must_be_explained(client):
    rows = "".join(f"{k},{k}.5\n" for k in range(40))
    taken(client, "x,y\n" + rows + "soon,1.5\n7,n/k\n")
    ends = {"role-0": "public", "role-1": "private", "low-1": "0", "high-1": "99", "gaps": "drop"}
    refused(done(client, **ends), "'x' has words among its numbers, in 1 row.")
    fields = roles(client) | ends | {"codes-0": "0"}
    spec = planned(client, client.post(at(client), fields))
    assert set(spec.format.missing_codes) == {"x=soon", "y=n/k"}


def _words(*cells):
    """A column x of numbers and y of them, with some words in y."""
    rows = [(k, f"{k}.5") for k in range(40)] + [(k, cell) for k, cell in enumerate(cells)]
    return "x,y\n" + "".join(f"{x},{y}\n" for x, y in rows)


YX = {"role-0": "public", "role-1": "private", "low-1": "0", "high-1": "99", "gaps": "drop"}


def test_ticked_codes_are_public_and_the_screen_says_so(client):
    page = taken(client, _words("<LOD", "<LOD", "<LOD"))
    assert "What is ticked is stated in the plan, which is public" in page
    spec = planned(client, done(client, **YX | {"codes-1": "0"}))
    assert spec.format.missing_codes == ("y=<LOD",)


@pytest.mark.parametrize(
    "cells", [["Ms Jones"], ["Ms Jones"] * 2, ["Ms Jones of the third ward"] * 3, ["b=NA"] * 3]
)
@pytest.mark.parametrize("role", ["private", "person", "weight"])
def test_what_somebody_wrote_is_no_code_of_a_private_column(client, cells, role):
    """Not even where a form says that it was ticked: a plan is public."""
    taken(client, _words(*cells))
    fields = YX | {"codes-1": "0"}
    if role == "private":
        refused(done(client, **fields), f"in {len(cells)} row{'s' * (len(cells) > 1)}. One that is")
        assert client.work.spec is None
        return
    ends = {"role-0": "private", "low-0": "0", "high-0": "99", "role-1": role}
    answer = done(client, **fields | ends)
    assert client.work.spec is None or not client.work.spec.format.missing_codes
    assert "Jones" not in str(client.work.spec)
    assert answer.status_code in (303, 422)


def test_only_plain_codes_are_offered_where_a_column_is_private(client):
    page = taken(client, _words("Ms Jones", "refused", "<LOD", "<LOD", "<LOD"))
    found = re.findall(r'<label( class="of-public")?><input[^>]* name="codes-1" value="(.)"', page)
    assert found == [(' class="of-public"', "0"), ("", "1"), ("", "2")]
    said = refused(done(client, **YX | {"codes-1": ["1"]}), "Tick those that stand")
    assert "is not offered as a code" in said


def test_a_word_with_an_equals_sign_is_not_said_to_be_there_to_tick(client):
    taken(client, _words("b=NA").replace("x,y", "y,a=b"))
    ends = {"role-0": "private", "low-0": "0", "high-0": "99", "role-1": "public"}
    said = refused(done(client, **ends), "'a=b' has words among its numbers, in 1 row. One with")
    assert "Tick those" not in said


@pytest.mark.parametrize("role", ["public", "private", "person", "weight"])
def test_a_column_without_values_is_said_to_be_empty(client, role):
    page = taken(client, "x,y\n" + "".join(f",{k}\n" for k in range(30)))
    assert "empty: no row has a value" in page
    ends = {"role-1": "private", "low-1": "0", "high-1": "40", "role-0": role}
    refused(done(client, **ends), "'x' is empty")


def test_durations_and_texts_of_digits_are_no_numbers(client):
    """What the reader would refuse is refused here, before there is a plan."""
    frame = pd.DataFrame({"x": range(30), "took": pd.to_timedelta(range(30), "D"),
                          "y": [f"{k}.5" for k in range(30)]})  # fmt: skip
    file = io.BytesIO()
    frame.to_parquet(file)
    assert "holds durations" in taken(client, file.getvalue(), "a.parquet")
    ends = {"role-0": "public", "role-1": "private", "low-1": "0", "high-1": "99"}
    refused(done(client, **ends), "holds durations")
    ends = {"role-0": "public", "role-2": "private", "low-2": "0", "high-2": "99"}
    refused(done(client, **ends), "holds texts")


def test_a_code_that_a_reading_can_be_is_no_code(client):
    rows = "".join(f"{k % 9},{k % 5}\n" for k in range(90)) + "3,99\n4,99\n"
    taken(client, "x,y\n" + rows)
    ends = {"role-0": "public", "role-1": "private", "low-1": "0", "high-1": "150"}
    refused(done(client, **ends), "missing code 99 is a value that 'y' can have")


def test_the_table_itself_is_no_reference(client, tmp_path):
    (tmp_path / "copy.csv").write_text(PEOPLE)
    taken(client, PEOPLE)
    refused(done(client, **LDL | {"reference": "copy.csv"}), "the private table itself")


def send_public(client, content, name="public.csv"):
    """With a range and more typed, which are not sent on their own."""
    fields = {name: values[0] for name, values in roles(client).items() if name != "public"}
    files = {"public": (name, content.encode())} if name else None
    return client.post(at(client, "/reference"), fields | LDL | {"most": "3"}, files=files)


def test_a_reference_can_be_sent_and_what_was_typed_stays(client):
    taken(client, PEOPLE)
    page = client.follow(send_public(client, PEOPLE.replace(".5,", ".25,"))).text
    typed = roles(client, page)
    assert (typed["reference"], typed["most"], typed["high-2"]) == (["public.csv"], ["3"], ["400"])
    spec = planned(client, done(client))
    assert spec.public.reference.startswith(str(client.desk.private))
    assert client.work.plan.column.reference_rows == 60
    along = client.get(f"/work/{client.work.id}/take").text
    assert "public.csv" in along
    assert str(client.desk.private) not in along
    client.post(at(client, "/another"))
    assert os.listdir(client.desk.private) == ["alive"]


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (PEOPLE, "public.csv", "the private table itself"),
        ("x,y\n1,2\n", "people.csv", "has the name of the table"),
        ("x", "public.doc", "a table can be .csv"),
        ("x", "ä" * 190 + ".csv", "could not be kept"),
        ("", "", "Choose the public file first"),
    ],
)
def test_a_reference_that_is_none_is_not_kept(client, content, name, said):
    taken(client, PEOPLE)
    page = refused(send_public(client, content, name), said)
    assert roles(client, page)["high-2"] == ["400"]
    assert len(os.listdir(client.desk.private)) == 2, "the table and the lock"


def test_rows_are_left_out_only_where_a_form_says_so(client):
    taken(client, "age,ldl\n" + "".join(f"{20 + k},{100 + k}\n" for k in range(40)))
    form = {name: value for name, value in roles(client).items() if name != "gaps"}
    answer = client.post(at(client), form | {"role-0": "public", "role-1": "private",
                                             "low-1": "20", "high-1": "400"})  # fmt: skip
    assert planned(client, answer).model.missing == "refuse"


def test_gaps_in_the_features_are_left_out_or_refused(client):
    taken(client, PEOPLE.replace("\n27,", "\n,", 1))
    assert roles(client)["gaps"] == ["drop"]
    refused(done(client, **LDL | {"gaps": "refuse"}), "a value is missing")
    planned(client, done(client, **LDL | {"gaps": "drop"}))
    assert client.work.plan.dropped == 1


def test_dates_are_no_features(client):
    taken(client, "day,y\n" + "".join(f"2024-01-{k:02d},{k}\n" for k in range(1, 29)))
    changes = {"role-0": "public", "role-1": "private", "low-1": "0", "high-1": "40", "list-0": ""}
    refused(done(client, **changes), "days since a public day")


def test_the_level_that_was_chosen_stays_if_nothing_else_changes(client):
    from dataclasses import replace

    taken(client, PEOPLE)
    planned(client, done(client, **LDL))
    chosen = replace(client.work.spec, privacy=replace(client.work.spec.privacy, level=0.5))
    client.work.spec, client.work.plan = chosen, make_plan(chosen, client.work.table.data)
    client.work.released = client.folder / "release.csv"
    assert planned(client, done(client, **LDL)).privacy.level == 0.5
    assert client.work.released is not None
    assert planned(client, done(client, **LDL | {"high-2": "500"})).privacy.level != 0.5
    assert client.work.released is None, "it was of another plan"


def test_wide_tables_show_some_columns_and_others_by_name(client):
    names = [f"c{k}" for k in range(1200)]
    rows = ["\n".join(",".join(str((k * j) % 7) for j in range(1200)) for k in range(20))]
    page = taken(client, ",".join(names) + "\n" + rows[0] + "\n")
    assert "1100 more columns" in page
    fields = roles(client) | {"further": "c1100\nnobody", "show": "yes"}
    page = client.follow(client.post(at(client), fields)).text
    assert 'id="role-1100"' in page
    fields = roles(client) | {"role-1100": "private", "low-1100": "0", "high-1100": "6"}
    assert planned(client, client.post(at(client), fields)).targets[0] == "c1100"


def test_readings_are_on_this_screen_only(client):
    page = taken(client, PEOPLE.replace("100.5", SENTINEL, 1))
    assert SENTINEL in page
    planned(client, done(client, **LDL))
    assert SENTINEL not in str(client.work.spec) + str(client.work.typed)
    assert SENTINEL not in repr(client.work)
    assert SENTINEL not in client.get("/").text


def test_a_form_that_is_too_large_is_refused(client):
    taken(client, PEOPLE)
    refused(done(client, **LDL | {"codes": "x" * 200_000}), "too long")
    assert client.post(at(client), {"codes": "x" * 5_000_000}).status_code == 413
    many = {f"f{k}": "" for k in range(6000)}
    assert client.post(at(client), many).status_code in (400, 422)
    assert client.work.plan is None


def test_nothing_changes_while_a_release_is_made(client):
    taken(client, PEOPLE)
    planned(client, done(client, **LDL))
    before = client.work.table, client.work.plan
    client.work.more["job"] = SimpleNamespace(running=True)
    refused(send(client, PEOPLE, "other.csv"), "is being made")
    refused(client.post(at(client, "/another")), "is being made")
    refused(client.post(at(client, "/written"), {"separator": "comma"}), "is being made")
    refused(done(client, **LDL | {"high-2": "500"}), "is being made")
    assert (client.work.table, client.work.plan) == before
    assert len(os.listdir(client.desk.private)) == 2, "the other file is gone"
    client.work.more["job"].running = False
    assert client.post(at(client, "/another")).status_code == 303


def test_two_pieces_of_work_do_not_meet(client):
    taken(client, PEOPLE)
    other = client.desk.begin()
    answer = client.post(f"/work/{other.id}/data/example")
    assert client.follow(answer).status_code == 200
    assert (client.work.table.name, other.table.name) == ("people.csv", "diabetes")


def test_work_that_was_cleared_away_takes_no_table(client):
    client.desk.clear(client.work)
    assert send(client, PEOPLE).status_code == 404
    assert os.listdir(client.desk.private) == ["alive"]


# --- the file is changed after the plan was made --------------------------------------------------


def by_path(client, content=PEOPLE):
    """A plan of a file of the user, which is read where it lies."""
    file = client.folder / "people.csv"
    file.write_text(content)
    client.follow(client.post(at(client, "/path"), {"path": "people.csv"}))
    stated = {"role-0": "public", "role-2": "private", "low-2": "0", "high-2": "300"}
    answer = done(client, **stated, noise_variance="400")
    assert answer.headers["location"].endswith("/privacy")
    return file


def test_a_changed_file_is_looked_at_again_and_planned_again(client):
    file = by_path(client)
    work = client.work
    before, half = work.plan, PEOPLE.splitlines()[:31]
    assert "changed since" not in client.get(at(client)).text
    file.write_text("\n".join(half))
    page = client.get(at(client)).text
    assert "people.csv was changed since the plan was made" in page
    assert "Here is the file as it is now" in page
    assert "30 rows, 5 columns" in page
    assert done(client).headers["location"].endswith("/privacy")  # the form as it stood
    assert (before.rows, work.plan.rows) == (60, 30)
    assert "changed since" not in client.get(at(client)).text


def test_a_file_with_other_columns_is_chosen_again(client):
    """What was typed goes by the places of columns: it must not go to others."""
    file = by_path(client)
    kept = client.work.more[LOOK]
    lines = [line.split(",")[::-1] for line in PEOPLE.splitlines()]
    file.write_text("\n".join(",".join(cells) for cells in lines))
    page = client.get(at(client)).text
    assert "It has other columns now" in page
    assert client.work.more[LOOK] is kept
    done(client)
    assert client.work.spec.targets == ("ldl",)  # by its name, wherever it is now


def test_a_file_that_is_gone_is_said_so(client):
    by_path(client).unlink()
    assert "people.csv does not exist" in client.get(at(client)).text
