"""A name that a message or a docstring gives exists: `privest.x.y`, `pv.x.y`, `package.name`.

Messages of errors name what users can call: public names. Docstrings may name modules.
"""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import privest as pv

SOURCE = Path(__file__).parents[2] / "src" / "privest"
PACKAGES = {name: getattr(pv, name) for name in pv.__all__ if inspect.ismodule(getattr(pv, name))}
INSIDE = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"model"}  # a variable
NAME = re.compile(rf"(?<![\w.@/-])(?:privest|pv|{'|'.join(sorted(INSIDE))})(?:\.[A-Za-z_]\w*)+")
FILES = ("html", "json", "db", "zip", "csv", "toml", ".py")
# What such words stand for where they are variables of an example.
OBJECTS = {"mechanism": pv.GaussianMechanism(1.0, 4), "ledger": pv.Ledger}


def found(name):
    """Whether `name` can be imported, or is an attribute of what can be."""
    parts = name.removeprefix("pv.").removeprefix("privest.").split(".")
    if hasattr(OBJECTS.get(parts[0]), parts[-1]):
        return True
    value = pv
    for at, part in enumerate(parts):
        if not hasattr(value, part):
            try:
                import_module(".".join(["privest", *parts[: at + 1]]))
            except ImportError:
                return False
        value = getattr(value, part)
    return True


def public(name):
    """Whether it is a public name, or an attribute of one."""
    parts = name.removeprefix("pv.").removeprefix("privest.").split(".")
    if hasattr(OBJECTS.get(parts[0]), parts[-1]):
        return True
    if parts[0] in PACKAGES:
        package = PACKAGES[parts[0]]
        return len(parts) == 1 or parts[1] in getattr(package, "__all__", vars(package))
    return parts[0] in pv.__all__


def messages(tree):
    """The texts inside `raise …`, without those of nested functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            yield from (part for part in ast.walk(node) if isinstance(part, ast.Constant))


def named(constants):
    texts = [part.value for part in constants if isinstance(part.value, str)]
    every = {name for text in texts for name in NAME.findall(text)}
    return {name for name in every if not name.endswith(FILES)}


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_names_in_texts_exist(path):
    tree = ast.parse(path.read_text("utf-8"))
    every = named(node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    assert [name for name in sorted(every) if not found(name)] == []
    assert [name for name in sorted(named(messages(tree))) if not public(name)] == []


def test_the_scan_sees_wrong_names():
    text = "use privacy.load_level, privest.data.Table or pv.mechanism.source, not a ledger.db."
    tree = ast.parse(f'"""{text}"""\nraise ValueError("{text}")')
    seen = named(messages(tree))
    assert seen == {"privacy.load_level", "privest.data.Table", "pv.mechanism.source"}
    assert {name for name in seen if not found(name)} == seen - {"pv.mechanism.source"}
    assert not any(map(public, seen))
    assert public("privest.noise.Gaussian")
    assert public("mechanism.release")
