"""The rounds of average consensus for all agents at once: one sparse product a round.

The same steps as `agent.plain_step` and `agent.chebyshev_step`; row i of X (N, d) is agent i's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.errors import InvalidInput, NumericalFailure
from privest.network._links import Fixed, Links
from privest.network._spectrum import DENSE, Method, Spectrum, spectrum_of
from privest.network.agent import next_factor

LARGE = 10_000  # agents from which a cache-friendly numbering pays
PATIENCE = 20  # the certificate is looked at every k/PATIENCE rounds: at most 5 % too many
MOST_ROUNDS = 1_000_000


def chosen(method: Method | None, links: Links) -> Method:
    """Chebyshev for fixed links, plain otherwise; refuses Chebyshev where W changes."""
    if method not in (None, "plain", "chebyshev"):
        raise InvalidInput(f"method must be 'plain' or 'chebyshev'; received {method!r}.")
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


def looks(passing: Iterable[Array], limit: int) -> Iterator[tuple[int, Array]]:
    """The rounds (k, X_k) at which the certificate is looked at, `limit` among them."""
    look = 0
    for k, now in enumerate(passing):
        if k >= look or k >= limit:
            look = k + max(1, k // PATIENCE)
            yield k, now


def most_rounds(asked: int | None, predicted: int | None, given: Spectrum | None) -> int:
    """When to give up; a spectrum that was given may be rough."""
    if asked is not None:
        return asked
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


def radius(start: Array, mean: Array) -> Array:
    """2‖X_0 − X̄‖, column by column (d,), with room for rounding: no spread is ever larger."""
    far = np.linalg.norm(start - mean, axis=0)
    return np.asarray(2.0 * far * (1.0 + 1e-6) + 1e-6 * np.abs(mean))


def require_bounded(spread: Array, limit: Array) -> None:
    """Averaging takes no agents apart; Chebyshev does if an eigenvalue lies below its interval."""
    if not (spread <= limit).all():
        raise NumericalFailure(
            "The agents drift apart: some eigenvalue of W lies below `lowest` of the spectrum that "
            "was given, or above 1. Leave spectrum= out, or give a smaller λ_N."
        )


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
