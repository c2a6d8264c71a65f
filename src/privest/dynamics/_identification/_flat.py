"""What the releases do not determine: flat directions of the likelihood, named in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Flags
from privest.records import Record

NULL = 1e-8  # of the largest eigenvalue of an information with unit diagonal: nothing is known
WEAK = 1.0  # standard error in logarithms and atanh beyond which hardly anything is known
NAMED = 0.2  # of the largest entry: parts of a direction that are named


@dataclass(frozen=True, eq=False, repr=False)
class FlatDirection(Record):
    """A combination of working parameters that the releases hardly determine, or not at all.

    direction        (p,) unit vector in working scale: ℓ changes little along it.
    standard_error   of the combination; ∞ where nothing is known of it.
    words            "log q − log r is not determined by these releases".
    """

    labels: tuple[str, ...]
    direction: Array
    standard_error: float
    words: str

    def __repr__(self) -> str:
        return f"FlatDirection({self.words})"


def flat_directions(
    information: Array, labels: Sequence[str], free_of_units: Flags | None = None
) -> tuple[FlatDirection, ...]:
    """The directions of an information matrix (p, p) in working scale that are flat.

    Null: eigenvalues below NULL of the largest after scaling to unit diagonal. Weak: a standard
    error λ^−½ > WEAK in the information of the parameters that are `free_of_units` (logarithms,
    atanh; all unless said), what is shared with the others taken off: a mean has units of its own,
    in which 1 says nothing.
    """
    p = len(information)
    own = np.ones(p, dtype=bool) if free_of_units is None else free_of_units
    null = _null_space(information)
    found = [_named(direction, math.inf, labels) for direction in null.T]
    covariance = _covariance(information, null)[np.ix_(own, own)]
    variances, vectors = np.linalg.eigh(covariance)
    for variance, part in zip(variances[::-1], vectors.T[::-1]):
        if not variance > WEAK**2:
            break
        direction = np.zeros(p)
        direction[own] = part
        found.append(_named(direction, math.sqrt(variance), labels))
    return tuple(found)


def _sizes(information: Array) -> Array:
    diagonal = information.diagonal()
    return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def _null_space(information: Array) -> Array:
    """(p, number) unit vectors in working scale along which there is no information."""
    unseen = ~(information.diagonal() > 0)  # these are null by themselves
    size, kept = _sizes(information), np.flatnonzero(~unseen)
    alone = np.eye(len(information))[:, unseen]
    if not len(kept):
        return alone
    inner = information[np.ix_(kept, kept)] / np.outer(size[kept], size[kept])
    values, vectors = np.linalg.eigh(inner)
    flat = values <= NULL * values[-1]
    directions = np.zeros((len(information), int(flat.sum())))
    directions[kept] = vectors[:, flat] / size[kept, None]
    directions /= np.linalg.norm(directions, axis=0)
    return np.hstack([alone, directions])


def _covariance(information: Array, null: Array) -> Array:
    """The inverse on what is left beside the null directions."""
    if null.shape[1]:
        basis = np.linalg.qr(null, mode="complete")[0][:, null.shape[1] :]
        inner = basis.T @ information @ basis
        return np.asarray(basis @ np.linalg.inv(inner) @ basis.T) if basis.size else 0 * information
    size = _sizes(information)
    return np.asarray(np.linalg.inv(information / np.outer(size, size)) / np.outer(size, size))


def _named(direction: Array, error: float, labels: Sequence[str]) -> FlatDirection:
    size = np.abs(direction)
    order = np.argsort(-np.round(size / size.max(), 6), kind="stable")  # equal ones as they come
    first = direction[order[0]]
    parts: list[str] = []
    for i in order:
        share = direction[i] / first
        if abs(share) < NAMED:
            break
        times = "" if abs(abs(share) - 1) < 0.05 else f"{abs(share):.2g}·"
        sign = (" + " if share > 0 else " − ") if parts else ""
        parts.append(f"{sign}{times}{labels[i]}")
    what = "".join(parts)
    how = (
        "is not determined by these releases" if math.isinf(error)
        else f"is hardly determined by these releases (standard error {error:.2g})"
    )  # fmt: skip
    unit = direction / np.linalg.norm(direction) * math.copysign(1.0, first)
    return FlatDirection(tuple(labels), unit, error, f"{what} {how}")
