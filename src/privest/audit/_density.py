"""I_z(y) next to a level, from the density: channels by a search, Gaussian noise by curvature."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import Array, plural
from privest.audit._search import worst_input
from privest.audit._terms import AGREE, CLOSED_FORM, EXAMINED, Finding, Found, Look, relative
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, GaussianMechanism, Mechanism
from privest.mechanism.numerics import information_by_numbers

OUT_OF_REACH = "Its supremum exceeds the level, and the search does not reach that far."
# Second differences over these multiples of 1/√dᵀSd, along so many random directions.
STEPS, RANDOM = (0.3, 1.0, 3.0), 8
UNSURE = 1e-3  # an error of the margin beyond which numbers do not support a "holds"


def by_density(mechanism: Mechanism, S: PSD, look: Look) -> Finding | None:
    """Channels and Gaussian noise, also at the places of the look; None for other mechanisms."""
    places = look.places if look.places.size else np.zeros((0, S.size))
    if isinstance(mechanism, Componentwise):
        return _by_search(mechanism, S, places, look.domain)
    return _by_curvature(mechanism, S, places) if isinstance(mechanism, GaussianMechanism) else None


# --- channels -------------------------------------------------------------------------------------


def _by_search(mechanism: Componentwise, S: PSD, places: Array, domain: Array | None) -> Finding:
    """Independent channels: the worst input of each, and their information together."""
    found = _worst_inputs(mechanism, places, domain)
    each = [found[channel] for channel in mechanism.channels]
    margin, error, y = _together(mechanism, S, each, domain)
    claimed = relative(S, mechanism.worst_information())
    if any(math.isnan(channel.worst) for channel in found):
        claimed = math.nan
    lies = tuple(_lies(found))
    unsure = error > UNSURE and not margin + error <= 1 and not margin - error > 1
    return Finding(
        margin, error, margin - error, claimed,
        worst_y=None if all(f.constant for f in each) else y,
        method="search by quadrature",
        reasons=(*lies, *_explained(found, unsure, claimed, bool(lies))),
        refuted=bool(lies), unsure=unsure,
        undecided=(OUT_OF_REACH,) if not lies and claimed > 1 else (),
        where=_range(found, domain), resolution=max(f.resolution for f in each), searched=found,
    )  # fmt: skip


def _worst_inputs(
    mechanism: Componentwise, places: Array, domain: Array | None
) -> dict[Channel, Found]:
    """Each distinct channel, over all inputs that measurements in the domain can give it."""
    inputs = mechanism.inputs(places)
    if domain is not None:  # interval arithmetic
        A = np.eye(mechanism.measurements) if mechanism.matrix is None else mechanism.matrix
        low, high = domain.T
        least = np.where(A > 0, A * low, A * high).sum(axis=1) + mechanism.offset
        most = np.where(A > 0, A * high, A * low).sum(axis=1) + mechanism.offset
    found: dict[Channel, Found] = {}
    for channel in dict.fromkeys(mechanism.channels):
        same = [j for j, other in enumerate(mechanism.channels) if other == channel]
        span = None if domain is None else (least[same].min(), most[same].max())
        found[channel] = worst_input(channel, inputs[:, same], span)
    return found


def _range(found: dict[Channel, Found], domain: Array | None) -> str:
    """The range of the search; empty: every input, by the form of the channels."""
    if domain is not None:
        return f"for measurements from {domain.min():.4g} to {domain.max():.4g}"
    ranges = {f.span for f in found.values() if f.span is not None}
    if len(ranges) > 1:
        return "for the inputs that were searched"
    return "".join(f"for inputs from {low:.4g} to {high:.4g}" for low, high in ranges)


def _together(
    mechanism: Componentwise, S: PSD, each: list[Found], domain: Array | None
) -> tuple[float, float, Array]:
    """The margin, its error and a y at which it is found or approached."""
    every = relative(S, mechanism.spread(np.array([f.best.value for f in each])))
    error = 0.0
    if math.isfinite(every):
        error = relative(S, mechanism.spread(np.array([f.best.error for f in each])))
    y, reached = reachable(mechanism, np.array([f.at for f in each]), domain)
    if reached:
        return every, error, y
    # Inputs that no y reaches together: the sum is a bound; single y are looked at instead.
    middle = 0 * y if domain is None else domain.mean(axis=1)
    shown = (relative(S, information_of_channels(mechanism, at)[0]) for at in (y, middle))
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
    """Wrong statements of the channels about themselves."""
    for c, f in found.items():
        if f.best.value - 4 * f.best.error > c.worst * (1 + AGREE):
            yield (
                f"The supremum it claims, {c.worst:.6g}, is wrong: at input {f.at:.6g} the "
                f"information is {f.best.value:.6g}."
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
    """The form of the channels, and the search next to their own suprema."""
    if all(f.constant for f in found.values()):
        known = all(f.span is None for f in found.values())
        yield f"The same at every input{'' if known else ' that was tried, as for a shift'}."
    if unsure:
        yield "The numbers are too uncertain for a verdict: see the error."
    looked = sum(f.evaluations for f in found.values())
    inputs, were = plural(looked, "input"), "was" if looked == 1 else "were"
    if math.isnan(claimed):
        yield f"It states no supremum; {inputs} {were} looked at by numbers."
    elif not lies:
        yield f"A search over {inputs} found nothing above its own supremum."
    yield from dict.fromkeys(_scope(f) for f in found.values() if f.span is not None)


def _scope(found: Found) -> str:
    """The range and the resolution of a search."""
    assert found.span is not None
    low, high = found.span
    rough = f"; on {found.unresolved:.1%} of it p was too rough" if found.unresolved else ""
    return (
        f"Searched: inputs from {low:.4g} to {high:.4g}, {found.resolution:.2g} apart at "
        f"most{rough}. Narrower peaks, and inputs outside, were not examined."
    )


def information_of_channels(mechanism: Componentwise, y: Array) -> tuple[Array, Array]:
    """I_z(y) of independent channels, one integral or sum each, and a bound on its error."""
    u = mechanism.inputs(y)
    found = [information_by_numbers(c, float(v)) for c, v in zip(mechanism.channels, u)]
    matrix = mechanism.spread(np.array([estimate.value for estimate in found]))
    A = np.eye(mechanism.measurements) if mechanism.matrix is None else np.abs(mechanism.matrix)
    return matrix, (A.T * np.array([estimate.error for estimate in found])) @ A


# --- Gaussian noise -------------------------------------------------------------------------------


def _by_curvature(mechanism: GaussianMechanism, S: PSD, places: Array) -> Finding | None:
    """Gaussian noise: its closed form, if the log-density at the places agrees with it."""
    checked = checked_precision(mechanism, places)
    if checked is None:
        return None
    margin = relative(S, checked[0])
    error = checked[1] * margin if math.isfinite(margin) else 0.0
    everywhere = type(mechanism) is GaussianMechanism  # by its form; a subclass may differ
    said = "The same at every y." if everywhere else (
        f"The same around the {len(places) + 3} measurement vectors that were looked at; other "
        "ones were not examined."
    )  # fmt: skip
    return Finding(
        margin, error, margin, margin, None, CLOSED_FORM,
        (said, "Second differences of its log-density in y are those of its supremum."),
        where="" if everywhere else EXAMINED, resolution=0.0 if everywhere else math.nan,
    )  # fmt: skip


def checked_precision(mechanism: GaussianMechanism, places: Array) -> tuple[Array, float] | None:
    """The stated S, and its largest relative disagreement with second differences.

        ln p(z|y + hd) − 2 ln p(z|y) + ln p(z|y − hd) = −h² dᵀSd

    for every z, y, h and d if ln p is quadratic in y; then I_z(y) = −E ∂²ln p = S for every y.
    Checked to 1e-6 around 0, two fixed vectors and the `places` (k, m), along each coordinate,
    random directions and the eigenvectors of S. None if it fails. Uses fixed random numbers only.
    Cost: 6(2m + 8) log-densities per place.
    """
    S = mechanism.worst_information()
    m, top = mechanism.measurements, float(np.diagonal(S).max())
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
