"""Results as plain values: what `to_dict` means, once, for every result of the house."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON holds
    """`value` as numbers, texts, lists and dictionaries; a number that is not finite is None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return repr(value)


class Record:
    """A dataclass that goes to JSON: its public fields, and the properties named in `DERIVED`."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, for JSON."""
        own = [field.name for field in fields(self) if not field.name.startswith("_")]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in [*own, *self.DERIVED]}
