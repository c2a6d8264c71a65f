"""Modules that are loaded when they are first needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from privest.errors import MissingDependency


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """`__getattr__` of a package; `modules`: the names that each of its modules gives.

    A module that starts with "privest." is of another package.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}

    def found(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home[name] if home[name].startswith("privest.") else f"{package}.{home[name]}"
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return found


def needed(module: str, why: str, extra: str, instead: str = "") -> Any:  # noqa: ANN401 - a module
    """A module of an optional dependency, or the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise MissingDependency(
            f"{why}: install the extra {extra!r}, for example with "
            f'pip install "privest[{extra}]"{instead}.'
        ) from missing
