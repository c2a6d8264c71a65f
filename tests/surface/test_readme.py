"""The README's code runs, and prints what the README says it prints.

A ```python block (run in one shared namespace) or a ```console block (each `$` line in a shell) may
be followed by a ```text block: its lines must be printed, `...` stands for anything.
"""

import doctest
import functools
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from benchmarks import suite
from typer.main import get_command

import privest as pv
from privest.cli.app import app, loaded
from shared_data import RAW
from workflow_command import called

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NEEDS_NHANES = {"survey.md"}  # pages about data that are not part of the project
MADE = {"auto_gallery", "reference"}  # folders that `make docs` writes
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
PAGES = [page for page in PAGES if not MADE & set(page.relative_to(ROOT).parts)]
API = Path(__file__).with_name("api.txt")  # and what pages call its objects
VARIABLES = "account|bounds|dynamics|found|ledger|mechanism|pipeline|plan|release|rls|sensor"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def matches(expected, found):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(expected, found, flags)


def run_console(block):
    """The commands of the block in the current folder; `privest` alone in this process."""
    printed = ""
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }
    for line in block.splitlines():
        assert line.startswith("$ "), f"console blocks hold commands only: {line!r}"
        if line.startswith("$ privest ") and not set("|<>&;$") & set(line[2:]):
            done = called(*shlex.split(line[2:])[1:], columns=80)
        else:
            done = subprocess.run(
                line[2:], shell=True, env=env, capture_output=True, text=True, check=False
            )
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    return printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    if page.name in NEEDS_NHANES and not RAW.is_dir():
        pytest.skip("the NHANES tables are not here (../shared/data/nhanes_raw)")
    # Paths on a page are relative to the project; what it writes stays out of it.
    work = tmp_path / "project"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "shared").symlink_to(ROOT.parent / "shared")
    monkeypatch.chdir(work)
    namespace = {}
    printed = None
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            out = io.StringIO()
            with redirect_stdout(out):
                exec(compile(block, str(page), "exec"), namespace)
            printed = out.getvalue()
        elif kind == "console":
            printed = run_console(block)
        elif kind == "text":
            assert printed is not None, "a text block must follow the code that prints it"
            assert matches(block, printed), f"{page.name} says:\n{block}\nprinted:\n{printed}"
            printed = None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        found = (page.parent / target).resolve() if target else page
        if MADE & set(found.parts):
            continue  # `make docs` looks there
        assert found.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(title) for title in titles}, f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_absolute_links_are_whole_and_encrypted(page):
    for link in re.findall(r"\]\((\w+:[^)]*)\)", page.read_text(encoding="utf-8")):
        assert re.fullmatch(r"https://[\w.-]+\.\w+(/\S*)?", link), f"{page.name} links to {link}"


def slug(title):
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_on_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    for dotted in set(re.findall(r"`pv\.([\w.]+)", text)):
        found = pv
        for part in dotted.split("."):
            found = getattr(found, part)
    names = set(re.findall(rf"`(?:{VARIABLES})\.(\w+)", text))
    assert names - set(re.findall(r"\w+", API.read_text("utf-8"))) == set()


@functools.cache
def options():
    """Those of every command, by its words."""
    found = {}
    for name in get_command(app).commands:
        command = loaded(name)
        own = getattr(command, "commands", {})
        for words, one in {name: command, **{f"{name} {k}": one for k, one in own.items()}}.items():
            found[words] = {"--help", *(opt for param in one.params for opt in param.opts)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_on_pages_exist(page):
    """Also of the commands in `sh` blocks and in sentences, which are not run."""
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"(?<![\w./])privest ([a-z]+ [^`|#\n]*)", text):
        first, second, *_ = [*line.split(), ""]
        known = options().get(f"{first} {second}", options().get(first, set()))
        given = set(re.findall(r"(?<!\S)--[a-z][\w-]*", line))
        assert not given or given <= known, f"privest {line}"
    for path in re.findall(r"python ((?:docs|examples|tests)/\w+\.py)", text):
        assert (ROOT / path).is_file()
    for name in re.findall(r"python -m benchmarks\.(\w+)", text):
        assert list((ROOT / "benchmarks").glob(f"{name}*"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_public_modules_and_do_not_mask_epsilon(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"privest(?:\.\w+)*\._\w+", text)
    assert not re.findall(r"(?:ε|epsilon)\s*[=:]\s*[\d.]*(?:\.\.\.|…)", text)


def test_the_page_on_tests_has_about_the_counts_of_now():
    """A few tests more or fewer are no reason to write it again: `python -m benchmarks.suite`."""
    page = suite.PAGE.read_text(encoding="utf-8")
    for name, table in suite.tables().items():
        said = re.search(suite.PART.format(name), page, re.DOTALL)[0].strip()
        numbers = re.compile(r"\b\d[\d,]*\b")
        assert numbers.sub("", said) == numbers.sub("", table)
        for old, new in zip(numbers.findall(said), numbers.findall(table)):
            then, now = (int(one.replace(",", "")) for one in (old, new))
            assert abs(then - now) <= max(3, 0.1 * now), f"{name}: {then} on the page, {now} now"


def test_the_check_itself_can_fail():
    assert matches("a\n...\nb\n", "a\n1\n2\nb\n")
    assert not matches("1.0\n", "2.0\n")


def test_make_targets_of_the_readme_exist():
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    for target in ("demo", "test", "bench"):
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)
