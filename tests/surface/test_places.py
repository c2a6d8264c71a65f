"""Files and modules that the pages name exist; no comment in the code ends in mid-word."""

import ast
import importlib
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "privest"
PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "README.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
FOLDERS = "src", "tests", "docs", "examples", "benchmarks", "packaging", "paper", ".github", ".ci"
READERS = {"own.py"}  # files that a reader of the page writes
PACKAGES = {path.stem for path in SOURCE.iterdir() if not path.name.startswith("_")}
# A path into this repository, or into the package, or the name of a Python file.
PATH = re.compile(rf"(?<![\w./:-])((?:{'|'.join(map(re.escape, FOLDERS))}|[a-z_]+)/[\w./-]*\w"
                  r"|[\w-]+\.py)(?![\w/])")  # fmt: skip
DOTTED = re.compile(r"(?<![\w./@-])((?:pv|privest|[a-z_]+)(?:\.[A-Za-z_]\w*)+)")


def spans(text):
    """What stands between backticks, and blocks of code."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return blocks, re.findall(r"`([^`\n]+)`", outside)


def paths_of(text):
    """Paths that lead into this repository, as far as their first part tells."""
    blocks, inline = spans(text)
    for found in (one for part in (*blocks, *inline) for one in PATH.findall(part)):
        first, slash, _ = found.partition("/")
        inside = first in FOLDERS or (first in PACKAGES and found.endswith(".py"))
        if found not in READERS and (inside or not slash):
            yield found


def exists(path):
    if "/" in path:
        return (ROOT / path).exists() or (SOURCE / path).exists()
    return any(next((ROOT / folder).rglob(path), None) for folder in FOLDERS)


def resolves(dotted):
    """Whether a dotted name is that of a module, or of something in one."""
    first, *names = dotted.split(".")
    found = importlib.import_module("privest")
    path = names if first in ("pv", "privest") else [first, *names]
    for k, name in enumerate(path):
        try:
            found = getattr(found, name)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(["privest", *path[: k + 1]]))
            except ImportError:
                return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_paths_that_a_page_names_exist(page):
    absent = [path for path in paths_of(page.read_text("utf-8")) if not exists(path)]
    assert absent == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_modules_and_names_that_a_page_names_exist(page):
    """Elsewhere than in CONTRIBUTING, `plan.release` is of a variable, not of a package."""
    known = {"pv", "privest"} | (PACKAGES if page.name == "CONTRIBUTING.md" else set())
    _, inline = spans(page.read_text("utf-8"))
    names = {name for span in inline for name in DOTTED.findall(span.partition("(")[0])}
    names = {n for n in names if n.split(".")[0] in known and not re.search(r"\.(py|md)$", n)}
    assert [name for name in sorted(names) if not resolves(name)] == []


def test_targets_of_make_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`make ([a-z-]+)`", text))
    made = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    assert named
    assert named <= set(made)


def test_what_is_looked_for_is_found():
    text = "`workflow/none.py` `cli.none.shown` `none.py` `report/words.py` `tests/none`\n"
    assert [p for p in paths_of(text) if not exists(p)] == [
        "workflow/none.py", "none.py", "tests/none",
    ]  # fmt: skip
    assert not resolves("cli.none.shown")
    assert resolves("cli.console.shown")


def texts_of(path):
    """Comments and docstrings of a module, each with its line."""
    source = path.read_text("utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.strip("#- ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def cut(texts, count):
    """Texts whose last word is found nowhere else, and begins a word that is common."""
    begun = {word[:k] for word, n in count.items() if n >= 5 for k in range(3, len(word))}
    for place, text in texts:
        last = re.search(r"(?<![\w./`])([a-z]{3,})$", text)
        if last and count[last[1]] <= 1 and last[1] in begun:
            yield place, text


def test_no_comment_ends_in_mid_word():
    modules = sorted((ROOT / "src").rglob("*.py"))
    texts = [(f"{path.name}:{k}", text) for path in modules for k, text in texts_of(path)]
    every = " ".join(path.read_text("utf-8") for path in (*modules, *PAGES)).lower()
    count = Counter(re.findall(r"[a-z]+", every))
    assert list(cut(texts, count)) == []
    assert list(cut([("x", "more only where those do not deci")], count + Counter(["deci"])))


def test_no_page_names_the_host_of_a_package_registry():
    hosts = r"//[\w.-]*(debian\.org|ubuntu\.com|pythonhosted|pypi\.org|anaconda\.org|npmjs)"
    assert [page.name for page in PAGES if re.search(hosts, page.read_text("utf-8"))] == []
