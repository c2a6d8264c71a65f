"""The NHANES loader: 2704 people from three formats, and clear refusals."""

import lzma

import numpy as np
import pytest

from privest.data import load_diabetes
from privest.data.frames import Table
from privest.data.nhanes import load_nhanes
from privest.data.source import open_source
from privest.errors import InvalidInput
from shared_data import FOLDER, RAW, needs_nhanes

TABLES = {
    "DEMO_G": "SEQN,RIAGENDR,RIDAGEYR,INDFMPIR\n3,2,40,0\n1,1,22,3.15\n2,2,80,NA\n4,1,12,5\n",
    "BMX_G": "SEQN,BMXWT,BMXBMI\n1,70,23.3\n3,80,30.5\n4,60,20\n2,60,21\n",
    "TRIGLY_G": "SEQN,LBXTR,LBDTRSI\n4,,\n3,150,1.6\n1,84,0.948\n2,90,1\n",
}


def write(folder, ending=".csv", **changes):
    for name, text in (TABLES | changes).items():
        if ending.endswith(".xz"):
            with lzma.open(folder / f"{name}{ending}", "wt", encoding="utf-8") as file:
                file.write(text)
        else:
            (folder / f"{name}{ending}").write_text(text, encoding="utf-8")
    return folder


def to_transport(source, target, columns):
    """The columns of a csv table as a SAS transport file, version 5 as the CDC's."""
    pyreadstat, pandas = pytest.importorskip("pyreadstat"), pytest.importorskip("pandas")
    frame = pandas.DataFrame(open_source(source).read(columns))
    pyreadstat.write_xport(frame, str(target), table_name="TABLE", file_format_version=5)


@pytest.mark.parametrize("ending", [".csv", ".csv.xz", ".CSV"])
def test_merge_and_complete_cases(tmp_path, ending):
    """Order of SEQN, whatever that of the files; rows with a gap anywhere are left out."""
    table = load_nhanes(write(tmp_path, ending))
    assert table.response.tolist() == [84.0, 150.0]
    assert table.features.tolist() == [[22.0, 23.3, 0.0, 3.15], [40.0, 30.5, 1.0, 0.0]]
    assert len(table) == 2
    assert "84" not in repr(table)


def test_transport_files_keep_zero_and_come_first(tmp_path):
    """0.0 stays 0.0 (pandas' reader makes 5.4e-79 of it), missing stays missing."""
    write(tmp_path)
    for name, columns in (
        ("DEMO_G", ("SEQN", "RIAGENDR", "RIDAGEYR", "INDFMPIR")),
        ("BMX_G", ("SEQN", "BMXBMI")),
        ("TRIGLY_G", ("SEQN", "LBXTR")),
    ):
        to_transport(tmp_path / f"{name}.csv", tmp_path / f"{name}.XPT", columns)
    plain = tmp_path / "csv"
    plain.mkdir()
    from_csv = load_nhanes(write(plain))
    (tmp_path / "BMX_G.csv").write_text("SEQN,BMXBMI\n")  # not read: there is a transport file
    table = load_nhanes(tmp_path)
    np.testing.assert_array_equal(table.features, from_csv.features)
    np.testing.assert_array_equal(table.response, from_csv.response)


@needs_nhanes
def test_the_cycle_of_the_paper_has_2704_people(tmp_path):
    table = load_nhanes(RAW)
    assert len(table) == 2704
    whole = np.genfromtxt(FOLDER / "nhanes_triglycerides.csv", delimiter=",", names=True)
    np.testing.assert_array_equal(table.response, whole["LBXTR"])
    columns = [whole["RIDAGEYR"], whole["BMXBMI"], whole["RIAGENDR"] - 1, whole["INDFMPIR"]]
    np.testing.assert_array_equal(table.features, np.column_stack(columns))
    assert table.features[:, 3].min() == 0.0
    # the same people through transport files
    for name, wanted in (
        ("DEMO_G", ("SEQN", "RIAGENDR", "RIDAGEYR", "INDFMPIR")),
        ("BMX_G", ("SEQN", "BMXBMI")),
        ("TRIGLY_G", ("SEQN", "LBXTR")),
    ):
        to_transport(RAW / f"{name}.csv.xz", tmp_path / f"{name}.xpt", wanted)
    other = load_nhanes(tmp_path)
    np.testing.assert_array_equal(other.response, table.response)
    np.testing.assert_array_equal(other.features, table.features)


def test_bad_folders_and_files_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="is not a folder"):
        load_nhanes(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match=r"no table DEMO_G, BMX_G, TRIGLY_G \(each as .xpt"):
        load_nhanes(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("BMX_G", "SEQN,BMXWT\n1,70\n", "has no column 'BMXBMI'; its first line names 2 columns"),
        ("BMX_G", "SEQN,BMXBMI\n1,heavy\n", "column 'BMXBMI', row 1: not a number"),
        ("BMX_G", "SEQN,BMXBMI\n1\n", "row 1 .*: 1 fields where the header has 2"),
        ("BMX_G", "SEQN,BMXBMI\n1,20\n1,21\n", "SEQN is missing or repeated"),
        ("BMX_G", "SEQN,BMXBMI\n77,20\n", "no person is in all three tables"),
        ("BMX_G", "", "is empty: a table has a line of column names"),
        ("TRIGLY_G", "SEQN,LBXTR\n1,0\n3,5\n", r"must be > 0 for every person; 1 are not"),
        (
            "DEMO_G",
            "SEQN,RIAGENDR,RIDAGEYR,INDFMPIR\n1,7,20,1\n3,1,30,2\n",
            r"RIAGENDR must be 1 \(male\) or 2",
        ),
    ],
)
def test_bad_tables_are_named_without_their_values(tmp_path, name, text, match):
    with pytest.raises(InvalidInput, match=match) as refused:
        load_nhanes(write(tmp_path, **{name: text}))
    assert "heavy" not in str(refused.value)


def test_damaged_files(tmp_path):
    write(tmp_path, ".csv.xz")
    whole = (tmp_path / "BMX_G.csv.xz").read_bytes()
    (tmp_path / "BMX_G.csv.xz").write_bytes(whole[:40])
    with pytest.raises(InvalidInput, match="is damaged, or not what its name says"):
        load_nhanes(tmp_path)
    (tmp_path / "BMX_G.xpt").write_bytes(b"not a transport file" * 20)
    pytest.importorskip("pyreadstat")
    with pytest.raises(InvalidInput, match="not a SAS transport file"):
        load_nhanes(tmp_path)


def test_the_embedded_data():
    table = load_diabetes()
    assert table.features.shape == (442, 4)
    assert table.logarithm
    assert set(np.unique(table.features[:, 1])) == {0.0, 1.0}
    # ltg lies where logarithms of mg/dL lie: exp of it between 20 and 500
    assert 20 < np.exp(table.response.min()) < np.exp(table.response.max()) < 500


def test_tables_are_checked():
    with pytest.raises(InvalidInput, match=r"must have shape \(2, 1\).*received \(2, 2\)"):
        Table(np.ones(2), np.ones((2, 2)), "y", ("a",), "test")
    with pytest.raises(InvalidInput, match="must be finite"):
        Table(np.array([1.0, np.nan]), np.ones((2, 1)), "y", ("a",), "test")
