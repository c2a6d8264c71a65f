"""Options: one definition for every command, and one meaning."""

import subprocess
import sys

import numpy as np
import pytest

import privest as pv
from privest.cli.app import COMMANDS, PANELS, loaded
from privest.cli.options import listed, named_values
from privest.data.cells import joined
from privest.errors import InvalidInput
from privest.streaming import Output, Privacy, read_value
from workflow_command import runner

ONE = [name for name in COMMANDS if name not in ("ledger", "reproduce")]  # these are groups


def options(name):
    """The options of a command by their first name."""
    return {one.opts[0]: one for one in loaded(name).params if one.opts[0].startswith("--")}


@pytest.mark.parametrize(
    ("panel", "names", "commands"),
    [
        ("Privacy", ("--delta", "--sensitivity"), ("bound", "stream", "filter", "identify")),
        ("Privacy", ("--level",), ("bound", "filter")),
        ("Privacy", ("--level",), ("stream", "plan", "identify")),  # of one value: a number
        ("Output", ("--output", "--overwrite", "--png"), ("stream", "filter", "identify")),
        ("Privacy", ("--lags", "--range"), ("stream", "identify")),
        ("Model", ("--measurements", "--inputs", "--inputs-file"), ("filter", "identify")),
        ("Output", ("--diagnose",), ("filter", "identify")),
        ("Public knowledge", ("--residual-variance",), ("stream", "plan")),
        ("Noise", ("--seed", "--simulate"), ("stream", "filter", "identify", "release")),
        ("Output", ("--json",), ("bound", "plan", "estimate", "identify", "look")),
        ("Table file", ("--format",), ("plan", "look", "stream")),
    ],
)
def test_an_option_is_the_same_on_every_command(panel, names, commands):
    for name in names:
        found = [options(one)[name] for one in commands]
        assert {option.rich_help_panel for option in found} == {panel}
        assert len({option.help for option in found}) == 1


@pytest.mark.parametrize("name", ONE)
def test_every_option_is_explained(name):
    for option, one in options(name).items():
        assert one.help, option
        assert one.help[0].isupper() or one.help[0] in "εδ", option
        assert one.help.endswith("."), option


def test_the_help_of_a_plan_is_short():
    assert len(options("plan")) <= 25
    panels = {one.rich_help_panel for one in options("plan").values()}
    assert panels == {"Model", "Privacy", "Public knowledge", "Table file", "Output"}


def test_help_groups_the_commands_and_loads_none(capsys, monkeypatch):
    done = runner(capsys, monkeypatch)("--help")
    assert done.code == 0
    at = [done.out.index(panel) for panel in PANELS]
    assert at == sorted(at)
    for name, one in COMMANDS.items():
        assert f" {name} " in done.out
        assert one.text.endswith(".") or one.text.endswith("?")
    script = "import sys; from privest.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    heavy = "print([one for one in ('numpy', 'pyarrow', 'scipy') if one in sys.modules])"
    command = [sys.executable, "-c", script + heavy, "--help"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_a_level_in_each_of_its_forms(tmp_path):
    (tmp_path / "S.csv").write_text("1,2\n")
    assert Privacy(level="2.5").read().number == 2.5
    np.testing.assert_array_equal(
        Privacy(level=str(tmp_path / "S.csv")).read().dense(2), [[1, 0], [0, 2]]
    )
    asked = Privacy(epsilon=1.0, delta=1e-6, sensitivity=0.5)
    level = pv.PrivacyLevel.from_epsilon(1.0, delta=1e-6, sensitivity=0.5)
    assert asked.read().number == level.number
    assert asked.spent(level).epsilon == pytest.approx(1.0, rel=5e-3)  # the grid
    assert Privacy(level="1").spent(level) is None
    assert (
        Privacy(level="2").of_stream([0.5]).fingerprint
        == pv.StreamLevel.constant(2.0, lags=[0.5]).fingerprint
    )


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"level": "1", "epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0},
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 1e-6},
        {"level": "1", "delta": 1e-6},
    ],
)
def test_half_a_statement_is_refused(stated):
    for read in (Privacy(**stated).read, lambda: Privacy(**stated).of_stream([])):
        with pytest.raises(InvalidInput, match="as a level, or as epsilon"):
            read()


def test_a_file_is_no_level_of_one_reading(tmp_path):
    (tmp_path / "S.csv").write_text("1,2\n")
    with pytest.raises(InvalidInput, match="a number is needed"):
        Privacy(level=str(tmp_path / "S.csv")).of_stream([])


def test_output_is_written_whole_and_not_over_another(tmp_path, capsys):
    path = tmp_path / "x.csv"
    Output(path).write("a\n")
    with pytest.raises(InvalidInput, match="is replaced"):
        Output(path).write("b\n")
    Output(path, overwrite=True).write("b\n")
    assert path.read_text() == "b\n"
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]
    Output().write("c\n")
    assert capsys.readouterr().out == "c\n"


def test_values_and_lists(tmp_path):
    (tmp_path / "v.csv").write_text("1\n2\n")
    assert read_value("0.25") == 0.25
    assert read_value(str(tmp_path / "v.csv")).tolist() == [1.0, 2.0]
    with pytest.raises(InvalidInput, match="neither a number"):
        read_value("1_000")
    assert listed(" a, b,,c ") == ["a", "b", "c"]


def test_names_go_into_a_command_and_come_back():
    """Also where the end of a line is part of one, and another needs quotes."""
    names = ["age", "a\nb", "c\r\nd", "ldl, mg/dl", 'e"f', "g=h", "'"]
    for count in range(1, len(names) + 1):
        assert listed(joined(names[:count])) == names[:count]
    assert listed(joined(reversed(names))) == names[::-1]


def test_a_row_goes_into_a_command_and_comes_back():
    row = {"a\nb": 1.5, "ward, floor": "x, y", "c": 2.0}
    text = joined(f"{name}={value}" for name, value in row.items())
    assert named_values(listed(text), "--at") == row
