"""The rounds of average consensus for all agents at once: one sparse product a round.

The same steps as `agent.plain_step` and `agent.chebyshev_step`; row i of X (N, d) is agent i's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import scipy

from privest.arrays import Array, Index, as_choice, as_count
from privest.errors import InvalidInput, NumericalFailure
from privest.network._certificate import spread
from privest.network._links import Fixed, Links
from privest.network._spectrum import DENSE, METHODS, Method, Spectrum, spectrum_of
from privest.network.agent import next_factor

T = TypeVar("T")

LARGE = 10_000  # agents from which a cache-friendly numbering pays
PATIENCE = 20  # the certificate is looked at every k/PATIENCE rounds: at most 5 % too many
MOST_ROUNDS = 1_000_000


def chosen(method: Method | None, links: Links) -> Method:
    """Chebyshev for fixed links, plain otherwise; refuses Chebyshev where W changes."""
    if method is not None:
        as_choice(method, METHODS, "method")
    fixed = isinstance(links, Fixed)
    if method == "chebyshev" and not fixed:
        raise InvalidInput(
            "Chebyshev averaging needs the same W in every round: its weights may be negative and "
            "with links that change it need not converge. Use method='plain'."
        )
    return method or ("chebyshev" if fixed else "plain")


def states(
    start: Array, links: Links, method: Method, spectrum: Spectrum | None = None
) -> Iterator[Array]:
    """X_0, X_1, … (N, d), without end. Each is the caller's until the next but one is asked for.

    Cost a round: one product W X; Chebyshev two passes over X more. The working set is three X.
    """
    if method == "plain":
        return _plain(start, links)
    found = spectrum_of(links.matrix(0)) if spectrum is None else spectrum
    return _chebyshev(start, links, found)


def certified_round(
    passing: Iterable[Array],
    radius: Array,
    judge: Callable[[int, Array, Array], tuple[float, T]],
    tolerance: float,
    limit: int,
    what: str,
    *,
    insist: bool = True,
) -> tuple[int, float, T]:
    """The first round k that `judge` certifies within the tolerance: k, its certificate, and more.

    `judge` is given k, X_k and its spread (d,), every k/20 rounds and at the `limit`, and returns
    the certificate in standard errors and its finding. No spread is ever above `radius` (d,):
    averaging takes no agents apart; Chebyshev does if an eigenvalue lies below its interval.
    `what` completes the message: "plain rounds the average is". Where the limit is reached before
    the tolerance, `insist` raises NumericalFailure; else what was reached is returned.
    """
    look = 0
    for k, now in enumerate(passing):
        if k < min(look, limit):
            continue
        look = k + max(1, k // PATIENCE)
        wide = spread(now)
        if not (wide <= radius).all():
            raise NumericalFailure(
                "The agents drift apart: some eigenvalue of W lies below `lowest` of the spectrum "
                "that was given, or above 1. Leave spectrum= out, or give a smaller λ_N."
            )
        reached, found = judge(k, now, wide)
        if reached <= tolerance or (k >= limit and not insist):
            return k, reached, found
        if k >= limit:
            break
    raise NumericalFailure(
        f"After {k} {what} certified to {reached:.2g} standard errors only (asked: "
        f"{tolerance:.2g}). Allow more with max_rounds, ask for less (rounding sets a limit too), "
        "or look at the spectral gap of the weights (network.spectrum_of)."
    )


def most_rounds(asked: int | None, predicted: int | None, given: Spectrum | None) -> int:
    """When to give up; a spectrum that was given may be rough."""
    if asked is not None:
        return as_count(asked, "max_rounds", least=0)
    return MOST_ROUNDS if predicted is None else (2 if given is None else 20) * predicted + 100


def known_spectrum(net: Links, way: Method, given: Spectrum | None) -> Spectrum | None:
    """λ_N and λ_2: needed by Chebyshev; for plain averaging a forecast, so only where cheap."""
    if given is not None or not isinstance(net, Fixed):
        return given if isinstance(net, Fixed) else None
    return spectrum_of(net.matrix(0)) if way == "chebyshev" or net.agents <= DENSE else None


def _plain(start: Array, links: Links) -> Iterator[Array]:
    now, k = start, 0
    while True:
        yield now
        now = links.matrix(k) @ now
        k += 1


def _chebyshev(start: Array, links: Links, spectrum: Spectrum) -> Iterator[Array]:
    table = links.matrix(0)
    moved = table * spectrum.stretch
    # P = I + (W − I)/(1 − m), the diagonal from the rest: an error of the row sums that all agents
    # share would grow with the rounds and move the average.
    moved.setdiag(1.0 - (moved.sum(axis=1) - moved.diagonal()))
    scaled, scale = moved.copy(), 1.0
    yield start
    before, now, factor, k = start.copy(), moved @ start, 1.0, 1
    while True:
        yield now
        factor = next_factor(factor, k, spectrum)
        if factor != scale:  # ω soon stays the same
            np.multiply(moved.data, factor, out=scaled.data)
            scale = factor
        later = scaled @ now
        before *= 1.0 - factor
        later += before
        before, now, k = now, later, k + 1


def cache_friendly(values: Array, links: Links) -> tuple[Array, Links, Index | None]:
    """Large fixed graphs in reverse Cuthill-McKee order: neighbours lie close in memory.

    Returns X and the links renumbered, and the order: row a is agent order[a]; see `restored`.
    """
    if links.agents < LARGE or not isinstance(links, Fixed):
        return values, links, None
    table = links.matrix(0)
    found = scipy.sparse.csgraph.reverse_cuthill_mckee(table, symmetric_mode=True)
    order = np.asarray(found, dtype=np.intp)
    return values[order], links.reordered(order), order


def restored(values: Array, order: Index | None) -> Array:
    """Rows back in the numbering of the user."""
    if order is None:
        return values
    result = np.empty_like(values)
    result[order] = values
    return result
