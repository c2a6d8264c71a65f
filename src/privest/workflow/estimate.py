"""The estimate: coefficients from a release alone, with errors that include the privacy noise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np

from privest.arrays import Array, ArrayLike
from privest.data.cells import meant
from privest.errors import InvalidInput
from privest.estimator import Estimate, estimate_release
from privest.estimator.inference import Joint, joint_test
from privest.estimator.likelihood import Backend
from privest.linalg import RunningLeastSquares
from privest.model import LinearModel
from privest.release import ReleaseRecord
from privest.workflow.clipping import undo_clipping
from privest.workflow.cluster import estimate_people
from privest.workflow.document import TableRelease, read_release
from privest.workflow.fit import (
    added_of,
    estimate_family,
    estimate_levels,
    estimate_rows,
    estimate_weighted,
)
from privest.workflow.result import SMALL, TableEstimate
from privest.workflow.spec import as_names
from privest.workflow.terms import Column


@overload
def estimate(
    release: TableRelease | str | os.PathLike[str],
    model: None = None,
    *,
    cov_type: str = "auto",
    features: str | Sequence[str] | None = None,
) -> TableEstimate: ...
@overload
def estimate(release: Estimate) -> Estimate: ...
@overload
def estimate(
    release: ReleaseRecord | ArrayLike, model: LinearModel, *, mechanism: object = None,
    backend: Backend | str = "numpy",
) -> Estimate: ...  # fmt: skip
def estimate(
    release: TableRelease | str | os.PathLike[str] | ReleaseRecord | Estimate | ArrayLike,
    model: LinearModel | None = None,
    *,
    cov_type: str = "auto",
    features: str | Sequence[str] | None = None,
    mechanism: object = None,
    backend: Backend | str = "numpy",
) -> Estimate:
    """θ̂ from a release alone, with errors that include the privacy noise (`optEst`).

    release    of a table: what `plan.release` returned, or its path. With a `model`: a stream
               release, or what `mechanism.simulate` and `release` return. An `Estimate`, which
               `OutputPerturbation` releases, is returned as it is.
    model      y = Hθ + w of a release that is not a table: generalised least squares for Gaussian
               noise, maximum likelihood for any other, the clipped likelihood with a range.
    cov_type   of a table: "auto", "t", "HC3", "HC2", "stated" or "huber"; of persons "cr2"; of
               yes/no and counts "model" or "HC3".
    features   of an aggregate release with its matrix: the coefficients of a smaller model.
    mechanism  that made a bare array z (q,) or (trials, q).
    backend    "numpy", or "cupy" for a maximum likelihood fit.
    """
    if isinstance(release, TableRelease | str | os.PathLike):
        if model is not None:
            raise InvalidInput("the release of a table has its model: leave `model` out.")
        found = release if isinstance(release, TableRelease) else read_release(Path(release))
        if features is not None:
            found = _within(found, as_names(features, "features"))
        return _of_table(found, cov_type)
    if isinstance(release, Estimate):
        return release
    if model is None:
        raise InvalidInput("a release that is not a table needs its model: estimate(z, model).")
    return estimate_release(release, model, mechanism, backend=backend)


def _within(release: TableRelease, features: tuple[str, ...]) -> TableRelease:
    if not release.sums:
        raise InvalidInput(
            "rows leave with all their features: estimate from the columns that you want."
        )
    known = [name.partition("=")[0] for name in release.names]
    for name in features:
        if name not in known:
            raise InvalidInput(
                f"{name!r} is not in the model of the release: that is a new release, which spends "
                f"privacy again.{meant(name, known)}"
            )
    places = [k for k, name in enumerate(known) if name in {"intercept", *features}]
    names = tuple(release.names[k] for k in places)
    sums = tuple(one.within(places) for one in release.sums)
    return replace(release, sums=sums, coefficients=names)


def _of_table(release: TableRelease, errors: str) -> TableEstimate:
    if len(release.columns) > 1:
        return _of_columns(release, errors)
    found = release.form.estimate(release.remembered(), errors)
    return replace(found, release=release)


def fit_rows(release: TableRelease, errors: str) -> TableEstimate:
    model, limits = release.model, release.limits(release.column)
    if model.person is not None:
        return estimate_people(release, errors)
    if model.family != "gaussian":
        return estimate_family(release, errors)
    if release.privacy.level_column is not None:
        found = estimate_levels(release, errors)
    elif model.weights is not None:
        found = estimate_weighted(release, errors)
    else:
        found = estimate_rows(release, errors)
    return found if limits is None else undo_clipping(found, limits, errors)


def _of_columns(release: TableRelease, errors: str) -> TableEstimate:
    """All columns: least squares one by one is efficient, as all have the same features."""
    parts = tuple(_of_table(one_column(release, column), errors) for column in release.columns)
    first, silent = parts[0], _silent(release, parts)
    named = [(part, part.release.column.target) for part in parts]
    return TableEstimate(
        value=np.concatenate([part.value for part in parts]),
        covariance=_covariance(parts),
        names=tuple(f"{target}: {name}" for part, target in named for name in part.names),
        simulated=first.simulated,
        degrees_of_freedom=np.concatenate([_freedom(part) for part in parts]),
        method="; ".join(dict.fromkeys(str(part.method) for part in parts)),
        rows=first.rows,
        dropped=first.dropped,
        cautions=tuple(f"{target}: {text}" for part, target in named for text in part.cautions),
        release=release,
        parts=parts,
        joint=None if silent else _joint(release, parts),
        silent=silent,
    )


def _covariance(parts: Sequence[TableEstimate]) -> Array:
    blocks = [part.covariance for part in parts]
    found, n = np.full((sum(map(len, blocks)),) * 2, np.nan), len(blocks[0])
    for at, block in enumerate(blocks):
        own = slice(at * n, (at + 1) * n)
        found[own, own] = block
    return found


def _freedom(part: TableEstimate) -> Array:
    known = np.inf if part.degrees_of_freedom is None else part.degrees_of_freedom
    return np.broadcast_to(np.asarray(known, dtype=np.float64), len(part.names))


def _silent(release: TableRelease, parts: Sequence[TableEstimate]) -> str | None:
    """Why there is no joint test; None: there is one."""
    if release.sums:
        return "the joint test needs rows, and noisy sums are estimated column by column"
    if any((part.clipping_bias or 0.0) >= SMALL for part in parts):
        return "values were clipped, and the joint test is of least squares"
    if any("Huber" in (part.method or "") for part in parts):
        return "the joint test is of least squares, and these estimates are Huber's"
    if release.model.weights is not None:
        return "rows have weights, and the joint test is of rows that count the same"
    if release.rows - len(release.names) < len(parts):
        return "there are too few rows for a joint test of so many columns"
    return None


def _joint(release: TableRelease, parts: Sequence[TableEstimate]) -> Joint:
    B = np.column_stack([part.value for part in parts])
    n, q = B.shape
    sums, squares = RunningLeastSquares(n), np.zeros((q, q))
    for block in release.blocks():
        sums.add_matrix(block.H)
        E = block.z - block.H @ B
        squares += E.T @ E
    added = [added_of(one_column(release, column)) for column in release.columns]
    return joint_test(B, sums.inverse(), squares, release.rows - n, added)


def one_column(release: TableRelease, column: Column) -> TableRelease:
    return replace(release, columns=(column,))
