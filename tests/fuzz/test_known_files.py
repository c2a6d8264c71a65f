"""Files that once were too much: a documented error, soon, and in little memory."""

import contextlib
import gzip
import io
import json
import re
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import privest as pv
import workflow_inside as workflow
from fuzz.limited import MIB, memory
from fuzz.readers import (
    GAUSSIAN,
    LEVELS,
    RELEASED,
    STREAM,
    _checkpoint,
    made,
    save_checkpoint,
)
from privest.data.source import open_source
from privest.errors import CheckpointError, InvalidInput
from privest.network._sensor import SensorRelease
from privest.reading import MOST_COLUMNS, parse_json, parse_toml, read_arrays, read_numbers
from privest.streaming import read_table

LITTLE = 256 * MIB


@pytest.fixture(autouse=True)
def _little_memory():
    with memory(LITTLE):
        yield


def refused(act, *given, match=None, error=InvalidInput):
    with pytest.raises(error, match=match):
        act(*given)


# --- documents ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("deep.toml", "a = " + "[" * 100_000, "nested"),
        ("tables.toml", "a = " + "{b = " * 50_000, "nested"),
        ("dotted.toml", ".".join("a" * 30_000) + " = 1", "nested"),
        ("header.toml", "[" + ".".join('"a"' for _ in range(9_000)) + "]", "nested"),
        ("digits.toml", "a = " + "1" * 100_000, "no meaning"),
        ("zero.toml", "a = 1\0", "zero bytes"),
        ("old.yaml", "data: a\n", "Write it as TOML"),
    ],
)
def test_plans(tmp_path, name, text, match):
    (tmp_path / name).write_text(text)
    refused(workflow.load_spec, tmp_path / name, match=match)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_toml, "\n".join(f"[{i:x}{'.a' * 31}]" for i in range(200))),
        (parse_toml, "\n".join(f"{i:x}{'.a' * 31} = 1" for i in range(200))),
        (parse_json, "[" + "{}," * 20_000 + "0]"),
    ],
)
def test_memory_is_a_multiple_of_the_text(parse, text):
    """The worst that was found for each format: at most 500 bytes a byte."""
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidInput):
            parse(text, "it")
        assert tracemalloc.get_traced_memory()[1] < 500 * len(text)
    finally:
        tracemalloc.stop()


def test_dots_within_values_are_no_dotted_key():
    numbers = ", ".join(["1.5"] * 500)
    assert len(parse_toml(f"A = [{numbers}]\nb = '{'a ' * 50}'", "it")["A"]) == 500


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, "[" * 40 + "]" * 40, '{"a": 1, "a": 2}', "NaN", "[Infinity]",
     "1" * 5000, '"\\ud800"', '{"\\udfff": 1}', "", "{", "\ufeff{}"],
)  # fmt: skip
def test_json_that_is_none(text):
    refused(parse_json, text)


def test_a_document_of_many_lists_is_refused_before_it_is_used():
    refused(parse_json, "[" + ",".join(["[]"] * 3) + ",{}" * 3 + "", match="not JSON")
    assert parse_json("[[1.0, null], [2, 3]]") == [[1.0, None], [2, 3]]


def test_endless_and_special_files(tmp_path):
    for act in (workflow.load_spec, read_archive):
        refused(act, Path("/dev/zero"), match=r"more than|not an archive")
        refused(act, tmp_path, match="cannot read")
        refused(act, "a\0b", match="zero byte")
    refused(open_source, "/dev/zero")
    refused(read_table, "/dev/zero", match="zero bytes")
    refused(_resumed, Path("/dev/zero"), error=CheckpointError)


def read_archive(path):
    return read_arrays(path, "an archive")


def _resumed(path, stream=0):
    mechanism = pv.StreamMechanism(LEVELS[0])
    with pv.Checkpoint(path, mechanism=mechanism, source=np.random.default_rng(0)) as kept:
        kept.resume()


# --- archives -------------------------------------------------------------------------------------


def _archive(path, packed=False, **arrays):
    save = np.savez_compressed if packed else np.savez
    with path.open("wb") as file:
        save(file, **arrays)
    return path


def test_an_archive_that_unpacks_to_much(tmp_path):
    path = _archive(tmp_path / "level", packed=True, endless=np.zeros((1, 10**7, 1)))
    assert path.stat().st_size < MIB
    refused(read_archive, path, match="packed")


def test_an_archive_that_says_it_is_large(tmp_path):
    """In the header of an array, and in the directory of the archive."""
    good = _archive(tmp_path / "good", part=np.ones((1, 1, 1))).read_bytes()
    parts = {}
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for shape in (b"(1000000000000, 1, 1)", b"(-1, 1, 1)", b"(0, 1000000000000, 1)"):
        path = tmp_path / "level"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, data.replace(b"(1, 1, 1)", shape))
        refused(read_archive, path, match="the shape of an array|as numpy writes it")
    sizes = bytearray(good)
    at = sizes.rindex(b"PK\x01\x02")
    sizes[at + 20 : at + 28] = b"\xff\xff\xff\x7f" * 2  # packed and unpacked, in the directory
    (tmp_path / "sizes").write_bytes(sizes)
    refused(read_archive, tmp_path / "sizes", match="larger than it is|damaged")


def test_an_archive_whose_parts_lie_within_each_other(tmp_path):
    """A hundred arrays in the bytes of one: each begins within the one before and ends with it."""
    last = _npy(bytes(4 * MIB))
    inside, parts = b"", []
    for k in reversed(range(100)):
        data = last if not inside else _npy(inside)
        named = f"a{k:03d}.npy".encode(), zlib.crc32(data), len(data)
        head = _record(*named)
        parts.insert(0, (named, len(head) + len(data) - len(inside)))
        inside = head + data
    out, at = io.BytesIO(), 0
    out.write(inside)
    for named, step in parts:
        out.write(_record(*named, at))
        at += step
    size = out.tell() - len(inside)
    out.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 100, 100, size, len(inside), 0))
    (tmp_path / "level").write_bytes(out.getvalue())
    refused(read_archive, tmp_path / "level", match="larger than it is")


def _npy(payload):
    out = io.BytesIO()
    np.save(out, np.frombuffer(payload, dtype=np.uint8))
    return out.getvalue()


def _record(name, crc, size, at=None):
    """Of a part that is not packed: before its bytes, or (with their place) in the directory."""
    common = (20, 0, 0, 0, 0x21, crc, size, size, len(name), 0)
    if at is None:
        return struct.pack("<4s5H3L2H", b"PK\x03\x04", *common) + name
    return struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *common, 0, 0, 0, 0, at) + name


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    for name, act in (("level", read_archive), ("plan.toml", workflow.load_spec)):
        with (tmp_path / name).open("wb") as file:
            file.write(b"PK\x03\x04")
            file.truncate(3 << 30)  # a hole: it takes no room on the disk
        refused(act, tmp_path / name, match="has more than")


# --- checkpoints ----------------------------------------------------------------------------------


def _changed(data, **changes):
    """The archive with arrays and fields of its header changed."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays["header"].tobytes())
    for name, change in changes.items():
        name = name.replace("__", ".")
        if name in arrays:
            arrays[name] = change(arrays[name])
        else:
            header[name] = change(header[name])
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


@pytest.mark.parametrize(
    ("stream", "changes"),
    [
        (0, {"mechanism__steps": lambda a: a * 0 - 3}),
        (0, {"mechanism__steps": lambda a: a * 1.0}),
        (0, {"mechanism__past": lambda a: np.zeros(3)}),
        (1, {"mechanism__past": lambda a: a[:-1]}),
        (2, {"mechanism__past": lambda a: a[None]}),
        (2, {"mechanism__steps": lambda a: a + 1}),
        (4, {"mechanism__steps": lambda a: a + 100}),
        (0, {"estimator__steps": lambda a: a * 0 - 3}),
        (0, {"estimator__readings": lambda a: a + 1}),
        (0, {"estimator__facts": lambda a: a[:2]}),
        (0, {"estimator__fit.triangle": lambda a: a[:-1]}),
        (0, {"estimator__fit.triangle": lambda a: a * np.nan}),
        (0, {"estimator__fit.natural": lambda a: a[None]}),
        (0, {"estimator__fit.full": lambda a: a * 1.0}),
        (0, {"estimator__fit.growth": lambda a: np.array(np.inf)}),
        (0, {"estimator__window": lambda a: np.ones(7, bool)}),
        (1, {"estimator__rows.lower": lambda a: a * 0}),
        (1, {"estimator__rows.white": lambda a: a[:, :1]}),
        (2, {"estimator__rows.scaled": lambda a: a[:-1]}),
        (2, {"estimator__rows.right": lambda a: a[:-1]}),
        (2, {"estimator__absent": lambda a: np.array([5])}),
        (0, {"source": lambda s: s | {"state": {"key": s["state"]["key"], "pos": 10**6}}}),
        (0, {"source": lambda s: s | {"state": {"key": s["state"]["key"], "pos": -1}}}),
        (0, {"source": lambda s: {"bit_generator": "MT19937"}}),
        (1, {"source": lambda s: s | {"has_uint32": 7}}),
        (2, {"source": lambda s: {"bit_generator": s["bit_generator"]}}),
        (3, {"source": lambda s: s | {"buffer_pos": 99}}),
        (0, {"pending": lambda p: p | {"start": 10**9}}),
        (0, {"pending": lambda p: p | {"fingerprint": "0" * 16}}),
        (0, {"pending": lambda p: []}),
        (0, {"notes": lambda n: [1, 2]}),
        (0, {"version": lambda v: "2"}),
    ],
)
def test_a_state_that_does_not_fit_is_refused_when_it_is_taken_up(tmp_path, stream, changes):
    path = tmp_path / "checkpoint"
    path.write_bytes(_changed(made(lambda file: save_checkpoint(file, stream)), **changes))
    kept, *_ = _checkpoint(path, stream)
    with kept, pytest.raises(CheckpointError):
        kept.resume()


def test_a_short_key_of_a_generator(tmp_path):
    data = made(lambda file: save_checkpoint(file, 0))

    def short(source):
        source["state"]["key"]["array"] = source["state"]["key"]["array"][:3]
        return source

    def vast(source):
        source["state"]["key"]["dtype"] = "S1000000000"
        return source

    for change in (short, vast):
        path = tmp_path / change.__name__
        path.write_bytes(_changed(data, source=change))
        kept, *_ = _checkpoint(path, 0)
        with kept, pytest.raises(CheckpointError):
            kept.resume()


def test_an_estimator_keeps_its_state_when_another_is_refused():
    rls = pv.PrivateRLS(LEVELS[0], 1, GAUSSIAN)
    rls.update(pv.StreamMechanism(LEVELS[0]).simulate(1.0, np.random.default_rng(0)), [1.0])
    before = {name: array.copy() for name, array in rls.state().items()}
    refused(rls.restore, before | {"window": np.ones(3)})
    assert all(np.array_equal(array, before[name]) for name, array in rls.state().items())


def test_notes_that_could_not_be_read_back_are_refused_when_saving(tmp_path):
    mechanism = pv.StreamMechanism(LEVELS[0])
    path = tmp_path / "kept"
    with pv.Checkpoint(path, mechanism=mechanism, source=np.random.default_rng(0)) as kept:
        kept.resume()
        for notes in ({"a": float("nan")}, {"a": object()}, {"a": "\ud800"}):
            refused(lambda notes=notes: kept.save(notes=notes))
    assert not path.exists()


# --- releases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [float("inf"), [float("inf")] * 3, [10**400, 0, 0], [[1.0, 2.0, 3.0]], [[1.0], [2.0], [3.0]],
     [True, 1.0, 2.0], ["1", "2", "3"], [[], [], []], {"0": 1.0}, 1e308, [1.0, [2.0], 3.0]],
)  # fmt: skip
def test_values_of_a_release(values):
    refused(pv.Release.from_dict, STREAM.to_dict() | {"values": values})
    if isinstance(values, list) and isinstance(values[0], list):
        return  # trials of a sensor or an average: (trials, r)
    record = {"kind": "sensor release", "fingerprint": "a", "simulated": True, "values": values}
    refused(SensorRelease.from_dict, record)


def test_numbers_nested_deep():
    deep = 1.0
    for _ in range(100_000):
        deep = [deep]
    refused(read_numbers, deep, "it")


def test_headers(tmp_path):
    """Nested 10⁵ deep, 10³⁰ rows, 10⁵ names, another kind of file."""
    (tmp_path / "z.csv").write_bytes(RELEASED["z.csv"])
    good = json.loads(RELEASED["z.csv.json"])
    names = ["intercept", *(f"x{i}" for i in range(100_000))]
    for text in (
        "[" * 100_000,
        json.dumps(good | {"facts": good["facts"] | {"rows": 10**30}}),
        json.dumps(good | {"facts": good["facts"] | {"coefficients": names}}),
        json.dumps(good | {"columns": [good["columns"][0] | {"level": 10**400}]}),
        json.dumps(good | {"facts": good["facts"] | {"warning": "x" * 10**7}}),
        "\x00" * 100,
    ):
        (tmp_path / "z.csv.json").write_text(text)
        refused(workflow.read_release, tmp_path / "z.csv")


# --- tables ---------------------------------------------------------------------------------------


def test_column_names_of_parquet_that_are_no_text(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"aaaa": [1.0, 2.0], "bbbb": [3.0, 4.0]})
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(table, path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"\xff\xfe\xfda"))
    refused(open_source, path, match="not a Parquet file")


def test_a_ragged_row_that_is_no_text_makes_no_noise(tmp_path, capfd):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n\n\xff\xfe,2,3\n4,5\n")
    refused(lambda: open_source(path).read(["a"]), match="row 2 .* 3 fields")
    path.write_bytes(b"a\n1\n\n2,3\n")  # one column: a blank line is a row
    refused(lambda: open_source(path).read(["a"]), match="row 3 .* 2 fields")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("first", [True, False])
def test_a_cell_of_ten_million_digits(tmp_path, first):
    path, cell = tmp_path / "t.csv", b"1" * 10**7
    path.write_bytes(b"a,b\n" + (b"" if first else b"1,2\n") + cell + b",3\n")
    with memory(2 * LITTLE):
        try:
            found = open_source(path).read(["a"])["a"]
        except InvalidInput:
            return
    assert np.isinf(found).any()  # what every use of a table refuses, with the row
    asked = workflow.Spec(str(path), workflow.Model("b", ("a",)), workflow.Privacy(1.0))
    refused(workflow.make_plan, asked, match="not a finite number")


def test_more_columns_than_there_can_be(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a," * (MOST_COLUMNS + 1) + b"b\n1\n")
    refused(open_source, path, match="more than 1048576 columns")


def test_more_coefficients_than_a_matrix_has_room_for():
    names = tuple(f"x{i}" for i in range(10_001))
    refused(lambda: workflow.Model("y", names), match="at most 10000")


def test_a_line_without_an_end(tmp_path):
    path = tmp_path / "h.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(70):
            file.write(b"1" * MIB)
    refused(read_table, str(path), match="a line has more than")


def command(*arguments, **options):
    """`privest` in a process that may take 4 GiB of addresses, whatever the files ask for."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))\n"
        "from privest.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120,
        **options,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/zero, and limits of addresses")
def test_the_command_line(tmp_path):
    (tmp_path / "wide.csv").write_text(",".join(["1"] * 200_000))
    columns = [f"x{i}" for i in range(20_000)]
    rows = f"{','.join(columns)},y\n{'1,' * 20_000}1\n"
    (tmp_path / "rows.csv").write_text(rows)
    bound = ("--noise-variance", "1", "--level", "1")
    for arguments, words in (
        (("bound", "--h", str(tmp_path / "wide.csv"), *bound), "200000 parameters"),
        (("stream", str(tmp_path / "rows.csv"), "--level", "1"), "20000 parameters"),
    ):
        done = command(*arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    with open("/dev/zero", "rb") as endless:
        done = command("bound", "--h", "-", *bound, stdin=endless)
    assert (done.returncode, "zero bytes" in done.stderr) == (2, True)


# --- one layer ------------------------------------------------------------------------------------


def test_no_other_module_parses():
    """One reading layer: whoever needs a parser takes it from `reading`.

    The vault, which imports nothing above it, has its own (`record`), and so has the upgrade.
    """
    source = Path(pv.__file__).parent
    parsers = r"json\.loads?\(|JSONDecoder|tomllib|np\.(load|genfromtxt|fromfile)\("
    words = rf"\b({parsers}|import zipfile|pickle\.loads?\()"
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(words, path.read_text(encoding="utf-8")) and path.name != "reading.py"
    }
    core = {name for name in found if name.startswith("vault/")}
    assert found - core == {"ledger/upgrade.py"}


def test_parsers_share_their_words():
    """What each says of one mistake."""
    for parse in (parse_json, parse_toml):
        refused(parse, "[" * 50, "the file", match="^the file is")


@pytest.mark.parametrize("record", [None, 3, "x", [[1, 2], [3]]])
def test_a_plan_is_names_with_values(record):
    with pytest.raises(InvalidInput, match="names with values"):
        pv.workflow.Spec.from_dict(record)
