"""Groups of options: one definition for every command, and one meaning."""

import typing

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import privest as pv
from privest.cli import _app
from privest.cli._options import Output, Privacy, listed, read_value
from privest.cli._workflow import rows_given
from privest.data import joined
from privest.errors import InvalidInput
from privest.workflow.commands import row_text

COMMANDS = [command.callback for command in _app.app.registered_commands]


def command(name):
    return next(one for one in COMMANDS if one.__name__ in (name, f"{name}_command"))


def options(function):
    """Every name on the command line, and what Typer knows of it."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if name != "return"}


@pytest.mark.parametrize(
    ("group", "names", "commands"),
    [
        ("Privacy", ("epsilon", "delta", "move"),
         ("bound", "stream", "filter", "identify", "plan")),
        ("Privacy", ("level",), ("bound", "filter")),
        ("Privacy", ("level",), ("stream", "plan", "identify")),  # of one reading: a number
        ("Output", ("output", "overwrite", "png"), ("stream", "filter", "identify")),
        ("Privacy", ("lags",), ("stream", "identify")),
        ("Model", ("readings", "inputs", "inputs_file"), ("filter", "identify")),
        ("Output", ("diagnosis",), ("filter", "identify")),
        ("Noise", ("noise_variance",), ("bound", "stream", "plan", "consensus")),
        ("Noise", ("seed",), ("stream", "filter", "identify", "release", "consensus")),
        ("Output", ("json",), ("bound", "plan", "estimate", "consensus", "identify")),
        ("Model", ("features",), ("plan", "stream", "consensus")),
        ("Model", ("target",), ("stream", "consensus")),  # a plan takes several
    ],
)  # fmt: skip
def test_a_group_is_the_same_on_every_command(group, names, commands):
    for name in names:
        found = [options(command(one))[name] for one in commands]
        assert {option.rich_help_panel for option in found} == {group}
        if name != "noise_variance":  # the bound also takes a file
            assert len({option.help for option in found}) == 1


def test_every_option_is_explained():
    for function in COMMANDS:
        assert all(option.help for option in options(function).values()), function


def test_a_level_in_each_of_its_forms(tmp_path):
    (tmp_path / "S.csv").write_text("1,2\n")
    assert Privacy(level="2.5").read().number == 2.5
    np.testing.assert_array_equal(
        Privacy(level=str(tmp_path / "S.csv")).read().dense(2), [[1, 0], [0, 2]]
    )
    asked = Privacy(epsilon=1.0, delta=1e-6, move=0.5)
    level = pv.PrivacyLevel.from_epsilon(1.0, delta=1e-6, move=0.5)
    assert asked.read().number == level.number
    assert asked.spent(level).epsilon == pytest.approx(1.0, rel=1e-9)
    assert Privacy(level="1").spent(level) is None
    assert (
        Privacy(level="2").of_stream([0.5]).fingerprint == pv.EndlessLevel(2.0, [0.5]).fingerprint
    )


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"level": "1", "epsilon": 1.0, "delta": 1e-6, "move": 1.0},
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 1e-6},
        {"level": "1", "delta": 1e-6},
    ],
)
def test_half_a_statement_is_refused(stated):
    for read in (Privacy(**stated).read, lambda: Privacy(**stated).of_stream([])):
        with pytest.raises(InvalidInput, match="either as a level, or as epsilon"):
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


def test_the_old_name_of_the_noise_is_understood(tmp_path):
    (tmp_path / "H.csv").write_text("1\n1\n")
    common = ["bound", "--h", str(tmp_path / "H.csv"), "--level", "1"]
    old = CliRunner().invoke(_app.app, [*common, "--noise-cov", "0.5"])
    new = CliRunner().invoke(_app.app, [*common, "--noise-variance", "0.5"])
    assert old.exit_code == new.exit_code == 0
    assert old.stdout == new.stdout
    assert "--noise-cov is called --noise-variance now" in old.stderr
    assert new.stderr == ""
    for extra in ([], ["--noise-cov", "1", "--noise-variance", "1"]):
        refused = CliRunner().invoke(_app.app, [*common, *extra])
        assert isinstance(refused.exception, InvalidInput)
    shown = CliRunner().invoke(_app.app, ["bound", "--help"])
    assert "--noise-cov" not in shown.stdout


def test_values_and_lists(tmp_path):
    (tmp_path / "v.csv").write_text("1\n2\n")
    assert read_value("0.25") == 0.25
    assert read_value(str(tmp_path / "v.csv")).tolist() == [1.0, 2.0]
    with pytest.raises(InvalidInput, match="neither a number"):
        read_value("1_000")
    assert listed(" a, b,,c ") == ["a", "b", "c"]
    assert isinstance(options(command("stream"))["level"], typer.models.OptionInfo)


def test_names_go_into_a_command_and_come_back():
    """Also where the end of a line is part of one, and another needs quotes."""
    names = ["age", "a\nb", "c\r\nd", "ldl, mg/dl", 'e"f', "g=h", "'"]
    for count in range(1, len(names) + 1):
        assert listed(joined(names[:count])) == names[:count]
    assert listed(joined(reversed(names))) == names[::-1]


def test_a_row_goes_into_a_command_and_comes_back():
    row = {"a\nb": 1.5, "ward, floor": "x, y", "c": 2.0}
    assert list(rows_given([row_text(row)]).values()) == [row]
