"""`privest stream` for real: whole numbers of a grid, no value refused, lines to be checked."""

import csv
import io
import json

import numpy as np
import pytest

import privest as pv
from privest import lattice
from privest.errors import InvalidInput
from privest.stream_file import check_lines, linked
from workflow_command import runner

GRID = 2.0**-10
WIDE = ("inf", "-inf", "1e308", "-1e999", "nan", "", "5e-324", "-0.0", "9007199254740993")


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return runner(capsys, monkeypatch)


def write(rows, path="m.csv"):
    with open(path, "w", encoding="utf-8") as file:
        file.write("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))


def lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines(keepends=True)


def records(path):
    return [json.loads(line) for line in lines(path)]


RELEASE = ("stream", "m.csv", "--level", 4, "--emit", "releases", "--output")


def test_the_file_says_what_it_holds(privest):
    y = np.random.default_rng(0).normal(3.0, 1.0, 400)
    write([(k, value) for k, value in enumerate(y)])
    done = privest(*RELEASE, "z.jsonl", "--block", 60, "--range", "-20,20")
    assert (done.code, "simulated" in done.err) == (0, False), done
    facts, *steps = records("z.jsonl")
    assert (facts["simulated"], facts["grid"], facts["range"]) == (False, GRID, [-20.0, 20.0])
    assert facts["factors"] == [[[2.0]]]
    assert all(isinstance(step["z"], int) for step in steps)
    noise = np.array([step["z"] for step in steps]) * facts["unit"] * 2 - 2 * y
    # 400 of variance 1: mean within 5 deviations of its own, variance too
    assert abs(noise.mean()) < 5 / 20
    assert abs(noise.var() - 1) < 5 * (2 / 400) ** 0.5
    assert privest(*RELEASE, "again.jsonl").code == 0
    assert [step["z"] for step in records("again.jsonl")[1:]] != [step["z"] for step in steps]
    assert privest(*RELEASE, "z.csv").code == 0
    rows = list(csv.DictReader(io.StringIO("".join(lines("z.csv")))))
    assert {row["grid"] for row in rows} == {str(GRID)}
    assert all(row["z"].lstrip("-").isdecimal() for row in rows)


@pytest.mark.parametrize("lags", ["", "0.5,-0.25"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_no_value_of_a_reading_is_refused(privest, kind, lags):
    """Infinite ones are clipped to what the grid holds, and the stream goes on."""
    write([(k, WIDE[k % len(WIDE)]) for k in range(45)])
    arguments = ("--level", 4, "--lags", lags, "--block", 4)
    done = privest("stream", "m.csv", *arguments, "--emit", "releases", "--output", f"z.{kind}")
    assert done.code == 0, done
    assert "45 rows; 10 of them without a measurement" in done.err
    for span in ((), ("--range", "0,1")):
        done = privest("stream", "m.csv", *arguments, *span, "--residual-variance", 1)
        assert done.code == 0, done
        last = done.out.splitlines()[-1].split(",")
        assert np.isfinite([float(cell) for cell in last]).all()
    done = privest(
        "stream", f"z.{kind}", "--from", "releases", *arguments, "--residual-variance", 1
    )
    assert done.code == 0, done


def test_any_number_of_json_is_a_reading(privest):
    """Also what Python writes beside the standard, and integers that it does not read."""
    words = ["NaN", "Infinity", "-Infinity", "1" + "0" * 5000, "1e400", "null", "true", "-7"]
    with open("m.jsonl", "w", encoding="utf-8") as file:
        file.writelines(f'{{"x": 1, "y": {word}}}\n' for word in words)
    done = privest("stream", "m.jsonl", "--level", 4, "--emit", "releases")
    assert done.code == 0, done
    z = [json.loads(line)["z"] for line in done.out.splitlines()[1:]]
    assert [k for k, one in enumerate(z) if one is None] == [0, 5]
    # what the grid holds, 2^52 of it, and noise of 2^10 that stays within 12 deviations
    assert [round(z[k] / 2**52, 6) for k in (1, 2, 3, 4)] == [1, -1, 1, 1]
    assert abs(z[6] - 2 * 1024) < 12 * 1024
    assert abs(z[7] + 14 * 1024) < 12 * 1024
    done = privest("stream", "m.jsonl", "--level", 4, "--emit", "releases", "--simulate")
    assert (done.code, "NaN is no number of JSON" in done.err) == (2, True)


def test_a_line_that_is_no_number_stops_before_any_noise(privest, monkeypatch):
    write([(0, 1.0), (1, 2.0), (2, "12.75abc"), (3, 1.0)])
    drawn = []
    real = pv.mechanism.source.Protected.add_noise
    monkeypatch.setattr(
        pv.mechanism.source.Protected,
        "add_noise",
        lambda self, shown, **how: drawn.append(how["shape"]) or real(self, shown, **how),
    )
    done = privest(*RELEASE, "z.jsonl", "--block", 2)
    assert (done.code, drawn) == (2, [(2,)])
    assert "line 4: 'y' is not a number" in done.err
    assert "12.75" not in done.err
    assert len(lines("z.jsonl")) == 3


def test_estimates_count_the_variance_of_the_grid(privest):
    rng = np.random.default_rng(1)
    write(rng.standard_normal((50, 2)).tolist())
    for name in ("z.csv", "z.jsonl"):
        assert privest(*RELEASE, name).code == 0
        text = lines(name)
        z = [json.loads(t)["z"] for t in text[1:]] if name == "z.jsonl" else [
            int(row["z"]) for row in csv.DictReader(text)
        ]  # fmt: skip
        level = pv.StreamLevel.constant(4.0)
        rls = pv.PrivateRLS(level, 1, 0.25)
        release = pv.Release(0, 50, np.array(z) * GRID, None, level.fingerprint, False, GRID)
        x = np.genfromtxt("m.csv", delimiter=",", skip_header=1)[:, :1]
        rls.update(release, x)
        done = privest("stream", name, "--from", "releases", "--level", 4, "--residual-variance",
                       0.25, "--block", 50, "--output-format", "jsonl")  # fmt: skip
        assert done.code == 0, done
        assert "simulated" not in done.err
        found = json.loads(done.out)
        assert found["estimate"]["x"] == pytest.approx(rls.value[0], rel=1e-14)
        assert found["standard_error"]["x"] == pytest.approx(rls.standard_error[0], rel=1e-14)
        # 1/(σ² + v/s) with v = 1 + 3g²/4: more than that of continuous noise by 1.8e-7
        plain = pv.PrivateRLS(level, 1, 0.25)
        plain.update(pv.Release(0, 50, release.values, None, level.fingerprint, True), x)
        ratio = rls.standard_error[0] / plain.standard_error[0]
        assert ratio == pytest.approx(1 + 0.75 * GRID**2 / 8 / 0.5, abs=1e-12)


def test_values_are_clipped_to_the_range(privest):
    write([(k, 1e6 * (-1) ** k) for k in range(40)])
    assert privest(*RELEASE, "z.jsonl", "--range", "0,1").code == 0
    z = np.array([step["z"] for step in records("z.jsonl")[1:]]) * GRID
    # 0 or 2, and unit noise: means of 20 within 5 deviations
    assert abs(z[::2].mean() - 2) < 5 / 20**0.5
    assert abs(z[1::2].mean()) < 5 / 20**0.5


@pytest.mark.parametrize("lags", [[], [0.5]])
def test_a_range_makes_epsilon_true(privest, lags):
    """With a range nobody has to promise anything; with lags the sums are clipped, and it is more
    than the width of the range would make it."""
    write([(k, 1.0) for k in range(3)])
    asked = ("stream", "m.csv", "--level", 4, "--lags", ",".join(map(str, lags)),
             "--residual-variance", 1, "--delta", "1e-6")  # fmt: skip
    level = pv.StreamLevel.constant(4.0, lags=lags)
    said = pv.StreamMechanism(level, range=(0.0, 0.5)).statement(delta=1e-6)
    done = privest(*asked, "--range", "0,0.5")
    text = " ".join(done.err.split())
    assert "one measurement differs, by any amount" in text
    assert f"ε = {said.epsilon:.4g} at δ = 1e-06." in text
    assert "enforced" not in text
    least = level.to_epsilon(delta=1e-6, sensitivity=0.5)
    assert said.epsilon == pytest.approx(least, rel=1e-3) if not lags else said.epsilon > least
    done = privest(*asked, "--sensitivity", 0.25)
    said = pv.StreamMechanism(level).statement(0.25, delta=1e-6)
    text = " ".join(done.err.split())
    assert f"one measurement differs by at most 0.25: ε = {said.epsilon:.4g}" in text
    assert "is not enforced" in text
    assert privest(*asked).code == 2
    by_epsilon = ("stream", "m.csv", "--epsilon", 1, "--delta", "1e-6", "--range", "0,0.5",
                  "--residual-variance", 1, "--lags", ",".join(map(str, lags)))  # fmt: skip
    done = privest(*by_epsilon)
    if lags:
        assert (done.code, "needs the sensitivity" in done.err) == (2, True)
    else:
        found = float(" ".join(done.err.split()).partition("ε = ")[2].partition(" ")[0])
        assert 0.99 < found <= 1.0  # the ends of the range are rounded inwards


def silent(monkeypatch, words=0):
    """The real path with noise 0, rounded down: what it shows of a reading, to one step."""
    monkeypatch.setattr(lattice, "gaussian_integers", lambda n: np.zeros(n, dtype=np.int64))
    monkeypatch.setattr(lattice, "os_words", lambda n: np.full(n, words, dtype=np.uint64))


def test_without_its_noise_a_release_is_the_reading(privest, monkeypatch):
    """Of both commands: the same contract as every door of the library."""
    silent(monkeypatch)
    y = np.round(np.sin(np.arange(9.0)), 3)
    write(list(enumerate(y)))
    assert privest(*RELEASE, "z.jsonl", "--lags", "0.5", "--block", 4).code == 0
    z = np.array([step["z"] for step in records("z.jsonl")[1:]])
    past = np.concatenate([[0.0], y[:-1]])
    assert np.array_equal(z, np.floor((2 * y + past) * 1024))
    model = "A = 1.0\nC = 1.0\nQ = 0.1\nR = 0.5\ncov0 = 1.0\n"
    with open("walk.toml", "w", encoding="utf-8") as file:
        file.write(model)
    done = privest("filter", "m.csv", "--model", "walk.toml", "--measurements", "y", "--level", 4,
                   "--emit", "releases")  # fmt: skip
    z = np.array([json.loads(line)["z"][0] for line in done.out.splitlines()[1:]])
    assert np.array_equal(z, np.floor(2 * y * 1024))


def test_two_kinds_are_not_mixed(privest):
    write([(k, 1.0) for k in range(6)])
    assert privest(*RELEASE, "z.csv").code == 0
    assert privest(*RELEASE, "s.csv", "--simulate").code == 0
    mixed = lines("z.csv")[:4] + lines("s.csv")[4:]
    learn = ("--from", "releases", "--level", 4, "--residual-variance", 1)
    for text, message in (
        (mixed, "these are of two streams"),
        ([line.replace(str(GRID), "2.0") for line in lines("z.csv")], "grid of a real release is"),
        ([line.replace(str(GRID), "one") for line in lines("z.csv")], "grid of a real release is"),
        ([lines("z.csv")[0], lines("s.csv")[1].replace(",0.0,", f",{GRID},")], "whole numbers"),
    ):
        with open("mixed.csv", "w", encoding="utf-8") as file:
            file.writelines(text)
        done = privest("stream", "mixed.csv", *learn)
        assert (done.code, message in " ".join(done.err.split())) == (2, True), done
    version = lines("z.csv")  # a file of a later version is not guessed at
    version = ['{"format": "privest stream release", "version": 9}\n', *version]
    with open("mixed.jsonl", "w", encoding="utf-8") as file:
        file.writelines(version)
    assert privest("stream", "mixed.jsonl", *learn).code == 2


def test_every_line_knows_those_before_it(privest):
    write([(k, "" if k == 3 else 1.0) for k in range(8)])
    assert privest(*RELEASE, "z.jsonl", "--block", 3).code == 0
    whole = lines("z.jsonl")
    found = check_lines(whole)
    assert (found.steps, found.missing, found.signed, found.torn) == (8, 1, None, False)
    assert found.facts["grid"] == GRID
    for cut in range(1, 9):  # a crash at any line, or within one
        assert check_lines(whole[:cut]).steps == cut - 1
        torn = check_lines([*whole[:cut], whole[cut][:-5]])
        assert (torn.steps, torn.torn) == (cut - 1, True)
    changed = {
        "a number": [*whole[:4], whole[4].replace('"z": ', '"z": 1', 1), *whole[5:]],
        "left out": [*whole[:5], *whole[6:]],
        "swapped": [*whole[:2], whole[3], whole[2], *whole[4:]],
        "put in": [*whole[:3], whole[2], *whole[3:]],
        "facts": [whole[0].replace("x", "w"), *whole[1:]],
        "no facts": whole[1:],
    }
    for text in changed.values():
        with pytest.raises(InvalidInput, match="line "):
            check_lines(text)
    with pytest.raises(InvalidInput, match="no first line"):
        check_lines([])


@pytest.mark.parametrize(("simulated", "grid"), [(False, 0.0), (True, GRID), (False, 0.5)])
def test_a_first_line_cannot_say_that_other_noise_was_protected(simulated, grid):
    facts = {"format": "privest stream release", "version": 1, "simulated": simulated, "grid": grid,
             "fingerprint": "f"}  # fmt: skip
    text, _ = linked([facts, {"step": 0, "fingerprint": "f", "grid": grid, "z": 1}], "")
    with pytest.raises(InvalidInput, match="real releases are on the grid"):
        check_lines(text.splitlines(keepends=True))


def test_a_ledger_says_how_a_stopped_stream_goes_on(privest, tmp_path):
    """Without a checkpoint: what the ledger has is sent again as it was."""
    data = tmp_path / "y.csv"
    data.write_text("a,load\n" + "1,0.5\n" * 8)
    call = ("stream", data, "--target", "load", "--level", "4", "--emit", "releases")
    call += ("--output", tmp_path / "z.jsonl", "--ledger", tmp_path / "ledger.db")
    assert privest(*call).code == 0
    first = (tmp_path / "z.jsonl").read_text()
    refused = privest(*call)
    assert refused.code == 2
    assert "The ledger sends what it has of them again" in refused.err
    assert privest(*call, "--overwrite").code == 0
    numbers = [[json.loads(line).get("z") for line in text.splitlines()]
               for text in (first, (tmp_path / "z.jsonl").read_text())]  # fmt: skip
    assert numbers[0] == numbers[1]
