"""Words for users: what a level is where it first appears, and no jargon without a gloss."""

import re

import pytest

from workflow_command import runner

COMMANDS = [
    "plan", "release", "estimate", "report", "levels", "stream", "filter", "identify",
    "bound", "verify", "demo", "ledger budget", "ledger show",
]  # fmt: skip
JARGON = re.compile(r"unbiased adversar|adversary|\bmoves? by\b|\b1 times\b|1\.00 times")


def words(text):
    """A help text without the frames of its panels, on one line."""
    return " ".join(re.sub(r"[│╭╰─╮╯]", " ", text).split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_a_level_is_and_uses_no_jargon(capsys, monkeypatch, command):
    done = runner(capsys, monkeypatch)(*command.split(), "--help")
    assert done.code == 0
    said = words(done.out)
    assert not JARGON.search(said), JARGON.search(said)
    if "--level " in said.partition("Options")[2]:
        assert re.search(r"--level\b[^-]*?[Pp]rivacy level [sS]\b[^-]*?reveals more\)", said), said


def test_the_check_itself_can_fail():
    assert JARGON.search("no unbiased adversary knows it")
    assert JARGON.search("one reading moves by at most 1")
    assert not JARGON.search("with --sensitivity, 11 times")
