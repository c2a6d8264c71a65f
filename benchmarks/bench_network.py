"""Consensus of 10⁵ agents: one Chebyshev round (with its share of the certificate) against one
sparse product, and rounds against plain averaging on a ring of 100.
"""

import functools
import itertools

import numpy as np

from benchmarks.timing import Row, compare
from privest import network
from privest.network._averaging import PATIENCE, cache_friendly, states
from privest.network._certificate import centre, spread
from privest.network._links import as_links

AGENTS, PARAMETERS, NEIGHBOURS = 10**5, 3, 20
ROUNDS = 40


@functools.cache
def weights(shape):
    rng = np.random.default_rng(1)
    radius = np.sqrt(NEIGHBOURS / np.pi / AGENTS)
    graph = {
        "random geometric": lambda: network.random_geometric(rng.random((AGENTS, 2)), radius),
        "grid": lambda: network.grid(250, 400),
        "ring": lambda: network.ring(AGENTS),
    }[shape]()
    return network.metropolis(graph)


def start():
    rng = np.random.default_rng(2)
    return rng.standard_normal((AGENTS, PARAMETERS + PARAMETERS * (PARAMETERS + 1) // 2))


def chebyshev(values, links, ends):
    """ROUNDS rounds with the looks at the certificate of a run of so many rounds."""
    run = states(values, links, "chebyshev", ends)
    for k, now in enumerate(itertools.islice(run, ROUNDS + 1)):
        if k and k % PATIENCE == 0:
            spread(now), centre(now)


def products(matrix, values, rounds=ROUNDS):
    for _ in range(rounds):
        matrix @ values


def rounds_on_a_ring():
    """Rounds to certified 1e-9, as a row: its `seconds` are numbers of rounds."""
    rng = np.random.default_rng(3)
    H, z = rng.standard_normal((100, 3)), rng.standard_normal(100)
    parts = network.Contributions.scalar(H, 0.3, 2.0, z)
    found = {
        method: network.consensus(parts, network.ring(100), method=method, tolerance=1e-9)
        for method in ("chebyshev", "plain")
    }
    fast, slow = found["chebyshev"].rounds, found["plain"].rounds
    return Row(
        name="Chebyshev to 1e-9, ring of 100 (rounds, not ms)",
        reference="plain averaging (rounds, not ms)",
        seconds=fast / 1e3,
        reference_seconds=slow / 1e3,
        ratio=fast / slow,
        limit=None,
        at_least=5,
    )


def whole_run():
    """From (x_i, r_i) to certified estimates of 10⁵ agents, against its products alone."""
    rng = np.random.default_rng(4)
    ring, chords = network.ring(AGENTS), rng.integers(AGENTS, size=(2 * AGENTS, 2))
    chords = chords[chords[:, 0] != chords[:, 1]]
    net = network.metropolis(network.Graph(np.concatenate([ring.edges, chords])))
    H, z = rng.standard_normal((AGENTS, PARAMETERS)), rng.standard_normal(AGENTS)
    parts = network.Contributions.scalar(H, 0.3, 2.0, z)
    ends = network.spectrum_of(net.matrix)
    values, links, _ = cache_friendly(start(), as_links(net))
    count = network.consensus(parts, net, spectrum=ends).rounds
    return compare(
        f"consensus, small world, N = 10⁵: everything, {count} rounds to 1e-6",
        functools.partial(network.consensus, parts, net, spectrum=ends),
        f"{count} products W X",
        functools.partial(products, links.matrix(0), values, count),
        items=count,
        repeats=3,
    )


def rows():
    for shape in ("random geometric", "grid", "ring"):
        values, links, _ = cache_friendly(start(), as_links(weights(shape)))
        ends = network.Spectrum(-0.4, 0.9999)  # any will do for the time of a round
        yield compare(
            f"consensus, {shape}, N = 10⁵, {ROUNDS} Chebyshev rounds",
            functools.partial(chebyshev, values, links, ends),
            f"{ROUNDS} products W X of scipy.sparse, same order",
            functools.partial(products, links.matrix(0), values),
            limit=3,
            items=ROUNDS,
            repeats=5,
        )
    values, links, _ = cache_friendly(start(), as_links(weights("random geometric")))
    yield compare(
        "...",
        functools.partial(chebyshev, values, links, network.Spectrum(-0.4, 0.9999)),
        "random geometric: the products in the order given",
        functools.partial(products, weights("random geometric").matrix, start()),
        repeats=3,
    )
    yield whole_run()
    yield rounds_on_a_ring()


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name} against {row.reference}:", end=" ")
        print(f"{row.ratio:.2f} (1/{1 / row.ratio:.3g})", row.limits, row.verdict)
