"""What every result can do, written once: go to JSON, and give intervals about an estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, as_confidence


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON holds
    """`value` as numbers, texts, lists and dictionaries.

    JSON has no NaN and no infinity: both become None. Only releases are read back (`from_dict`),
    and of theirs a missing value is the only one that is not finite.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and np.isfinite(value).all():
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    return _plain_object(value)


def _plain_object(value: object) -> Any:  # noqa: ANN401
    if isinstance(value, Enum):
        return plain(value.value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value) if isinstance(value, Path) else repr(value)


class Record:
    """A dataclass that goes to JSON: its public fields, and the properties named in `DERIVED`."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, for JSON."""
        own = [field.name for field in fields(self) if not field.name.startswith("_")]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in [*own, *self.DERIVED]}


class Estimated:
    """What has an `estimate` (…, n) and its `covariance` (…, n, n), with normal errors."""

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error",)  # of a Record

    if TYPE_CHECKING:

        @property
        def estimate(self) -> Array: ...
        @property
        def covariance(self) -> Array: ...

    @property
    def standard_error(self) -> Array:
        """√diag covariance, (…, n): of each entry of the estimate, privacy included."""
        return standard_errors(self.covariance)

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(…, n, 2): the interval of each entry, estimate ± q·standard_error of the normal law."""
        half = normal_quantile(confidence) * self.standard_error
        return np.stack([self.estimate - half, self.estimate + half], axis=-1)


def standard_errors(covariance: Array) -> Array:
    """√diag of each matrix of a stack."""
    return np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))


def normal_quantile(confidence: float) -> float:
    """q with P(|N(0, 1)| ≤ q) = confidence."""
    return float(scipy.special.ndtri((1 + as_confidence(confidence)) / 2))
