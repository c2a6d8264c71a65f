"""Means at a row, in the units of the file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from privest.arrays import CONFIDENCE, Array, Index, as_number
from privest.data.cells import TRUTHS, meant
from privest.data.features import category_place
from privest.errors import InvalidInput
from privest.estimator import beyond_sentence
from privest.estimator.inference import OriginalMean, likelihood_mean
from privest.records import quantile
from privest.workflow.document import TableRelease
from privest.workflow.fit import added_at, added_of
from privest.workflow.result import SMALL, TableEstimate

INTERCEPT = "intercept"
MOST = 20  # names that a message lists
BY_FEATURES = "a variance by features"
ENOUGH_ROWS = 5  # for each term of the variance by features
SPANNED = 1e-9  # of the largest eigenvalue: terms that others span
LARGEST = 0.9  # leverage that a row is given in the variance by features


def row_of(
    names: tuple[str, ...], given: Mapping[str, object], categories: Mapping[str, tuple[str, ...]]
) -> Array:
    """h for values by name: numbers, or a category; of a product, age:sex=male, that of its parts.

    >>> lists = {"sex": ("female", "male")}
    >>> row_of(("intercept", "age", "sex=male"), {"age": 50, "sex": "male"}, lists).tolist()
    [1.0, 50.0, 1.0]
    """
    known = {part for one in names for part in (one, *one.split(":"))} - {INTERCEPT}
    cells = {INTERCEPT: 1.0}
    for name, value in given.items():
        if name in categories:
            cells |= _indicators(name, value, categories[name])
        elif name in known:
            said: Any = TRUTHS.get(str(value).lower(), value)  # yes and no, as in a table
            cells[name] = as_number(said, f"the value of {name!r}")
        else:
            listed = ", ".join(dict.fromkeys(one for one in names if one != INTERCEPT))
            raise InvalidInput(
                f"there is no feature {name!r}; coefficients are {listed}."
                f"{meant(name, (*names, *categories))}"
            )
    return np.array([_cell(name, cells) for name in names])


def _indicators(name: str, value: object, listed: tuple[str, ...]) -> dict[str, float]:
    place = category_place(value, listed)
    if place is None:
        shown = ", ".join(listed[:MOST]) + (", …" if len(listed) > MOST else "")
        raise InvalidInput(
            f"{value!r} is not in the public list of categories of {name!r}, which are {shown}."
            f"{meant(str(value), listed)}"
        )
    return {f"{name}={one}": float(k == place) for k, one in enumerate(listed)}


def _cell(name: str, cells: Mapping[str, float]) -> float:
    if name in cells:
        return cells[name]
    parts = name.split(":")
    if not all(part in cells for part in parts):
        absent = next(part for part in parts if part not in cells)
        raise InvalidInput(f"a mean at a row needs a value for every feature; {absent!r} has none.")
    return math.prod(cells[part] for part in parts)


def mean_at(
    found: TableEstimate, row: Mapping[str, object], confidence: float = CONFIDENCE
) -> OriginalMean:
    """See `TableEstimate.mean_at`."""
    release = found.release
    if release.model.family != "gaussian":
        raise InvalidInput(
            f"a mean at a row is of a numeric outcome; this release is {release.model.family}."
        )
    if release.sums and not (release.sums[0].matrix and release.model.transform == "none"):
        raise InvalidInput(
            "a mean at a row needs how the coefficients go together: an aggregate release of a "
            "target without a logarithm, with its matrix published."
        )
    if found.beyond is not None:
        raise InvalidInput(f"a mean at a row is not there. {beyond_sentence(found.beyond)}")
    if found.likelihood is None and (found.clipping_bias or 0.0) >= SMALL:
        raise InvalidInput(
            "a mean at a row is not there: the range clips so many values that the mean of what "
            "was clipped is not that of the values. Use a wider range."
        )
    h = row_of(found.names, row, release.categories)
    eta, own = float(h @ found.value), float(np.sqrt(h @ found.covariance @ h))
    if release.model.transform == "none":
        return _linear(found, h, eta, own, confidence)
    if found.likelihood is not None:
        return _by_likelihood(found, h, eta, confidence)
    variance, error, alike = _variance_at(found, h)
    mean = likelihood_mean(
        eta, variance, np.diag([own**2, error]), freedom=_freedom(found, h), confidence=confidence
    )
    which = "the same variance in all rows: there are too few to see more" if alike else BY_FEATURES
    return replace(mean, method=f"if the logarithms have normal errors, with {which}")


def _linear(
    found: TableEstimate, h: Array, eta: float, own: float, confidence: float
) -> OriginalMean:
    half = quantile(confidence, _freedom(found, h)) * own
    ends = np.array([eta - half, eta + half])
    return OriginalMean(
        mean=eta, interval=ends, median=eta, median_interval=ends, method="least squares"
    )


def _freedom(found: TableEstimate, h: Array) -> float | None:
    freedom = found.degrees_of_freedom
    if freedom is None:
        return None
    return float(np.min(np.broadcast_to(np.asarray(freedom, float), h.shape)[h != 0]))


def _by_likelihood(found: TableEstimate, h: Array, eta: float, confidence: float) -> OriginalMean:
    fit = found.likelihood
    assert fit is not None
    units = np.zeros((2, len(h) + 1))
    units[0, :-1], units[1, -1] = h, 1.0
    joint = fit.joint
    if joint is None:  # σ² was stated
        joint = np.zeros((len(h) + 1, len(h) + 1))
        joint[:-1, :-1] = fit.covariance
    variance = fit.noise_variance
    if variance is None:
        assert found.residual_variance is not None
        variance = found.residual_variance
    return likelihood_mean(
        eta, variance, units @ joint @ units.T, freedom=_freedom(found, h), confidence=confidence
    )


def _variance_at(found: TableEstimate, h: Array) -> tuple[float, float, bool]:
    """σ² of the values at a row, the variance of its estimate, and whether rows count as alike.

    Squared residuals less the privacy noise, by least squares on the features and their squares;
    errors by rows, or by persons.
    """
    n, rows, sums = len(h), 0, np.zeros((2, len(h)))
    for part in _residuals(found):
        rows += len(part.left)
        sums += np.stack([part.H.sum(axis=0), (part.H**2).sum(axis=0)])
    mean = sums[0] / rows
    size = np.sqrt(np.maximum(sums[1] / rows - mean**2, 0.0))
    varies = size > 1e-9 * np.sqrt(sums[1] / rows)
    alike = rows < ENOUGH_ROWS * (1 + 2 * int(varies.sum()))
    if alike:
        varies &= False

    def basis(H: Array) -> Array:
        scaled = (H[:, varies] - mean[varies]) / size[varies]
        return np.column_stack([np.ones(len(H)), scaled, scaled**2])

    width, more = 1 + 2 * int(varies.sum()), rows / max(rows - n, 1)
    gram, right = np.zeros((width, width)), np.zeros(width)
    for part in _residuals(found):
        G, square = basis(part.H), more * part.left**2 - part.added
        gram += G.T @ (part.weight[:, None] * G)
        right += (part.weight * square) @ G
    inverse = np.linalg.pinv(gram, rcond=SPANNED, hermitian=True)  # t² of a category is t
    curve, at = inverse @ right, inverse @ basis(h[None])[0]
    by = np.zeros(0 if found.release.persons is None else found.release.persons + 1)
    error = 0.0
    for part in _residuals(found):
        G, square = basis(part.H), more * part.left**2 - part.added
        leverage = np.minimum(part.weight * ((G @ inverse) * G).sum(axis=1), LARGEST)
        own = part.weight * (G @ at) * (square - G @ curve) / (1 - leverage)
        if part.person is None:
            error += float(own @ own)
        else:
            np.add.at(by, part.person, own)
    return float(basis(h[None])[0] @ curve), error + float(by @ by), alike


class _Residuals(NamedTuple):
    """Residuals of some rows with the variance of their noise, weight, and persons from 1."""

    H: Array
    left: Array
    added: Array | float
    weight: Array
    person: Index | None = None


def _residuals(found: TableEstimate) -> Iterator[_Residuals]:
    release, theta = found.release, found.value
    if release.model.person is not None:
        from privest.workflow.cluster import person_rows

        for H, z, added, person in person_rows(release):
            yield _Residuals(H, z - H @ theta, added, np.ones(len(z)), person)
        return
    for part in release.shown_blocks():
        left, weight = part.z[:, 0] - part.H @ theta, part.weights
        if part.levels is None:
            own = np.ones(len(part)) if weight is None else weight
            yield _Residuals(part.H, left, added_of(release), own)
            continue
        known = added_at(release, part)
        # a square counts by how little noise is in it
        yield _Residuals(part.H, left, known, 1 / np.square((found.noise_found or 0.0) + known))


# --- what can be asked ---


def row_features(release: TableRelease) -> dict[str, tuple[str, ...] | None]:
    """The features that `mean_at` needs: public lists of categories, None for a number."""
    lists, names = release.categories, release.names
    found: dict[str, tuple[str, ...] | None] = {}
    for name in names:
        parts = name.split(":")
        if not any(part in names or _column(part, lists) for part in parts):
            parts = [name]  # a name that has a colon in it, or a product of what has none
        for part in parts:
            column = _column(part, lists)
            found[column or part] = lists[column] if column else None
    found.pop(INTERCEPT, None)
    return found


def _column(part: str, lists: Mapping[str, tuple[str, ...]]) -> str | None:
    return next(
        (name for name, values in lists.items() if any(part == f"{name}={one}" for one in values)),
        None,
    )
