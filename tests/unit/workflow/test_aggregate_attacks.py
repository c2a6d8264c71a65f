"""Attacks on the aggregate form, through the whole pipeline: neighbouring tables, forged documents,
restored ledgers, and values looked for in everything that is written or said.
"""

import copy
import json
import logging
import math
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privest as pv
from aggregate_cases import Recorded, moved2
from charged import charged
from privest.errors import BudgetExceeded, InvalidInput, LedgerError, PrivestError
from privest.lattice import GRID
from privest.ledger import Budget, Ledger
from privest.privacy import gdp
from resealed import resealed, written
from workflow_command import runner
from workflow_tables import people, write

DELTA = 1e-6

# --- neighbouring tables: what noise is added to, in the pipeline itself --------------------------


class Told(Recorded):
    """A real release that shows what it is told, whatever the values are, and records them."""

    simulated, grid = False, GRID

    def __init__(self, seed, size):
        super().__init__(seed=seed)
        self.size = size

    def integers(self, shown, sigma):
        rng = np.random.default_rng([self.seed, len(self.laws), 1])
        noise = self.size * rng.standard_normal(len(shown))
        return [round(x * b) for x, b in zip(noise.tolist(), sigma)]


ROWS = 12
X = np.random.default_rng(29).standard_normal(ROWS).round(2)
PUBLIC = {
    "x": X, "g": ["a", "b", "c"] * 4,
    "who": [f"p{k}" for k in (0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 5)],
}  # fmt: skip
GROUPS = {"g": ["a", "b", "c"]}
KINDS = {
    "line": {"formula": "y ~ x"},
    "small ε": {"formula": "y ~ x", "epsilon": 0.3},
    "mean": {"target": "y"},
    "groups": {"target": "y", "by": "g", "categories": GROUPS},
    "categories": {"formula": "y ~ x + C(g)", "categories": GROUPS},
    "persons": {"formula": "y ~ x", "person": "who", "epsilon": 12.0},
    "persons, capped": {"formula": "y ~ x", "person": "who", "most_rows": 2, "epsilon": 12.0},
    "persons, a mean": {"target": "y", "person": "who", "epsilon": 12.0},
    "yes/no": {"formula": "y ~ x", "family": "binomial", "range": None},
    "logarithm": {"formula": "log(y) ~ x", "range": (0.1, 7.0)},
    "two columns": {"formula": "y + u ~ x", "range": {"y": (-1.0, 3.0), "u": (2.0, 30.0)}},
    "an exposure": {"formula": "y ~ x", "epsilon": None, "level": 0.3},
    "an error": {
        "formula": "y ~ x", "epsilon": None, "standard_error": {"x": 0.8}, "residual_variance": 0.5,
    },
    "far from 0": {"formula": "y ~ x", "range": (1e9, 1e9 + 3)},
    "as far as doubles hold": {"formula": "y ~ x", "range": (9e10, 9e10 + 3)},
    "narrow": {"formula": "y ~ x", "range": (-1e-9, 2e-9)},
}  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, 0.1, 1 / 3, 1e308, -1e308, math.inf, -math.inf, 5e-324, 1e-300]


@pytest.fixture(scope="module")
def plans():
    """A plan of each kind; its table is changed from release to release."""
    made = {}
    for name, asked in KINDS.items():
        table = dict(PUBLIC) | {"y": np.ones(ROWS), "u": np.ones(ROWS)}
        ask = {"form": "aggregate", "epsilon": 6.0, "range": (-1.0, 3.0)} | asked
        ask = {key: value for key, value in ask.items() if value is not None}
        made[name] = table, pv.plan(table, **ask)
    return made


def shown(plans, kind, values, seed, size, folder):
    """All that noise is added to, in its units: fractions."""
    table, plan = plans[kind]
    table.update(values)
    source = Told(seed, size)
    path = folder / "z.json"
    path.unlink(missing_ok=True)
    charged(plan, path, source=source)
    return source.scaled


def ends_of(plan, column):
    limits = plan.ends(plan.columns[column])
    return (0.0, 1.0) if limits is None else limits


@st.composite
def neighbours(draw, plan):
    """Values of two tables that differ in what one person has: both columns, all rows."""
    made = ({}, {})
    owners = np.array([int(p[1:]) for p in PUBLIC["who"]])
    at = draw(st.integers(0, ROWS - 1))
    changed = np.arange(ROWS) == at if plan.model.person is None else owners == owners[at]
    for k, column in enumerate(plan.columns):
        lo, hi = ends_of(plan, k)
        end = st.sampled_from([lo, hi, (lo + hi) / 2, np.nextafter(lo, hi), np.nextafter(hi, lo)])
        value = end | st.floats(lo, hi) | st.sampled_from(SPECIAL)
        first = np.array([draw(value) for _ in range(ROWS)])
        other = np.where(changed, [draw(value) for _ in range(ROWS)], first)
        if draw(st.booleans()):  # neighbouring doubles
            other = np.where(changed, np.nextafter(first, math.inf), first)
        made[0][column.target], made[1][column.target] = first, other
    return made


@pytest.mark.processes
@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_neighbouring_tables_are_within_what_is_stated(kind, plans, tmp_path, data):
    """‖Δ‖ of all noisy numbers, given what they showed: below μ of the stated ε, δ."""
    _, plan = plans[kind]
    pair = data.draw(neighbours(plan))
    seed, size = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.0, 1.0, 30.0, 1e4]))
    found = [shown(plans, kind, values, seed, size, tmp_path) for values in pair]
    mu2 = moved2(*found)
    assert mu2 <= sum(one.charged.amounts["mu2"] for one in plan.splits)
    assert gdp.epsilon_of(math.sqrt(mu2), DELTA) <= plan.over_the_range(DELTA).epsilon


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_can_move_as_much_as_is_stated(kind, plans, tmp_path):
    """From end to end: the property above is no empty one."""
    _, plan = plans[kind]
    owners, worst = np.array([int(p[1:]) for p in PUBLIC["who"]]), 0.0
    for at in range(ROWS):
        changed = np.arange(ROWS) == at if plan.model.person is None else owners == owners[at]
        pair = ({}, {})
        for k, column in enumerate(plan.columns):
            lo, hi = ends_of(plan, k)
            pair[0][column.target] = np.full(ROWS, lo)
            pair[1][column.target] = np.where(changed, hi, lo)
        found = [shown(plans, kind, values, 0, 1.0, tmp_path) for values in pair]
        worst = max(worst, math.sqrt(moved2(*found)))
    # Sums alone have 70% of an exposure and 85% of μ² of ε; capped persons may have one row only.
    assert worst > math.sqrt(0.69) * gdp.compose(*(one.stated for one in plan.splits)) - 0.01


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_values_are_clipped_before_anything_else(kind, plans, tmp_path, data):
    """A table and the same one clipped to its ranges: bit for bit the same sums."""
    _, plan = plans[kind]
    values, _ = data.draw(neighbours(plan))
    clipped = {
        column.target: np.clip(values[column.target], *ends_of(plan, k))
        for k, column in enumerate(plan.columns)
    }
    one, other = (shown(plans, kind, given, 3, 1.0, tmp_path) for given in (values, clipped))
    assert one == other


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_rows_beyond_the_cap_change_nothing(plans, tmp_path, data):
    """A person's third row and later ones do not leave, whatever they hold."""
    _, plan = plans["persons, capped"]
    values, _ = data.draw(neighbours(plan))
    seen, beyond = {}, []
    for who in PUBLIC["who"]:
        seen[who] = seen.get(who, 0) + 1
        beyond.append(seen[who] > 2)
    assert plan.most == 2
    other = np.where(beyond, 2.5, values["y"])
    one, same = (shown(plans, "persons, capped", {"y": y}, 5, 1.0, tmp_path)
                 for y in (values["y"], other))  # fmt: skip
    assert one == same


# --- forged documents -----------------------------------------------------------------------------

ASKED = {
    "target": "ldl", "features": ["age", "bmi", "sex"], "categories": {"sex": ["female", "male"]},
    "range": (0.0, 6.0), "form": "aggregate", "epsilon": 2.0, "publish": "matrix",
}  # fmt: skip


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A release with its matrix, and the ledger that signed it."""
    folder = tmp_path_factory.mktemp("signed")
    with Ledger(folder / "ledger.db", marks=folder / "marks") as ledger:
        plan = pv.plan(people(300, seed=3), **ASKED)
        plan.release(folder / "z.json", account=ledger.account("ldl"))
        yield folder, ledger


def leaves(record, path=()):
    """The place of every value in a document."""
    if isinstance(record, dict) and record:
        for name, part in record.items():
            yield from leaves(part, (*path, name))
    elif isinstance(record, list) and record:
        for k, part in enumerate(record):
            yield from leaves(part, (*path, k))
    else:
        yield path


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 1.25 + 1
    return f"{value}x" if isinstance(value, str) else 1.0


def forged(record, path):
    """The document with one value changed."""
    made = copy.deepcopy(record)
    part = made
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = changed(part[path[-1]])
    return made


@pytest.mark.parametrize("seal", [False, True], ids=["as it is", "resealed"])
def test_no_value_of_a_document_can_be_changed(signed, tmp_path, seal):
    """Every field in turn, the matrix too: `verify` takes the document as it left, and no other."""
    folder, ledger = signed
    record = json.loads((folder / "z.json").read_text())
    path = tmp_path / "z.json"
    path.write_text(written(record))
    assert pv.verify(path, ledger=ledger).verified
    places = list(leaves(record))
    assert len(places) > 90
    for place in places:
        made = forged(record, place)
        if seal:
            made = resealed(made)
            if made == record:  # a seal was changed, and made anew
                continue
        path.write_text(written(made))
        try:
            accepted = pv.verify(path, ledger=ledger).verified
        except PrivestError:
            continue
        assert not accepted, place


def test_a_document_without_a_field_is_refused(signed, tmp_path):
    folder, ledger = signed
    record = json.loads((folder / "z.json").read_text())
    for name in record:
        rest = {key: value for key, value in record.items() if key != name}
        (tmp_path / "z.json").write_text(written(rest))
        with pytest.raises(PrivestError):
            pv.verify(tmp_path / "z.json", ledger=ledger)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cross", np.zeros((4, 4))), ("cross", np.ones((4, 4))), ("cross", np.full((4, 4), 1e308)),
        ("gram", np.zeros((4, 4))), ("gram", -np.eye(4)), ("gram", 1e-320 * np.eye(4)),
        ("sums", np.full(4, 1e308)), ("squares", np.array([1e308])),
        ("sums", np.array([10**400, 0, 0, 0])), ("covariance", np.eye(4)),
        ("covariance", np.ones((4, 4))), ("covariance", np.eye(3)),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_a_matrix_of_no_use_is_refused(signed, tmp_path, name, value):
    """Resealed, by anybody: a sentence, where NumPy would fail or warn."""
    record = json.loads((signed[0] / "z.json").read_text())
    record["sums"][0]["matrix"][name] = value.tolist()
    (tmp_path / "z.json").write_text(written(resealed(record)))
    with pytest.raises(InvalidInput, match=r"sums: "):
        pv.estimate(tmp_path / "z.json", features=["age"])


# --- restored ledgers -----------------------------------------------------------------------------


def small(folder):
    write(people(200, seed=5), folder / "people.csv")
    return pv.plan(folder / "people.csv", **ASKED | {"publish": "estimates"})


@pytest.fixture
def backed_up(tmp_path):
    """A plan, a ledger that charged its release, and a backup of before it."""
    plan, path = small(tmp_path), tmp_path / "ledger.db"
    with Ledger(path, marks=tmp_path / "marks") as ledger:
        ledger.account("other", budget=Budget(level=1.0))
    shutil.copy(path, tmp_path / "backup.db")
    with Ledger(path, marks=tmp_path / "marks") as ledger:
        plan.release(tmp_path / "z.json", account=ledger.account("ldl"))
    return plan, path


def refused(plan, path, marks, said):
    with Ledger(path, marks=marks) as ledger, pytest.raises(LedgerError, match=said):
        plan.release(marks.parent / "again.json", account=ledger.account("ldl"))
    assert not (marks.parent / "again.json").exists()
    assert not [*marks.parent.glob(".again*")]  # nothing that was drawn is left either


def test_a_restored_ledger_releases_nothing(backed_up, tmp_path):
    """The backup knows nothing of the release; its mark does."""
    plan, path = backed_up
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes((tmp_path / "backup.db").read_bytes())
    refused(plan, path, tmp_path / "marks", "old copy")


def test_a_copied_ledger_releases_nothing(backed_up, tmp_path):
    plan, _ = backed_up
    copied = tmp_path / "copy.db"
    shutil.copy(tmp_path / "backup.db", copied)
    refused(plan, copied, tmp_path / "marks", "copy")


def test_a_killed_draft_is_no_second_release(backed_up, tmp_path):
    """A draft with sums of its own making, put where a killed run would have left one."""
    plan, path = backed_up
    document = json.loads((tmp_path / "z.json").read_text())
    document["sums"][0]["estimate"][0] += 1.0
    draft = json.dumps(document["sums"], sort_keys=True, separators=(",", ":"))
    (tmp_path / ".again.json.part").write_text(draft)
    with Ledger(path, marks=tmp_path / "marks") as ledger, pytest.raises(BudgetExceeded):
        plan.release(tmp_path / "again.json", account=ledger.account("ldl"))
    assert not (tmp_path / "again.json").exists()


# --- a value that could be recognised anywhere ----------------------------------------------------

SENTINEL, FEATURE = 31415.92653589793, 27182.81828459045


def traces(*numbers):
    found = []
    for number in numbers:
        found += [struct.pack("<d", number), struct.pack(">d", number), repr(number)[:8].encode()]
    return found


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    return runner(capsys, monkeypatch)


TABLES = {
    "one value": lambda k: SENTINEL if k == 7 else 31400.0 + k,
    "all values": lambda k: SENTINEL,
    "beyond the range": lambda k: SENTINEL * 10 if k % 2 else -SENTINEL,
}
FORMS = {
    "line": "--features x",
    "mean": "",
    "persons": "--features x --person who",
    "matrix": "--features x --set privacy.publish=matrix",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("values", TABLES)
def test_no_value_and_no_feature_is_anywhere(privest, caplog, form, values):
    """In every byte of every file, in what is printed and in the log."""
    caplog.set_level(logging.DEBUG)
    rows = [f"{FEATURE if k == 7 else k % 11},{TABLES[values](k)!r},p{k // 3}" for k in range(60)]
    Path("t.csv").write_text("x,y,who\n" + "\n".join(rows) + "\n")
    said = ""
    for words in (
        ("plan", "t.csv", "--target", "y", *FORMS[form].split(), "--range", "31000,32000",
         "--epsilon", 3, "--form", "aggregate", "--save", "plan.toml"),
        ("release", "plan.toml", "--output", "z.json", "--ledger", "l.db"),
        ("verify", "z.json", "--ledger", "l.db"),
        ("estimate", "z.json"), ("estimate", "z.json", "--json"),
        ("report", "plan.toml", "z.json", "--output", "page.html"),
        ("ledger", "show", "l.db"), ("ledger", "export", "l.db"),
        ("release", "plan.toml", "--output", "again.json", "--ledger", "l.db"),
    ):  # fmt: skip
        done = privest(*words)
        refused = words[0] == "release" and "again.json" in words
        assert (done.code != 0) == refused, (words, done.err)
        said += done.out + done.err
    known = traces(SENTINEL, FEATURE, SENTINEL * 10)
    for path in Path().rglob("*"):
        if path.is_file() and path.name != "t.csv":
            for trace in known:
                assert trace not in path.read_bytes(), path
    for trace in known:
        assert trace not in (said + caplog.text).encode()


@pytest.mark.parametrize("cell", ["31415.92653589793x", "", "nan", "--31415.92653589793"])
def test_a_cell_that_is_refused_is_not_shown(privest, caplog, cell):
    rows = [f"{k % 11},{cell if k == 7 else 31400 + k}" for k in range(60)]
    Path("t.csv").write_text("x,y\n" + "\n".join(rows) + "\n")
    plan = ("plan", "t.csv", "--target", "y", "--features", "x", "--range", "31000,32000",
            "--epsilon", 3, "--form", "aggregate", "--save", "plan.toml")  # fmt: skip
    assert privest(*plan).code == 0
    done = privest("release", "plan.toml", "--output", "z.json", "--ledger", "l.db")
    assert done.code == 2
    assert "31415" not in done.out + done.err + caplog.text
    assert not Path("z.json").exists()
