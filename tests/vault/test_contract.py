"""Who names what: values are opened in one line, noise is drawn in one module.

Read from the source text; the layers of imports are checked by import-linter (`make lint`).
"""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "privest"
CORE = SRC / "vault"
# Who may name what is dangerous; everything else of privest may not.
NAMED = {
    "opened": {"vault/private.py", "vault/door.py"},
    "_Private__values": {"vault/private.py"},
    # `ProtectedWay` goes when a ledger of the core charges every release of sums.
    "os_words": {"vault/noise.py", "vault/maps.py", "vault/door.py", "aggregate/_ways.py"},
    "rounded_normals": {"vault/noise.py", "vault/maps.py"},
    "karney": {"vault/noise.py"},
    "urandom": {"vault/noise.py"},
    "_noisy": {"vault/door.py"},
}
STANDARD = {
    "__future__", "abc", "ast", "bisect", "collections", "contextlib", "dataclasses", "decimal",
    "fcntl", "fractions", "functools", "hashlib", "hmac", "json", "math", "os", "pathlib", "re",
    "secrets", "sqlite3", "stat", "sys", "threading", "time", "typing", "unicodedata", "numpy",
}  # fmt: skip


def names_of(tree):
    """(name, line) of every name, attribute and import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)


def imported(tree):
    """What is imported from the core, or taken from a module of it."""
    modules = {path.stem for path in CORE.glob("*.py")} | {"vault"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privest.vault"):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner in modules:
                yield node.attr, node.lineno


def offenders(files):
    """Imports from the core everywhere; inside it every name."""
    found = []
    for name, text in files.items():
        tree = ast.parse(text)
        inside = names_of(tree) if name.startswith("vault/") else ()
        used_here = {*imported(tree), *((n, k) for n, k in inside if n != "opened")}
        for used, line in sorted(used_here):
            if used in NAMED and name not in NAMED[used]:
                found.append((name, used, line))
    return found


def sources():
    return {path.relative_to(SRC).as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")}


def test_nobody_else_opens_values_or_draws_noise():
    assert offenders(sources()) == []


@pytest.mark.parametrize("used", NAMED)
def test_the_scan_sees_them(used):
    for text in (f"from privest.vault.private import {used} as x", f"x = door.{used}(y)"):
        assert len(offenders({"workflow/new.py": text})) == 1
    inside = offenders({"vault/new.py": f"x = {used}(y)"})
    assert len(inside) == (used != "opened")  # a word of others too: its import is what counts


def test_values_are_opened_in_one_line_and_noise_is_added_in_one():
    tree = ast.parse((CORE / "door.py").read_text("utf-8"))
    calls = [
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert calls.count("opened") == calls.count("released") == calls.count("_noisy") == 1
    (noisy,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "_noisy"]
    inside = {name for name, _ in names_of(noisy)}
    assert {"opened", "released", "on_grid", "shown"} <= inside
    assert not {"append", "raise", "book", "print"} & inside


def test_noise_is_drawn_before_values_are_read():
    """In `leave`: the law, the words, then the values."""
    tree = ast.parse((CORE / "door.py").read_text("utf-8"))
    (leave,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "leave"]
    lines = {}
    for name, line in names_of(leave):
        lines.setdefault(name, line)
    order = ["require_newest", "_body", "require_budget", "drawn", "os_words", "_noisy", "writing"]
    places = [lines[name] for name in order]
    assert places == sorted(places)
    assert lines["append"] < lines["advance"] < lines["left"]


def test_the_core_imports_little():
    for path in CORE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module]
            for module in modules:
                inside = module.startswith("privest.vault") or module == "privest.errors"
                assert inside or module.split(".")[0] in STANDARD or module == "scipy.special"
