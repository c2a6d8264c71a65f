"""Every reader of bytes from outside: valid files that privest itself made, how they are mutated,
and what is done with what was read: one step of use, so that nothing bad passes the door unseen.
"""

import contextlib
import gzip
import io
import json
import os
import random
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import numpy as np
import openpyxl

import privest as pv
import workflow_inside as workflow
import workflow_tables
from charged import charged
from fuzz import ledgers, mutations
from privest import dynamics, network
from privest.data import Format
from privest.data.features import Features
from privest.data.rows import read_rows
from privest.data.source import open_source
from privest.network._sensor import SensorRelease
from privest.reading import as_text, parse_json
from privest.stream_file import facts_of, linked, step_records
from resealed import resealed, written
from workflow_command import called

Mutate = Callable[[bytes, random.Random, list[bytes]], bytes]
GAUSSIAN = pv.noise.Gaussian(cov=0.25)


@dataclass
class Reader:
    """`use(path)` reads the file and uses what it got; `count` mutations in `make test`."""

    name: str
    mutate: Mutate
    use: Callable[[Path], object]
    seeds: list[bytes]
    count: int
    file: str = "file"
    beside: dict[str, bytes] = field(default_factory=dict)

    def case(self, number: int, folder: Path) -> Path:
        """Write mutation `number`; 0 … len(seeds) − 1 are the valid files."""
        rng = random.Random(f"{self.name} {number}")
        data = self.seeds[number % len(self.seeds)]
        if number >= len(self.seeds):
            for _ in range(rng.choice((1, 1, 1, 2))):
                with contextlib.suppress(Exception):  # so broken that it has no parts any more
                    data = self.mutate(data, rng, self.seeds) or data
        path = folder / self.file
        path.write_bytes(data)
        return path


def made(save: Callable[[Path], object]) -> bytes:
    """The bytes of a file that `save` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        save(path)
        return path.read_bytes()


# --- levels and checkpoints -----------------------------------------------------------------------

TIES = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]])
LEVELS = [
    pv.StreamLevel.constant(2.0),
    pv.StreamLevel.constant([[2.0, 0.5], [0.5, 1.0]], lags=[0.3 * np.eye(2)]),
    pv.StreamLevel([1.0, 4.0, 2.0]),
    pv.StreamLevel([np.eye(2), [[3.0]], np.eye(2), [[1.0]]]),
    pv.StreamLevel(np.ones(8), lags=[0.4]),
    pv.StreamLevel.from_cumulative(TIES),
]


def _bits(name: str) -> np.random.Generator:
    return np.random.Generator(getattr(np.random, name)(7))


# (level, source); the columns of H are a constant and the step.
STREAMS = [
    (LEVELS[0], lambda: _bits("MT19937")),
    (LEVELS[1], lambda: _bits("PCG64")),
    (LEVELS[5], lambda: pv.mechanism.source.seeded(3, "a")),
    (pv.StreamLevel.constant(1.0, lags=[0.5]), lambda: _bits("Philox")),
    (LEVELS[3], lambda: _bits("SFC64")),
]


def _checkpoint(path: Path, stream: int):
    level, source = STREAMS[stream]
    mechanism, own = pv.StreamMechanism(level), source()
    rls = pv.PrivateRLS(level, 2, GAUSSIAN)
    kept = pv.Checkpoint(path, mechanism=mechanism, estimator=rls, source=own)
    return kept, mechanism, rls, own


def _step(mechanism, rls, source):
    (m,) = mechanism.level.sizes_between(mechanism.steps, mechanism.steps + 1) or (1,)
    step = float(min(mechanism.steps, 10**6))
    release = mechanism.simulate(np.full(m, 0.3), source)
    rls.update(release, np.column_stack([np.ones(m), step + np.arange(m)]))
    return release


def save_checkpoint(path: Path, stream: int) -> None:
    kept, mechanism, rls, source = _checkpoint(path, stream)
    with kept:
        kept.resume()
        _step(mechanism, rls, source)
        kept.save(pending=_step(mechanism, rls, source), notes={"used": 2, "lines": "a,b\n"})


def use_checkpoint(stream: int) -> Callable[[Path], None]:
    def use(path: Path) -> None:
        kept, mechanism, rls, source = _checkpoint(path, stream)
        with kept:
            kept.resume()
            release = _step(mechanism, rls, source)
            if rls.identifiable:
                rls.result(["a", "b"])
            kept.save(pending=release, notes=kept.notes)

    return use


SHOWN, KEY = np.array([0.5, 0.25]), bytes(range(32))


def _kept(path: Path) -> pv.mechanism.source.Kept:
    path.with_name(f"{path.name}.key").write_bytes(KEY)
    return pv.mechanism.source.Kept(path, pv.mechanism.source.seeded(1), level=4.0)


def save_kept(path: Path) -> None:
    _kept(path).add_noise(SHOWN)


def use_kept(path: Path) -> None:
    assert np.isfinite(_kept(path).add_noise(SHOWN)).all()


# --- releases -------------------------------------------------------------------------------------

STATE = dynamics.StateSpace(A=0.9, C=1.0, Q=0.1, R=0.25, mean0=0.0, cov0=1.0)
SENSOR = network.Sensor([[2.0], [1.0]], pv.noise.Gaussian(cov=0.5), pv.PrivacyLevel(4.0))
STREAM = pv.StreamMechanism(LEVELS[0]).simulate([0.5, np.nan, 0.25], np.random.default_rng(1))
PAIR = dynamics.StateSpace(A=0.9, C=[[1.0], [2.0]], Q=0.1, R=0.25, mean0=0.0, cov0=1.0)
TIED = pv.StreamLevel.constant([[2.0, 0.5], [0.5, 1.0]])
CELLS = np.array([[0.5, np.nan], [0.1, 0.2], [np.nan, np.nan]])  # of vector readings parts
PARTS = pv.StreamMechanism(TIED).simulate(CELLS, np.random.default_rng(1))
SERIES_PARTS = pv.StreamMechanism(TIED).simulate(
    np.stack([CELLS, CELLS[[1, 0, 2]]]), np.random.default_rng(1)
)
SERIES = pv.StreamMechanism(2.0).simulate(
    [[[0.5], [np.nan]], [[0.1], [0.2]]], np.random.default_rng(1)
)


def _record(path: Path) -> object:
    return parse_json(as_text(path.read_bytes(), "it"), "it")


def use_stream_release(path: Path) -> None:
    release = pv.Release.from_dict(_record(path))
    rls = pv.PrivateRLS(LEVELS[0], 1, GAUSSIAN)
    rls.update(release, np.ones((len(release.values), 1)))
    dynamics.filter(STATE, release, level=LEVELS[0])


def use_parts(path: Path) -> None:
    release = pv.Release.from_dict(_record(path))
    if release.values.ndim == 3:
        for _, one in release.by_pattern():
            dynamics.filter(PAIR, one, level=TIED)
        return
    rls = pv.PrivateRLS(TIED, 1, GAUSSIAN)
    rls.update(release, np.ones((len(release.values), 1)))
    dynamics.filter(PAIR, release, level=TIED)


def use_series_release(path: Path) -> None:
    release = pv.Release.from_dict(_record(path))
    for one in [one for _, one in release.by_pattern()] if release.values.ndim == 3 else [release]:
        dynamics.filter(STATE, one, level=2.0)


def use_sensor_release(path: Path) -> None:
    network.fuse([SENSOR], [SensorRelease.from_dict(_record(path))])


def use_command(command: str, *options: object) -> Callable[[Path], None]:
    """The command line itself. FILE is the file, @NAME one beside it."""

    def use(path: Path) -> None:
        words = [str(path) if word == "FILE" else str(word) for word in options]
        done = called(command, *(path.with_name(w[1:]) if w[:1] == "@" else w for w in words))
        assert done.returncode in (0, 1, 2), done.returncode
        if done.returncode:  # it says what is wrong, or what was not examined
            assert "privest: " in done.stderr or "not examined: " in done.stdout
            raise pv.errors.InvalidInput(done.stderr)

    return use


WALK = {"walk.toml": b"A = 0.9\nC = 1.0\nQ = 0.1\nR = 0.25\ncov0 = 1.0\n"}
TRIAL = ("--level", 2, "--simulate")


def _steps(release) -> bytes:
    facts = facts_of(LEVELS[0], simulated=release.simulated, grid=release.grid, measurements=["y"])
    return linked([facts, *step_records(release, 1, listed=True)], "")[0].encode()


STEPS = _steps(STREAM)
REAL_STEPS = _steps(
    pv.Release(
        0, 3, np.array([723.0, np.nan, -1100.0]) * 2.0**-10, np.array([False, True, False]),
        LEVELS[0].fingerprint, False, 2.0**-10,
    )
)  # fmt: skip


KEPT = tempfile.TemporaryDirectory()  # a real stream, its ledger and the mark of that
HERE = Path(KEPT.name)


def kept_command(*words: object) -> Callable[[Path], None]:
    """The same with the ledger of that stream."""
    use = use_command(*words, "--ledger", HERE / "l.db")

    def with_marks(path: Path) -> None:
        with mock.patch.dict(os.environ, {"PRIVEST_STATE_HOME": KEPT.name}):
            use(path)

    return with_marks


(HERE / "m.csv").write_bytes(b"x,y\n1,2\n2,\n3,1\n4,5\n")
kept_command("stream", "FILE", "--target", "y", "--level", 2, "--emit", "releases", "--output",
             "@z.jsonl")(HERE / "m.csv")  # fmt: skip
SIGNED = (HERE / "z.jsonl").read_bytes()


def use_verify(path: Path) -> None:
    """Exit code 0 is for the file that was written, and for no other."""
    kept_command("verify", "FILE")(path)
    assert path.read_bytes() == SIGNED


# --- tables, plans, headers -----------------------------------------------------------------------

PEOPLE = workflow_tables.people(40)
NUMBERS = {name: PEOPLE[name] for name in ("age", "bmi", "ldl")}
DESIGN = Features(("age", "bmi", "sex"), {"sex": ("female", "male")}, True)


def _table(table: dict, ending: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return workflow_tables.write(table, Path(folder) / f"people{ending}").read_bytes()


def use_table(path: Path) -> None:
    for block in read_rows(open_source(path), DESIGN, ["ldl"], missing="drop"):
        assert np.isfinite(block.H).all()


def use_table_as_stated(path: Path) -> None:
    reading = Format(decimal=",", missing_codes=("77777", "bmi=99,5"))
    for block in read_rows(open_source(path, reading), DESIGN, ["ldl"], missing="drop"):
        assert np.isfinite(block.H).all()


def use_look(path: Path) -> None:
    found = workflow_tables.look_at(path)
    json.dumps(found.to_dict(), allow_nan=False)


def _workbook(path: Path) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("people")
    sheet.append(list(PEOPLE))
    for row in list(zip(*(column.tolist() for column in PEOPLE.values())))[:8]:
        sheet.append(row)
    book.save(path)


def of_parts(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """One part of a zip archive is mutated as text, most often that of the cells."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheets = [name for name in parts if "worksheets/" in name]
    name = rng.choice(sheets if rng.random() < 0.7 else list(parts))
    parts[name] = mutations.of_text(parts[name], rng, [parts[rng.choice(list(parts))]])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for one, content in parts.items():
            archive.writestr(one, content)
    return out.getvalue()


def use_numbers(path: Path) -> None:
    open_source(path).read(["age", "ldl"])


def _packed(mutate: Mutate) -> Mutate:
    """Half of them are mutated before they are packed, so that the packing is right."""

    def within(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
        if rng.random() < 0.5:
            return mutations.of_bytes(data, rng, others)
        with contextlib.suppress(OSError, EOFError):
            return gzip.compress(mutate(gzip.decompress(data), rng, [CSV]), mtime=0)
        return data

    return within


CSV, TOML = _table(PEOPLE, ".csv"), workflow.to_toml(workflow_tables.spec()).encode()
FORMULA = b"""version = 4
data = "people.csv"

[model]
formula = "np.log(ldl) ~ age*C(sex) + I(((bmi - 27)/4)**2) + C(`my ward`, levels=['a', 'b']) - 1"
missing = "drop"
categories = { sex = ["female", "male"] }

[format]
separator = ";"
decimal = ","
encoding = "cp1252"
missing_codes = ["77777", "bmi=99"]
sheet = "people"

[privacy]
level = 2.0
range = { ldl = [0.5, 12.0] }
"""
EUROPEAN = CSV.replace(b",", b";").replace(b".", b",").decode().encode("utf-16")
PERSONS = b"""version = 4
data = "people.csv"

[model]
target = ["ldl"]
features = ["age", "sex"]
categories = { sex = ["female", "male"] }
person = "who"
most_rows = 3
missing = "drop"

[privacy]
form = "aggregate"
epsilon = 1.0
delta = 1e-6
range = { ldl = [0.5, 12.0] }

[public]
residual_variance = 0.25

[format]
separator = ";"
missing_codes = ["77777", "age=99"]
"""
SEVERAL = workflow_tables.spec(
    target=("ldl", "bmi"), features=("age", "sex"), public=workflow.Public(),
    privacy=workflow.Privacy(
        epsilon=2.0, form="aggregate",
        range={"ldl": (-9.0, 19.0), "bmi": (0.0, 99.0)},
    ),
)  # fmt: skip


UNEQUAL = workflow_tables.spec(
    privacy=workflow.Privacy(level_column="level"),
)
SUMS = workflow_tables.spec(
    privacy=workflow.Privacy(
        epsilon=8.0, delta=1e-6, range={"ldl": (-9.0, 19.0)}, form="aggregate", publish="matrix"
    ),
)  # fmt: skip


def use_spec(path: Path) -> None:
    spec = workflow.load_spec(path)
    workflow.Spec.from_dict(spec.to_dict())
    workflow.to_toml(spec)


def _released() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        plan = workflow.make_plan(workflow_tables.spec(), data=PEOPLE)
        path = Path(folder) / "z.csv"
        workflow.simulate_release(plan, path, np.random.default_rng(1), data=PEOPLE)
        real = Path(folder) / "real.csv"
        with pv.Ledger(Path(folder) / "l.db", marks=Path(folder) / "marks") as ledger:
            workflow.release(plan, real, PEOPLE, account=workflow.Account(ledger, "ldl"))
        levels = PEOPLE | {"level": np.arange(40.0)}
        unequal = workflow.make_plan(UNEQUAL, data=levels)
        charged(unequal, Path(folder) / "unequal.csv", levels)
        sums = workflow.make_plan(SUMS, data=PEOPLE)
        charged(sums, Path(folder) / "sums.json", PEOPLE)
        few = replace(SUMS, privacy=replace(SUMS.privacy, publish="estimates"))
        few = workflow.make_plan(few, data=PEOPLE)
        workflow.simulate_release(few, Path(folder) / "few.json", np.random.default_rng(1), PEOPLE)
        files = [*Path(folder).glob("*.csv*"), *Path(folder).glob("*s.json"),
                 *Path(folder).glob("few.json")]  # fmt: skip
        return {one.name: one.read_bytes() for one in files}


RELEASED = _released()


def use_header(path: Path) -> None:
    workflow.estimate(path.with_suffix(""))


def use_document(path: Path) -> None:
    """Of sums: estimates, intervals and, where there is a matrix, a smaller model."""
    found = workflow.read_release(path)
    workflow.estimate(found).interval()
    if found.sums[0].matrix:
        workflow.estimate(found, features=["age"]).interval()


def use_sums_fields(path: Path) -> None:
    """The same with the seals made anew, as anybody can."""
    record = _record(path)
    with contextlib.suppress(Exception):
        path.write_text(written(resealed(record)))
    use_document(path)


def use_header_fields(path: Path) -> None:
    """As a document whose checksum is right, whoever wrote it."""
    record = _record(path)
    with contextlib.suppress(Exception):
        record = resealed(record)
    workflow.TableRelease.from_dict(record)


MODEL = b"""# a car
A = [[1.0, 1.0], [0.0, 1.0]]
C = [[1.0, 0.0]]
Q = [[0.01, 0.0], [0.0, 0.01]]
R = [[0.5]]
mean0 = [0.0, 1.0]
cov0 = [[1.0, 0.0], [0.0, 1.0]]
states = ["place", "speed"]
"""


def _lines(table: dict) -> bytes:
    rows = [dict(zip(table, row)) for row in zip(*(list(map(float, c)) for c in table.values()))]
    return "".join(json.dumps(row) + "\n" for row in rows[:12]).encode()


def _csv(table: dict, rows: int, head: bool = True) -> bytes:
    out = io.StringIO()
    if head:
        out.write(",".join(table) + "\n")
    for row in list(zip(*table.values()))[:rows]:
        out.write(",".join(f"{value:.6g}" for value in row) + "\n")
    return out.getvalue().encode()


text, tree, packed = mutations.of_text, mutations.of_json, mutations.of_archive


def _of(release) -> bytes:
    return json.dumps(release.to_dict()).encode()


LEDGER = ledgers.made()

READERS = [
    Reader("ledger", mutations.of_bytes, ledgers.use_ledger, [LEDGER], 500),
    Reader("entries of a ledger", ledgers.of_entries, ledgers.use_ledger, [LEDGER], 500),
    *(
        Reader(f"checkpoint {k}", packed, use_checkpoint(k),
               [made(lambda path, k=k: save_checkpoint(path, k))], 500)
        for k in range(len(STREAMS))
    ),
    Reader("kept release", packed, use_kept, [made(save_kept)], 500),
    Reader("stream release", tree, use_stream_release, [_of(STREAM)], 900),
    Reader("series release", tree, use_series_release, [_of(SERIES)], 500),
    Reader("parts of readings", tree, use_parts, [_of(PARTS), _of(SERIES_PARTS)], 300),
    Reader("sensor release", tree, use_sensor_release,
           [_of(SENSOR.simulate([1.0, 2.0], np.random.default_rng(1)))], 400),
    Reader("privest filter --from releases", text,
           use_command("filter", "FILE", "--from", "releases", "--model", "@walk.toml",
                       "--level", 2), [STEPS, REAL_STEPS], 200, "z.jsonl", WALK),
    Reader("privest stream --from releases", text,
           use_command("stream", "FILE", "--from", "releases", "--level", 2,
                       "--residual-variance", 1),
           [SIGNED], 200, "z.jsonl"),
    Reader("privest verify --ledger", text, use_verify, [SIGNED], 350, "z.jsonl"),
    Reader("privest verify, a table", text, use_command("verify", "FILE", "--allow-simulated"),
           [RELEASED["z.csv"]], 100, "z.csv", {"z.csv.json": RELEASED["z.csv.json"]}),
    Reader("header", tree, use_header, [RELEASED["z.csv.json"]], 300, "z.csv.json",
           {"z.csv": RELEASED["z.csv"]}),
    Reader("real header", tree, use_header, [RELEASED["real.csv.json"]], 300, "real.csv.json",
           {"real.csv": RELEASED["real.csv"]}),
    Reader("header fields", tree, use_header_fields,
           [RELEASED["z.csv.json"], RELEASED["real.csv.json"]], 700),
    Reader("document of sums", tree, use_document,
           [RELEASED["sums.json"], RELEASED["few.json"]], 200, "z.json"),
    Reader("fields of a document of sums", tree, use_sums_fields,
           [RELEASED["sums.json"], RELEASED["few.json"]], 700, "z.json"),
    Reader("privest estimate, sums", text, use_command("estimate", "FILE"),
           [RELEASED["sums.json"]], 100, "z.json"),
    Reader("plan of sums", text, use_spec, [workflow.to_toml(SUMS).encode()], 200, "plan.toml"),
    Reader("plan, TOML", text, use_spec, [TOML], 600, "plan.toml"),
    Reader("header with levels per row", tree, use_header, [RELEASED["unequal.csv.json"]], 100,
           "unequal.csv.json", {"unequal.csv": RELEASED["unequal.csv"]}),
    Reader("fields of a header with levels per row", tree, use_header_fields,
           [RELEASED["unequal.csv.json"]], 100),
    Reader("plan with levels per row", text, use_spec, [workflow.to_toml(UNEQUAL).encode()], 100,
           "plan.toml"),
    Reader("plan of several columns", text, use_spec, [workflow.to_toml(SEVERAL).encode()], 150,
           "plan.toml"),
    Reader("plan with a formula", text, use_spec, [FORMULA], 150, "plan.toml"),
    Reader("plan of persons", text, use_spec, [PERSONS], 200, "plan.toml"),
    Reader("privest filter --model", text,
           use_command("filter", "@y.csv", "--model", "FILE", *TRIAL), [MODEL], 200, "model.toml",
           {"y.csv": b"y\n1.0\n2.5\nNA\n3.5\n"}),
    Reader("table, CSV", text, use_table, [CSV], 700, "people.csv"),
    Reader("look at a table", text, use_look, [CSV, EUROPEAN], 100, "people.csv"),
    Reader("table, packed CSV", _packed(text), use_table, [gzip.compress(CSV, mtime=0)], 300,
           "people.csv.gz"),
    Reader("table, semicolons and UTF-16", text, use_table_as_stated, [EUROPEAN], 150,
           "people.txt"),
    Reader("table, XLSX", of_parts, use_table, [made(_workbook)], 60, "people.xlsx"),
    Reader("table, damaged XLSX", mutations.of_bytes, use_table, [made(_workbook)], 100,
           "people.xlsx"),
    Reader("table, Parquet", mutations.of_bytes, use_numbers, [_table(NUMBERS, ".parquet")], 500,
           "people.parquet"),
    Reader("privest stream, CSV", text, use_command("stream", "FILE", "--target", "ldl", *TRIAL),
           [_csv(NUMBERS, 12)], 200, "rows.csv"),
    Reader("privest stream, JSON lines", text,
           use_command("stream", "FILE", "--target", "ldl", *TRIAL), [_lines(NUMBERS)], 200,
           "rows.jsonl"),
    Reader("privest filter", text,
           use_command("filter", "FILE", "--model", "@walk.toml", "--measurements", "ldl", *TRIAL),
           [_csv(NUMBERS, 12)], 200, "rows.csv", WALK),
    Reader("privest bound", text,
           use_command("bound", "--h", "FILE", "--level", 1, "--noise-variance", 1),
           [_csv(NUMBERS, 8), _csv(NUMBERS, 8, head=False)], 200, "h.csv"),
]  # fmt: skip
