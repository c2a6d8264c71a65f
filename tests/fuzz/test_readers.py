"""Whatever the bytes are: a valid object that can be used, or a documented error.

No other exception, no warning, nothing on stderr, and no more memory than MEMORY beyond what the
process has. The mutations are the same in every run; the case of a failure is named.
"""

import time
import traceback
import warnings

import pytest

from fuzz.limited import MIB, memory
from fuzz.readers import READERS
from privest.errors import PrivestError

LEAST, LEAST_SLOW = 5_000, 100_000
QUICK = 180  # mutations of one reader in `make test`, at most
SLOW = 10  # times as many, others
MEMORY = 1024 * MIB
SECONDS = 20  # for one file


def outcome(reader, number, folder):
    """ "used", the name of a documented error, or the fault."""
    path = reader.case(number, folder)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            reader.use(path)
        said = "used"
    except (PrivestError, UserWarning) as error:
        said = type(error).__name__
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        where = "".join(traceback.format_exception(error)[-4:])
        return f"FAULT {reader.name} {number}: {where}"
    took = time.perf_counter() - start
    return f"FAULT {reader.name} {number}: {took:.0f} s" if took > SECONDS else said


def run(reader, numbers, folder):
    for name, data in reader.beside.items():
        (folder / name).write_bytes(data)
    with memory(MEMORY):
        found = [outcome(reader, number, folder) for number in numbers]
    faults = [said for said in found if said.startswith("FAULT")]
    counts = {said: found.count(said) for said in sorted({*found} - {*faults})}
    print(f"{reader.name}: {len(found)} mutations, {counts}")
    return faults


def _require_quiet(capfd):
    out, err = capfd.readouterr()
    assert err == ""  # "Exception ignored in ..."
    print(out)  # how many of what, for pytest -rP


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_documented_errors_only(reader, tmp_path, capfd):
    count = min(reader.count, QUICK)
    faults = run(reader, range(len(reader.seeds), len(reader.seeds) + count), tmp_path)
    assert not faults, f"{len(faults)} faults, the first: {faults[0]}"
    _require_quiet(capfd)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_the_files_themselves_are_read(reader, tmp_path):
    for name, data in reader.beside.items():
        (tmp_path / name).write_bytes(data)
    for number in range(len(reader.seeds)):
        assert outcome(reader, number, tmp_path) == "used"


def test_there_are_enough():
    total = sum(reader.count for reader in READERS)
    assert sum(min(reader.count, QUICK) for reader in READERS) >= LEAST
    assert SLOW * total >= LEAST_SLOW


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_documented_errors_only_many(reader, tmp_path, capfd):
    first = len(reader.seeds) + reader.count
    faults = run(reader, range(first, first + SLOW * reader.count), tmp_path)
    assert not faults, f"{len(faults)} faults, the first: {faults[0]}"
    _require_quiet(capfd)
