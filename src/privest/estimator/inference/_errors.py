"""How good an estimate is, and how that was found out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array
from privest.records import Record, quantile, standard_errors


@dataclass(frozen=True, eq=False, kw_only=True)
class Errors(Record):
    """What an `estimator.Result` holds beside its estimate, by one way of finding errors.

    covariance          (n, n) of θ̂, release noise included.
    degrees_of_freedom  of Student's t, one number or one a coefficient; None: normal.
    floor               (n,) standard errors by the known release noise alone, which those of the
                        covariance are not below; None: not needed.
    sampling            (n, n): the part that is there without release noise, or None.
    classical           (n, n): the covariance without privacy; None where noise hides it.
    method              how the errors were made, in a few words for people.
    """

    covariance: Array
    degrees_of_freedom: float | Array | None
    floor: Array | None
    sampling: Array | None
    classical: Array | None
    method: str

    @classmethod
    def above(
        cls, known: Array, covariance: Array, degrees_of_freedom: float | Array, method: str
    ) -> Self:
        """Errors of the size of `covariance`, not below those of the release noise alone.

        known  (n, n): the covariance of θ̂ by the release noise, C_r.

            covariance = C_r + sampling ,   sampling = (covariance − C_r)₊   (`without_noise`)

        Where that is larger than `covariance` degrees of freedom rise, so that 95 % intervals are
        those of max(t·√covariance_jj, 1.96·√C_r,jj) or 1.96 new standard errors. (Plain t is exact
        overall, but covers .83 at sσ² = 1 given that the scatter came out below the known noise;
        so .950 to .983.) Coefficients whose variance is NaN stay so.
        """
        told = np.isfinite(np.diagonal(covariance))
        place = np.ix_(told, told)
        sampling = np.full_like(covariance, np.nan)
        sampling[place] = without_noise(covariance[place], known[place])
        whole = known + sampling
        freedom = np.broadcast_to(np.asarray(degrees_of_freedom, float), told.shape)
        size, floor = standard_errors(whole), standard_errors(known)
        with np.errstate(divide="ignore", invalid="ignore"):
            wide = quantile(CONFIDENCE, freedom) * standard_errors(covariance)
            wide = np.maximum(wide, quantile(CONFIDENCE) * floor) / size
        new = np.where(np.isfinite(wide), freedom_of(wide, freedom), freedom)
        return cls(
            covariance=whole,
            degrees_of_freedom=degrees_of_freedom if np.array_equal(new, freedom) else new,
            floor=floor,
            sampling=sampling,
            classical=sampling if _is_seen(covariance, known, freedom) else None,
            method=method,
        )

    def fields(self) -> dict[str, Any]:
        """The same by the names of the fields of a `Result`."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _is_seen(covariance: Array, known: Array, freedom: Array) -> bool:
    """Whether what noise leaves of every variance is beyond chance: 2 sd, each √(2/f) of it."""
    whole, noise = np.diagonal(covariance), np.diagonal(known)
    told = np.isfinite(whole)
    chance = np.where(noise > 0, 2 * np.sqrt(2 / freedom), 0.0)
    return bool((whole - noise > chance * whole)[told].all())


def freedom_of(wide: Array, freedom: Array) -> Array:
    """Degrees of freedom whose 95 % quantile is `wide`: `freedom` to rounding, else by Student's t.

    Infinite where it is at most the normal one.
    """
    normal = quantile(CONFIDENCE) * (1 + 1e-9)
    found = scipy.special.stdtridf((1 + CONFIDENCE) / 2, np.maximum(wide, normal))
    same = np.isclose(wide, quantile(CONFIDENCE, freedom), rtol=1e-9)
    return np.where(same, freedom, np.where(wide > normal, found, np.inf))


def without_noise(covariance: Array, known: Array) -> Array:
    """What is left of a covariance without release noise, whose part of it is `known`.

    covariance − known, without the directions in which that is negative, which is chance: with
    known = LLᵀ the eigenvalues of L⁻¹·covariance·L⁻ᵀ less 1, and 0 where they are below. For
    covariance = v̂A and known = aA it is max(v̂ − a, 0)·A.
    """
    if not known.any():
        return covariance.copy()
    root = np.linalg.cholesky(known)
    half = np.linalg.solve(root, covariance)
    scaled = np.linalg.solve(root, half.T)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    turned = root @ vectors
    return np.asarray((turned * np.maximum(values - 1.0, 0.0)) @ turned.T)
