"""Consensus of 10⁵ agents: one Chebyshev round (with its share of the certificate) against one
sparse product, and rounds against plain averaging on a ring of 100.
"""

import functools
import itertools

import numpy as np

from benchmarks.timing import Row, compare
from privest import network
from privest.network._consensus import centre
from privest.network._graph import as_links
from privest.network._rounds import PATIENCE, Spectrum, states

AGENTS, PARAMETERS, NEIGHBOURS = 10**5, 3, 20
ROUNDS = 40


@functools.cache
def links_of(shape):
    rng = np.random.default_rng(1)
    radius = np.sqrt(NEIGHBOURS / np.pi / AGENTS)
    graph = {
        "random geometric": lambda: network.Graph.random_geometric(rng.random((AGENTS, 2)), radius),
        "grid": lambda: network.Graph.grid(250, 400),
        "ring": lambda: network.Graph.ring(AGENTS),
    }[shape]()
    return as_links(graph)


def start():
    rng = np.random.default_rng(2)
    return rng.standard_normal((AGENTS, PARAMETERS + PARAMETERS * (PARAMETERS + 1) // 2))


def chebyshev(values, links, ends):
    """ROUNDS rounds with the looks at the certificate of a run of so many rounds."""
    run = states(values, links, "chebyshev", ends)
    for k, now in enumerate(itertools.islice(run, ROUNDS + 1)):
        if k and k % PATIENCE == 0:
            np.ptp(now, axis=0), centre(now)


def products(matrix, values, rounds=ROUNDS):
    for _ in range(rounds):
        matrix @ values


def contributions(rng, agents):
    """One measurement an agent: s = 2, σ² = 0.3."""
    H, z = rng.standard_normal((agents, PARAMETERS)), rng.standard_normal(agents)
    x = H * (np.sqrt(2.0) / 1.6 * z)[:, None]
    return network.Contribution(x, 2.0 / 1.6 * H[:, :, None] * H[:, None, :])


def rounds_on_a_ring():
    """Rounds to certified 1e-9, as a row: its `seconds` are numbers of rounds."""
    rng = np.random.default_rng(3)
    parts = contributions(rng, 100)
    found = {
        method: network.consensus(parts, network.Graph.ring(100), method=method, tolerance=1e-9)
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
    """From (x_i, r_i) to certified estimates of 10⁵ agents, spectrum included, against products."""
    rng = np.random.default_rng(4)
    ring, chords = network.Graph.ring(AGENTS), rng.integers(AGENTS, size=(2 * AGENTS, 2))
    chords = chords[chords[:, 0] != chords[:, 1]]
    graph = network.Graph(np.concatenate([ring.edges, chords]))
    parts = contributions(rng, AGENTS)
    values, links = start(), as_links(graph)
    count = network.consensus(parts, graph).rounds
    return compare(
        f"consensus, small world, N = 10⁵: everything, {count} rounds to 1e-6",
        functools.partial(network.consensus, parts, graph),
        f"{count} products W X",
        functools.partial(products, links.matrix(0), values, count),
        items=count,
        repeats=3,
    )


def rows():
    for shape in ("random geometric", "grid", "ring"):
        values, links = start(), links_of(shape)
        ends = Spectrum(-0.4, 0.9999)  # any will do for the time of a round
        yield compare(
            f"consensus, {shape}, N = 10⁵, {ROUNDS} Chebyshev rounds",
            functools.partial(chebyshev, values, links, ends),
            f"{ROUNDS} products W X of scipy.sparse",
            functools.partial(products, links.matrix(0), values),
            limit=3,
            items=ROUNDS,
            repeats=5,
        )
    yield whole_run()
    yield rounds_on_a_ring()


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name} against {row.reference}:", end=" ")
        print(f"{row.ratio:.2f} (1/{1 / row.ratio:.3g})", row.limits, row.verdict)
