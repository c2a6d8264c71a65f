"""Plan files: TOML or YAML, the paths in them relative to the file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from privest.data._source import EMBEDDED
from privest.errors import InvalidInput, MissingDependency
from privest.files import atomic_write
from privest.workflow._spec import Spec

ENDINGS = (".toml", ".yaml", ".yml")
# YAML 1.1 takes 1e-6 for a text, because it has no point; YAML 1.2 and everybody else do not.
YAML_FLOAT = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


def load_spec(path: str | Path) -> Spec:
    """A plan file; paths of data in it are relative to the file."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not UTF-8 text.") from None
    spec = Spec.from_dict(_parsed(file, text), str(file))
    return _moved(spec, lambda name: str(file.parent / name))


def save_spec(spec: Spec, path: str | Path) -> None:
    """Write a plan file (TOML); paths of data are written relative to it, as `load_spec` reads."""
    file = Path(path)
    if file.suffix.lower() != ".toml":
        raise InvalidInput(f"{file}: plans are written as .toml.")
    folder = file.parent.absolute()
    text = _moved(spec, lambda name: os.path.relpath(name, folder)).to_toml()
    atomic_write(file, text)


def _parsed(file: Path, text: str) -> Mapping[str, Any]:
    if file.suffix.lower() == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"{file} is not TOML: {error}.") from None
    if file.suffix.lower() not in ENDINGS:
        raise InvalidInput(f"{file}: a plan file ends with {', '.join(ENDINGS)}.")
    try:
        import yaml
    except ImportError as missing:
        raise MissingDependency(
            'Plans in YAML need PyYAML: install the extra "cli", or write the plan in TOML.'
        ) from missing

    loader: Any = type("PlanLoader", (yaml.SafeLoader,), {})  # its own: the other stays as it is
    loader.add_implicit_resolver("tag:yaml.org,2002:float", YAML_FLOAT, list("-+.0123456789"))
    try:
        found = yaml.load(text, loader)
    except (yaml.YAMLError, ValueError):  # ValueError: a date that does not exist
        raise InvalidInput(f"{file} is not YAML.") from None
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{file} does not hold a plan: names with values are expected.")
    return found


def _moved(spec: Spec, path: Callable[[str], str]) -> Spec:
    """The spec with other paths; absolute ones and the embedded table stay."""

    def moved(name: str) -> str:
        return name if name == EMBEDDED or Path(name).is_absolute() else path(name)

    noise = spec.noise
    if noise.reference is not None:
        noise = replace(noise, reference=moved(noise.reference))
    return replace(spec, data=moved(spec.data), noise=noise)
