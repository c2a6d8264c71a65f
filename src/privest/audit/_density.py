"""I_z(y) next to a level, from the density: channels by a search, Gaussian noise by curvature.

The worst input of a channel, sup over u of I(u), is searched for by numbers:

- a screen of every input of a range at a stated resolution, without integrals. Between
  neighbouring inputs a and b

      sup of I over [a, b]  ≥  4 H²/(b − a)² ,   H² = ∫ (√p(z|b) − √p(z|a))² dz

  so a density that changes anywhere between them shows, unless it has changed back at b;
- inputs at which p(z|·) jumps, has a kink or loses an outcome, by bisection: the supremum may be
  a one-sided limit there;
- the channel's own landmarks and its own worst input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index, plural
from privest.audit._terms import AGREE, CLOSED_FORM, EXAMINED, Finding, Found, Look, Span, relative
from privest.errors import PrivestError
from privest.linalg import PSD
from privest.mechanism import Additive, Channel, Componentwise, GaussianMechanism, Mechanism
from privest.mechanism.numerics import density_at, information_by_numbers, log_density
from privest.noise import Quadrature
from privest.noise.numerics.differences import find_jumps

OUT_OF_REACH = "Its supremum exceeds the level, and the search does not reach that far."
# Second differences over these multiples of 1/√dᵀSd, along so many random directions.
STEPS, RANDOM = (0.3, 1.0, 3.0), 8
UNSURE = 1e-3  # an error of the margin beyond which numbers do not support a "holds"
# Grid points per side, in octaves; inputs of the grid and peaks of the screen that are integrated.
POINTS, SOME, PEAKS = 12, 6, 3
MOST_SPECIAL = 12
# Inputs per side in octaves, and evenly over the whole range; over a stated domain: more.
OCTAVES, EVEN, ASKED = 200, 4000, 20_000
# z at these quantiles of p(·|u) at some inputs, and on straight lines between them: exact where
# the input shifts or scales the density. Each stands for a share of the mass.
EDGES = scipy.special.ndtr(np.linspace(-4.6, 4.6, 42))
QUANTILES, SHARES = (EDGES[1:] + EDGES[:-1]) / 2, np.diff(EDGES)
ANCHORS, MORE, ROUNDS = 13, 6, 3
RESOLVED = 0.25  # nodes whose mass is off by more do not resolve the density
ENTRIES = 1_000_000  # log-densities at once
ZOOM, ZOOMS = 32, 3


def by_density(mechanism: Mechanism, S: PSD, look: Look) -> Finding | None:
    places = look.places if look.places.size else np.zeros((0, S.size))
    if isinstance(mechanism, Componentwise):
        return _by_search(mechanism, S, places, look.domain)
    return _by_curvature(mechanism, S, places) if isinstance(mechanism, GaussianMechanism) else None


# --- channels -------------------------------------------------------------------------------------


def _by_search(mechanism: Componentwise, S: PSD, places: Array, domain: Array | None) -> Finding:
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
        where=_range(found, domain), resolution=max(f.resolution for f in each),
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
    for c, f in found.items():
        if f.best.value - 4 * f.best.error > c.worst * (1 + AGREE):
            yield (
                f"The supremum it claims, {c.worst:.6g}, is wrong: at input {f.at:.6g} the "
                f"information is {f.best.value:.6g}."
            )
    for f in found.values():
        if f.disagrees_at is not None:
            yield f"Its own formula for the information is wrong at input {f.disagrees_at:.6g}."


def _explained(
    found: dict[Channel, Found], unsure: bool, claimed: float, lies: bool
) -> Iterator[str]:
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
    matrix = mechanism.spread(np.array([estimate.value for estimate in found])).dense()
    A = np.eye(mechanism.measurements) if mechanism.matrix is None else np.abs(mechanism.matrix)
    return matrix, (A.T * np.array([estimate.error for estimate in found])) @ A


# --- Gaussian noise -------------------------------------------------------------------------------


def _by_curvature(mechanism: GaussianMechanism, S: PSD, places: Array) -> Finding | None:
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
    """The stated S, and its relative disagreement with second differences; None if that is large.

        ln p(z|y + hd) − 2 ln p(z|y) + ln p(z|y − hd) = −h² dᵀSd

    for every z, y, h and d if ln p is quadratic in y; then I_z(y) = S for every y. Checked to 1e-6
    around 0, two fixed vectors and the `places` (k, m), along coordinates, random directions and
    the eigenvectors of S.
    """
    S = np.asarray(mechanism.worst_information())
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


# --- the worst input of a channel -----------------------------------------------------------------


def worst_input(
    channel: Channel, inputs: Array, domain: tuple[float, float] | None = None
) -> Found:
    """Search for sup I(u), also at the `inputs`: a lower bound on the supremum.

    `domain`: the inputs to search; else 64 times the sizes among the public parameters (or 1).
    Cost: about 20 integrals (30 to 300 ms each; milliseconds for a discrete channel), and 0.1 to
    0.5 s for the screen.
    """
    numbers = _Numbers(channel)
    extra = np.unique(inputs)
    named = np.concatenate([extra, _still_landmarks(channel)])
    if type(channel) is Additive:
        return _of_a_shift(numbers, named, 0.0)
    sizes = _sizes(channel)
    span = Span(-64 * sizes[-1], 64 * sizes[-1]) if domain is None else Span(*domain)
    named = np.concatenate([extra, named[span.within(named)]])
    screen = Screen(channel, span, _lattice(channel, span, domain is not None, sizes[0] / 64))
    if screen.shift():
        found = _of_a_shift(numbers, named, (span.low + span.high) / 2)
    else:
        found = _of_any(numbers, named, _grid(sizes, span, domain is not None), screen)
    return replace(
        found, span=span, unresolved=screen.unresolved,
        resolution=float(np.diff(screen.lattice).max()),
    )  # fmt: skip


def _still_landmarks(channel: Channel) -> list[float]:
    """Landmarks of p(·|u) that do not move with u."""
    one, other = (set(channel.landmarks(u)) for u in (0.3719, 1.8341))
    return sorted(float(point) for point in one & other if math.isfinite(point))


def _sizes(channel: Channel) -> list[float]:
    numbers = [v for v in channel.parameters.values() if isinstance(v, int | float)]
    return sorted({abs(float(v)) for v in numbers if v and math.isfinite(v)}) or [1.0]


def _of_any(numbers: _Numbers, named: Array, grid: Array, screen: Screen) -> Found:
    """A channel that is not a shift: some of the grid, special inputs, peaks of the screen."""
    channel = numbers.channel
    if channel.worst_input is not None and screen.span.within(np.array(channel.worst_input)):
        named = np.append(named, channel.worst_input)
    grid = np.unique(np.concatenate([grid, named]))
    peaks = screen.peaks(PEAKS)
    widths = [(u, 1e-6 * max(abs(u), 1.0)) for u, steep in peaks if steep]
    for cells in (grid, *(np.linspace(u - w, u + w, 4) for u, w in widths)):
        place = _jump(channel, cells)
        if place is not None:
            return Found(Quadrature(math.inf, 0.0), place, False, grid.size)
    special = _snapped(_special_inputs(channel, grid), grid)
    named = np.unique(np.concatenate([named, special]))
    highest = _snapped(np.array([u for u, _ in peaks]), np.concatenate([grid, named]), 1e-4)
    some = grid[:: max(1, grid.size // SOME)]
    if has_formula(channel):
        values = channel.information(screen.lattice)
        highest = np.append(highest, screen.lattice[np.nanargmax(values)])
    elif screen.unresolved > 0:  # no formula for I(u), and the screen does not see all of it
        some = grid
    for u in np.unique(np.concatenate([named, highest, some])):
        numbers(u)
    at, best = numbers.largest()
    return Found(best, at, False, len(numbers.seen), numbers.wrong_formula())


def _of_a_shift(numbers: _Numbers, named: Array, middle: float) -> Found:
    """One input stands for all; named inputs are looked at, too."""
    here = numbers(middle)
    wrong = numbers.wrong_formula()
    for u in named:
        numbers(u)
    at, best = numbers.largest()
    same = best.value <= here.value * (1 + AGREE) + best.error
    return Found(best, at, same, len(numbers.seen), wrong)


def _snapped(points: Array, grid: Array, close: float = 1e-7) -> Array:
    """Points within rounding of the grid, moved there."""
    nearest = grid[np.abs(points[:, None] - grid).argmin(axis=1)] if points.size else points
    same = np.abs(points - nearest) <= close * (np.abs(nearest) + np.abs(points))
    return np.where(same, nearest, points)


class _Numbers:
    """I(u) by numbers, remembered, next to the channel's own formula."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.seen: dict[float, Quadrature] = {}

    def __call__(self, u: float) -> Quadrature:
        if float(u) not in self.seen:
            self.seen[float(u)] = information_by_numbers(self.channel, float(u))
        return self.seen[float(u)]

    def largest(self) -> tuple[float, Quadrature]:
        return max(self.seen.items(), key=lambda item: item[1].value)

    def wrong_formula(self) -> float | None:
        if not has_formula(self.channel):
            return None
        size = self.channel.worst
        if not math.isfinite(size):
            values = self.channel.information(np.array(list(self.seen)))
            size = float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else 1
        return next((u for u in self.seen if not self._agrees(u, size)), None)

    def _agrees(self, u: float, size: float) -> bool:
        """Agreement at u; at a kink the formula may have either one-sided limit."""
        found, formula = self.seen[u], self.channel.information
        if _same(float(formula(u)), found, size):
            return True
        near = 1e-7 * max(abs(u), 1e-3)
        own, *sides = (float(formula(v)) for v in (u, u - near, u + near))
        either = any(abs(own - side) <= 1e-5 * (abs(own) + abs(side)) for side in sides)
        return either and any(_same(side, found, size, 1e-5) for side in sides)


def has_formula(channel: Channel) -> bool:
    return type(channel).information is not Channel.information


def _same(own: float, found: Quadrature, size: float, agree: float = AGREE) -> bool:
    """Agreement to `agree` and to 1e-9 of a typical size.

    Next to a pole a formula is huge where the numbers say infinite.
    """
    if math.isinf(own) or math.isinf(found.value):
        return own == found.value or (math.isinf(found.value) and own > 1e6 * size)
    return abs(own - found.value) <= agree * abs(found.value) + 4 * found.error + 1e-9 * size


def _grid(sizes: list[float], span: Span, asked: bool) -> Array:
    octaves = np.geomspace(sizes[0] / 64, sizes[-1] * 64, POINTS)
    # Within a few sizes also evenly: quantisers repeat, and edges lie at multiples.
    even = np.linspace(0, 2 * sizes[-1], POINTS // 2)
    side = np.concatenate([octaves, even, sizes])
    over = np.linspace(span.low, span.high, POINTS + 1 if asked else 2)
    every = np.unique(np.concatenate([-side, [0.0], side, over]))
    return every[span.within(every)]


def _lattice(channel: Channel, span: Span, asked: bool, least: float) -> Array:
    even = np.linspace(span.low, span.high, ASKED if asked and not channel.discrete else EVEN)
    most = max(abs(span.low), abs(span.high))
    side = np.geomspace(min(least, most), most, OCTAVES) if most > 0 else np.zeros(1)
    every = np.unique(np.concatenate([even, side, -side, [0.0]]))
    return every[span.within(every)]


# --- every input of a range, roughly --------------------------------------------------------------


class Screen:
    """Rough I(u) on the cells of a lattice (`shown`), and where that is not resolved."""

    def __init__(self, channel: Channel, span: Span, lattice: Array) -> None:
        self.channel, self.span, self.lattice = channel, span, lattice
        self._anchors: list[float] = []
        self._quantiles: list[Array] = []
        self._inverse: list[Array] = []
        left, right = lattice[:-1], lattice[1:]
        if not channel.discrete:
            # Half of them in octaves: the lattice has both.
            self._add(lattice[np.linspace(0, lattice.size - 1, ANCHORS).astype(int)])
            self._add(np.array([-1.0, 1.0]) * span.high / 64)
        for _ in range(1 if channel.discrete else ROUNDS):
            self.shown, mass = self.cells(left, right)
            bad = np.where(np.isfinite(mass), np.abs(mass - 1), math.inf) > RESOLVED
            if not bad.any() or channel.discrete:
                break
            self._add(_middles(bad, left))
        self.unresolved = float((right - left)[bad].sum() / (right[-1] - left[0]))

    def peaks(self, most: int) -> list[tuple[float, bool]]:
        """The cells that show most, zoomed into: the input, and whether p may jump there."""
        seen = np.where(np.isfinite(self.shown), self.shown, -math.inf)
        inner = np.pad(seen, 1, constant_values=-math.inf)
        local = np.flatnonzero((inner[1:-1] >= inner[:-2]) & (inner[1:-1] >= inner[2:]))
        best = local[np.argsort(-seen[local], kind="stable")[:most]]
        return [self._zoomed(self.lattice[i], self.lattice[i + 1], float(seen[i])) for i in best]

    def shift(self) -> bool:
        """Whether p(z + c|u + c) = p(z|u) at all inputs of the lattice, for z at nine quantiles."""
        if self.channel.discrete or not self._anchors:
            return False
        middle = len(self._anchors) // 2
        u, z = self._anchors[middle], self._quantiles[middle][::5]
        moved = self.lattice[:, None] - u
        here = log_density(self.channel, z, u)
        there = log_density(
            self.channel, z + moved, np.broadcast_to(u + moved, (moved.size, z.size))
        )
        return bool(np.allclose(here, there, rtol=1e-7, atol=1e-7))

    def cells(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Rough I on each cell, and the mass of its nodes (1 where they resolve the density)."""
        shown, mass = np.full(left.size, np.nan), np.full(left.size, np.nan)
        if not self.channel.discrete and not self._anchors:
            return shown, mass
        some = max(ENTRIES // QUANTILES.size, 1)
        for begin in range(0, left.size, some):
            part = slice(begin, begin + some)
            shown[part], mass[part] = self._part(left[part], right[part])
        return shown, mass

    def _part(self, left: Array, right: Array) -> tuple[Array, Array]:
        """4H²/gap² over the cell, or over a far shorter step in its middle if that shows more."""
        cell, z, weight = self._nodes(left, right)
        gap, middle, count = right - left, (left + right) / 2, left.size
        step = np.minimum(1e-7 * np.maximum(np.abs(middle), gap), gap / 2)

        def apart(a: Array, b: Array) -> tuple[Array, Array]:
            p, q = (np.exp(log_density(self.channel, z, end[cell])) for end in (a, b))
            with np.errstate(all="ignore"):
                square = weight * (np.sqrt(q) - np.sqrt(p)) ** 2
            both = np.bincount(cell, weight * (p + q) / 2, count)
            return 4 * np.bincount(cell, square, count) / (b - a) ** 2, np.asarray(both, float)

        with np.errstate(all="ignore"):
            wide, mass = apart(left, right)
            close, inside = apart(middle - step, middle + step)
            return np.maximum(wide / mass, close / inside), np.where(mass > inside, mass, inside)

    def _nodes(self, left: Array, right: Array) -> tuple[Index, Array, Array]:
        """Flat: the cell, z and its weight in ∫ dz (1 for an outcome)."""
        if self.channel.discrete:
            # The cells are next to each other: every end is asked for once.
            ends = [self.channel.outcomes(float(u)) for u in (*left, right[-1])]
            lists = [a if np.array_equal(a, b) else np.union1d(a, b) for a, b in pairwise(ends)]
            cell = np.repeat(np.arange(left.size), [outcomes.size for outcomes in lists])
            return cell, np.concatenate(lists), np.ones(cell.size)
        middle = (left + right) / 2
        z, inverse = (
            np.stack(
                [np.interp(middle, self._anchors, column) for column in np.array(table).T], axis=1
            )
            for table in (self._quantiles, self._inverse)
        )
        cell = np.repeat(np.arange(left.size), z.shape[1])
        return cell, z.ravel(), (SHARES * inverse).ravel()

    def _add(self, inputs: Array) -> None:
        for u in np.unique(inputs[self.span.within(inputs)]).tolist():
            if u in self._anchors:
                continue
            try:
                quantiles = density_at(self.channel, u).quantile(QUANTILES)
            except PrivestError:  # no density there: it shows as not resolved
                continue
            inverse = np.exp(-np.maximum(log_density(self.channel, quantiles, u), -600.0))
            at = int(np.searchsorted(self._anchors, u))
            self._anchors.insert(at, u)
            self._quantiles.insert(at, quantiles)
            self._inverse.insert(at, inverse)

    def _zoomed(self, low: float, high: float, first: float) -> tuple[float, bool]:
        before = first
        for _ in range(ZOOMS):
            edges = np.linspace(low, high, ZOOM + 1)
            if not (np.diff(edges) > 0).all():
                break
            shown, _ = self.cells(edges[:-1], edges[1:])
            if not np.isfinite(shown).any():
                break
            i = int(np.nanargmax(np.where(np.isfinite(shown), shown, np.nan)))
            low, high, before = float(edges[i]), float(edges[i + 1]), float(shown[i])
        return (low + high) / 2, before > ZOOM * max(first, 1e-300)


def _middles(bad: Flags, left: Array) -> Array:
    edge = np.diff(np.concatenate([[0], bad.astype(np.int8), [0]]))
    begin, end = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    longest = np.argsort(begin - end, kind="stable")[:MORE]
    return np.asarray(left[(begin + end)[longest] // 2])


# --- jumps, kinks and vanishing outcomes, from the density alone ----------------------------------


def _segments(grid: Array) -> tuple[Array, Array]:
    return grid[:-1] - 1e-3 * np.diff(grid), grid[1:] + 1.3e-3 * np.diff(grid)


def _jump(channel: Channel, grid: Array) -> float | None:
    """An input at which p(z|·) jumps, for some z: the information there is infinite."""
    places = grid[(np.array([0.07, 0.31, 0.5, 0.64, 0.93]) * (grid.size - 1)).astype(int)]
    if channel.discrete:
        probes = np.unique(np.concatenate([channel.outcomes(float(u)) for u in places]))[:12]
    else:
        probes = np.unique(channel.sample(places, np.random.default_rng(11)))

    def seen(z: float, u: Array) -> Array:
        return np.asarray(np.exp(log_density(channel, np.full(u.shape, z), u)))

    def least(a: Array, b: Array) -> Array:
        return 1e-6 * np.maximum(a, b) + 1e-200

    width = 1e-12 * float(np.abs(grid).max())
    for z in probes.tolist():
        cells = _segments(grid)
        found = find_jumps(partial(seen, z), cells, width=width, least=least, kept=0.9)
        if found:
            return float(found[0])
    return None


def _special_inputs(channel: Channel, grid: Array) -> Array:
    found = _edges(channel, grid)
    if channel.discrete:
        found = np.concatenate([found, _vanishing(channel, grid)])
    if found.size > MOST_SPECIAL:
        found = found[np.argsort(np.abs(found), kind="stable")[:MOST_SPECIAL]]
    return np.sort(found)


def _edges(channel: Channel, grid: Array) -> Array:
    """Where the score jumps as a function of u, at the same u for two different z or more."""
    places = grid[(np.array([0.13, 0.31, 0.56, 0.64, 0.89]) * grid.size).astype(int)]
    probes = np.unique(channel.sample(places, np.random.default_rng(7)))
    size = float(np.abs(grid).max())
    width = 1e-9 * size

    def score(z: float, u: Array) -> Array:
        h = 1e-10 * np.maximum(np.abs(u), 1e-3 * size)
        there = np.full(u.shape, z)
        with np.errstate(all="ignore"):
            rise = log_density(channel, there, u + h) - log_density(channel, there, u - h)
            slope = np.asarray(rise / (2 * h))
        return np.where(np.isfinite(slope), slope, 0.0)

    def least(a: Array, b: Array) -> Array:
        return np.asarray(1e-3 * (np.abs(a) + np.abs(b)) + 1e-6 / size)

    points: list[float] = []
    for z in probes.tolist():
        seen = partial(score, z)
        points += find_jumps(seen, _segments(grid), width=width, least=least, kept=0.5, zoom=100)
    every = np.sort(np.array(points))
    same = every[:-1][np.diff(every) < 4 * width]
    apart = np.concatenate([[True], np.diff(same) > 8 * width])[: same.size]
    return np.asarray(same[apart])


def _vanishing(channel: Channel, grid: Array) -> Array:
    """Where an outcome stops to be possible."""
    points: list[float] = []
    for a, b in pairwise(grid.tolist()):
        z = np.setxor1d(channel.outcomes(a), channel.outcomes(b))[:8]
        if z.size == 0:
            continue
        low, high = np.full(z.size, a), np.full(z.size, b)
        alive = log_density(channel, z, low) > -np.inf
        changes = alive != (log_density(channel, z, high) > -np.inf)
        for _ in range(60):
            middle = (low + high) / 2
            same = (log_density(channel, z, middle) > -np.inf) == alive
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        points += low[changes].tolist()
    size = float(np.abs(grid).max())  # in its units: a fine grid has its own
    return size * np.unique(np.round(np.array(points) / size, 13))
