"""What a density shows of I_z(y) next to a level: channels by a search, Gaussian noise in full."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy

from privest.arrays import Array, plural
from privest.audit._door import Look
from privest.audit._floors import AGREE, relative
from privest.audit._sampled import FisherInformation
from privest.audit._search import Found, worst_input
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, GaussianMechanism, Mechanism
from privest.mechanism._numerics import information_by_numbers

# How the draws of a mechanism compare with its density.
Draws = Literal["agrees", "contradicts", "not examined", "audited itself"]
# Of the list in `_scope`.
PAIRS = "dependence between two outputs"
MORE = "dependence among three or more outputs (products of signs)"
CLOSED_FORM = "closed form supremum"
OUT_OF_REACH = "Its supremum exceeds the level, and the search does not reach that far."
# Second differences over so many units of 1/√dᵀSd, along so many random directions.
STEPS, RANDOM = (0.3, 1.0, 3.0), 8
UNSURE = 1e-3  # an error of the margin beyond which numbers do not support a "holds"


@dataclass(frozen=True, eq=False)
class Finding:
    """What was found about I_z(y) ≤ S, before anybody judges.

    Most of it is as in `Certificate`, besides:
    least       what the margin surely is: the level is broken if this exceeds 1.
    method      how, where the mechanism's own supremum does not settle it.
    refuted     something that the mechanism says of itself is wrong.
    unsure      the numbers are too uncertain for a "holds".
    undecided   one more reason if there is no verdict.
    where       "for inputs from −64 to 64": what a verdict is about; empty: every y.
    resolution  the widest distance between neighbours that were looked at; NaN: only some places.
    bound       proven for all of `where`, whatever the mechanism claims.
    sampler     how the draws compare with the density.
    searched    what was found of each channel.
    looked      points of `_scope.ASPECTS` that this way of looking has examined.
    power       the least excess over the level that draws would have shown.
    """

    margin: float
    error: float
    least: float
    claimed: float
    worst_y: Array | None
    method: str
    reasons: tuple[str, ...]
    confidence: float | None = None
    refuted: bool = False
    unsure: bool = False
    undecided: tuple[str, ...] = ()
    where: str = ""
    resolution: float = 0.0
    bound: float = math.inf
    sampler: Draws = "not examined"
    searched: dict[Channel, Found] = field(default_factory=dict)
    looked: dict[str, bool] = field(default_factory=dict)
    examined: tuple[str, ...] = ()
    power: float = math.nan


def by_density(mechanism: Mechanism, S: PSD, look: Look) -> Finding | None:
    """What needs no scores, also at the places of the look; None where that is not enough."""
    if isinstance(mechanism, Componentwise):
        return by_search(mechanism, S, look)
    at = look.places if look.places.size else np.zeros((0, S.size))
    return by_curvature(mechanism, S, at) if isinstance(mechanism, GaussianMechanism) else None


def by_search(mechanism: Componentwise, S: PSD, look: Look) -> Finding:
    """Independent channels: the worst input of each, and what they show together."""
    inputs = mechanism.inputs(look.places if look.places.size else np.zeros((0, S.size)))
    ranges = _input_ranges(mechanism, look.domain)
    found: dict[Channel, Found] = {}
    for channel in dict.fromkeys(mechanism.channels):
        same = [j for j, other in enumerate(mechanism.channels) if other == channel]
        span = None if ranges is None else (ranges[same, 0].min(), ranges[same, 1].max())
        found[channel] = worst_input(
            channel, inputs=inputs[:, same], domain=span, lipschitz=look.lipschitz
        )
    each = [found[channel] for channel in mechanism.channels]
    margin, error, y = _together(mechanism, S, each, look.domain)
    claimed, bound = math.nan, math.inf
    if not any(math.isnan(channel.worst.information) for channel in found):
        claimed = relative(S, mechanism.worst_information())
    if all(math.isfinite(f.bound) for f in each):
        bound = relative(S, mechanism.spread(np.array([f.bound for f in each])))
    lies = tuple(_lies(found))
    unsure = error > UNSURE and not margin + error <= 1 and not margin - error > 1
    at = None if all(f.constant for f in each) else y
    reasons = (*lies, *_explained(found, unsure, claimed, bool(lies)), *_covering(bound, look))
    more = (OUT_OF_REACH,) if not lies and claimed > 1 else ()
    how, least, wrong = "search by quadrature", margin - error, bool(lies)
    return Finding(
        margin, error, least, claimed, at, how, reasons, None, wrong, unsure, more,
        _range(found, look), max(f.resolution for f in each), bound, searched=found,
    )  # fmt: skip


def _input_ranges(mechanism: Componentwise, domain: Array | None) -> Array | None:
    """The inputs (q, 2) that readings in the domain (m, 2) reach, by interval arithmetic."""
    if domain is None:
        return None
    A = np.eye(mechanism.readings) if mechanism.matrix is None else mechanism.matrix
    low, high = domain.T
    least = np.where(A > 0, A * low, A * high).sum(axis=1)
    most = np.where(A > 0, A * high, A * low).sum(axis=1)
    return np.stack([least + mechanism.offset, most + mechanism.offset], axis=1)


def _range(found: dict[Channel, Found], look: Look) -> str:
    """What the search was about; empty: every input, by the form of the channels."""
    if look.domain is not None:
        low, high = look.domain.min(), look.domain.max()
        return f"for readings from {low:.4g} to {high:.4g}"
    ranges = {(f.examined.low, f.examined.high) for f in found.values() if f.examined is not None}
    if not ranges:
        return ""
    (low, high), *others = sorted(ranges)
    return (
        "for the inputs that were searched"
        if others
        else f"for inputs from {low:.4g} to {high:.4g}"
    )


def _covering(bound: float, look: Look) -> Iterator[str]:
    if math.isfinite(bound):
        yield (
            f"With |I(u) − I(v)| ≤ {look.lipschitz:.4g}·|u − v| it is at most {bound:.6g} of the "
            "level on all of them (covering argument)."
        )


def _together(
    mechanism: Componentwise, S: PSD, each: list[Found], domain: Array | None
) -> tuple[float, float, Array]:
    """The margin, its error and a y at which it is found or approached."""
    every = relative(S, mechanism.spread(np.array([f.information for f in each])))
    error = 0.0
    if math.isfinite(every):
        error = relative(S, mechanism.spread(np.array([f.error for f in each])))
    y, reached = reachable(mechanism, np.array([f.at for f in each]), domain)
    if reached:
        return every, error, y
    # Inputs that no y reaches together: the sum is a bound; what some y shows is looked at apart.
    middle = 0 * y if domain is None else domain.mean(axis=1)
    shown = (relative(S, of_channels(mechanism, at).matrix) for at in (y, middle))
    return max(shown), error, y


def reachable(
    mechanism: Componentwise, u: Array, domain: Array | None = None
) -> tuple[Array, bool]:
    """The y (in the domain) with Ay + b = u, and whether there is one."""
    A, goal = mechanism.matrix, u - mechanism.offset
    if A is None:
        y: Array = goal if domain is None else np.clip(goal, *domain.T)
    elif domain is None:
        y = np.linalg.lstsq(A, goal, rcond=None)[0]
    else:
        y = scipy.optimize.lsq_linear(A, goal, tuple(domain.T), tol=1e-14).x
    off = np.abs(mechanism.inputs(y) - u).max()
    return y, bool(off <= 1e-9 * (1 + np.abs(u).max()))


def _lies(found: dict[Channel, Found]) -> Iterator[str]:
    """What the channels say of themselves, and is wrong."""
    for c, f in found.items():
        if f.information - 4 * f.error > c.worst.information * (1 + AGREE):
            yield (
                f"The supremum it claims, {c.worst.information:.6g}, is wrong: at input "
                f"{f.at:.6g} the information is {f.information:.6g}."
            )
    for f in found.values():
        if f.disagrees_at is not None:
            yield f"Its own formula for the information is wrong at input {f.disagrees_at:.6g}."
        if f.false_score_at is not None:
            yield (
                f"Its own score is not the derivative of its log-density at input "
                f"{f.false_score_at:.6g}; the information is that of the density."
            )


def _explained(
    found: dict[Channel, Found], unsure: bool, claimed: float, lies: bool
) -> Iterator[str]:
    """What the channels are like, and the search next to what they say themselves."""
    if all(f.constant for f in found.values()):
        known = all(f.examined is None for f in found.values())
        tried = "" if known else " that was tried: a shift, as far as can be seen"
        yield f"The same at every input{tried}."
    if unsure:
        yield "The numbers are too uncertain for a verdict: see the error."
    looked = sum(f.evaluations for f in found.values())
    inputs = plural(looked, "input")
    were = "was" if looked == 1 else "were"
    if math.isnan(claimed):
        yield f"It states no supremum; {inputs} {were} looked at by numbers."
    elif not lies:
        yield f"A search over {inputs} found nothing above what it says itself."
    yield from dict.fromkeys(_searched(f) for f in found.values() if f.examined is not None)


def _searched(found: Found) -> str:
    """The range and the resolution of a search."""
    span = found.examined
    assert span is not None
    rough = f"; on {found.unresolved:.1%} of it the law was too rough" if found.unresolved else ""
    return (
        f"Searched: inputs from {span.low:.4g} to {span.high:.4g}, {found.resolution:.2g} apart at "
        f"most{rough}. What is narrower, or outside, was not examined."
    )


def of_channels(mechanism: Componentwise, y: Array) -> FisherInformation:
    """I_z(y) of independent channels: one integral or sum each."""
    u = mechanism.inputs(y)
    found = [information_by_numbers(c, float(v)) for c, v in zip(mechanism.channels, u)]
    matrix = mechanism.spread(np.array([estimate.value for estimate in found]))
    A = np.eye(mechanism.readings) if mechanism.matrix is None else np.abs(mechanism.matrix)
    error = (A.T * np.array([estimate.error for estimate in found])) @ A
    kind = "summation" if mechanism.discrete else "quadrature"
    return FisherInformation(matrix=matrix, error=error, method=kind)


def by_curvature(mechanism: GaussianMechanism, S: PSD, places: Array) -> Finding | None:
    """Gaussian noise: its closed form, if the log-density at the places bears it out."""
    checked = checked_precision(mechanism, places)
    if checked is None:
        return None
    margin = relative(S, checked[0])
    error = checked[1] * margin if math.isfinite(margin) else 0.0
    curved = "Second differences of its log-density in y are those of its supremum."
    if type(mechanism) is GaussianMechanism:  # by its form: what is checked anywhere is everywhere
        reasons = ("The same at every y.", curved)
        return Finding(margin, error, margin, margin, None, CLOSED_FORM, reasons)
    said = (
        f"The same around the {len(places) + 3} reading vectors that were looked at; what lies "
        "elsewhere was not examined."
    )
    where, near = "where it was examined", math.nan
    return Finding(
        margin, error, margin, margin, None, CLOSED_FORM, (said, curved), where=where,
        resolution=near,
    )  # fmt: skip


def checked_precision(mechanism: GaussianMechanism, places: Array) -> tuple[Array, float] | None:
    """The stated S, and its largest relative disagreement with second differences.

        ln p(z|y + hd) − 2 ln p(z|y) + ln p(z|y − hd) = −h² dᵀSd

    for every z, y, h and d if ln p is quadratic in y; then I_z(y) = −E ∂²ln p = S for every y.
    Checked to 1e-6 around 0, two fixed vectors and the `places` (k, m), along each coordinate,
    random directions and the eigenvectors of S. None if it fails. Uses fixed random numbers only.
    Cost: 6(2m + 8) log-densities a place.
    """
    S = mechanism.worst_information()
    m, top = mechanism.readings, float(np.diagonal(S).max())
    rng = np.random.default_rng(5)
    own = np.linalg.eigh(S)[1].T
    d = np.concatenate([np.eye(m), rng.standard_normal((RANDOM, m)), own])
    size = np.einsum("ki,ij,kj->k", d, S, d, optimize=True)
    # Away from the coordinates dᵀSd is known to rounding of the largest one only.
    rounding = np.where(np.arange(len(d)) < m, 0.0, 1e-14 * top)
    shown = size > 100 * rounding
    unit = 1 / np.sqrt(np.where(shown, size, top))
    fixed = np.array([[0.0], [1.0], [10.0]]) * rng.standard_normal((3, m)) / np.sqrt(top)
    most = 0.0
    for y in np.concatenate([fixed, places]):
        z = mechanism.simulate(y, rng)
        allowed = AGREE + 1e-14 * float(np.abs(z).max()) + rounding * unit**2
        middle = mechanism.log_density(z, y)
        for step in STEPS:
            move = (step * unit)[:, None] * d
            ends = mechanism.log_density(z, y + move) + mechanism.log_density(z, y - move)
            off = np.abs((ends - 2 * middle) / step**2 + np.where(shown, 1.0, 0.0))
            if not (off <= allowed).all():
                return None
            most = max(most, float(off[shown].max()))
    return S, most
