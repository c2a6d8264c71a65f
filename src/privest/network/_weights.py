"""Averaging weights: symmetric, stochastic, and every agent keeps a share of its own value."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Index, as_array, as_flag, plural
from privest.errors import InvalidInput
from privest.network._graph import Graph, as_graph
from privest.network.agent import metropolis_weights

if TYPE_CHECKING:
    from privest.network._graph import Sparse

    AnySparse = scipy.sparse.sparray[Any] | scipy.sparse.spmatrix[Any]

TOLERANCE = 1e-12  # what counts as rounding in weights that a user computed; then made exact


class Weights:
    """W = (a_ij) of one averaging round x ← W x (`algo:average`).

        a_ij = a_ji > 0 on edges, a_ii = 1 − Σ_j a_ij > 0

    The paper allows a_ii = 0; then an even ring swings for ever, so it is refused here.
    `Weights(matrix)` takes a dense array or any scipy.sparse matrix; the links are its entries off
    the diagonal. Symmetry and row sums may be off by 1e-12 (rounding): the two a_ij are averaged
    and a_ii is taken from them; an error e left in a row sum would move the average every round.
    Raises InvalidInput naming the agents: not square, not finite, negative, not symmetric, a row
    that does not sum to one, a_ii ≤ 0; and, if `connected`, the components of a graph that falls
    apart. Time-varying links may be disconnected at any one time: connected=False.

    >>> Weights([[0.5, 0.5], [0.5, 0.5]])
    Weights(2 agents, 1 edge)
    """

    def __init__(
        self, matrix: ArrayLike | AnySparse, *, graph: Graph | None = None, connected: bool = True
    ) -> None:
        table = _table(matrix)
        count = table.shape[0]
        if graph is not None and graph.agents != count:
            raise InvalidInput(f"W is for {count} agents, the graph for {graph.agents}.")
        self.graph, self.edge_weights = _links(table, graph)
        totals = np.asarray(table.sum(axis=1)).ravel()
        worst = int(np.abs(totals - 1.0).argmax())
        if abs(totals[worst] - 1.0) > TOLERANCE * (2 + int(self.graph.degrees[worst])):
            raise InvalidInput(
                f"the weights of agent {self.graph.name(worst)} sum to {totals[worst]:.15g}, not "
                "to 1: its own weight must be a_ii = 1 − Σ_j a_ij."
            )
        self._require_sound(connected)

    @classmethod
    def on_edges(cls, graph: Graph, edge_weights: ArrayLike, *, connected: bool = True) -> Weights:
        """The weights a_ij > 0 of the edges in the order of `graph.edges`; a_ii follows."""
        own = cls.__new__(cls)
        values = as_array(edge_weights, "edge weights", ndim=1)
        if len(values) != len(graph.edges):
            raise InvalidInput(
                f"{len(values)} weights were given for {len(graph.edges)} edges of the graph."
            )
        if (values <= 0).any():
            i, j = graph.edges[int(values.argmin())]
            raise InvalidInput(
                f"the weight of edge ({graph.name(i)}, {graph.name(j)}) is {values.min():.6g}; "
                "weights on edges must be > 0."
            )
        own.graph, own.edge_weights = graph, values
        own._require_sound(connected)
        return own

    def _require_sound(self, connected: bool) -> None:
        own = self.own_weights
        worst = int(own.argmin())
        if not own[worst] > 0:
            raise InvalidInput(
                f"agent {self.graph.name(worst)} keeps a_ii = {own[worst]:.6g} of its own value; "
                "it must be > 0, or an even ring never converges. Scale its edges down, or use "
                "metropolis(graph)."
            )
        if as_flag(connected, "connected"):
            self.graph.require_connected("the graph of the weights")

    @property
    def agents(self) -> int:
        return self.graph.agents

    @cached_property
    def own_weights(self) -> Array:
        """a_ii, (N,)."""
        i, j = self.graph.edges.T
        used = np.bincount(i, self.edge_weights, minlength=self.agents)
        used += np.bincount(j, self.edge_weights, minlength=self.agents)
        return 1.0 - used

    @cached_property
    def matrix(self) -> Sparse:
        """W (N, N), sparse; indices sorted in every row."""
        return assemble(self.graph.edges, self.edge_weights, self.edge_weights, self.own_weights)

    def of(self, agent: int) -> tuple[Index, Array]:
        """The neighbours of an agent and their weights: all that it needs to take part."""
        table = self.matrix
        row = slice(table.indptr[agent], table.indptr[agent + 1])
        others = table.indices[row] != agent
        return table.indices[row][others], table.data[row][others]

    def __repr__(self) -> str:
        return f"Weights({plural(self.agents, 'agent')}, {plural(len(self.graph.edges), 'edge')})"


def assemble(edges: Index, *values: Array) -> Sparse:
    """W from a_ij and a_ji on edges (E, 2), and a_ii (N,)."""
    (i, j), count = edges.T, len(values[-1])
    k = np.arange(count)
    places = (np.concatenate([i, j, k]), np.concatenate([j, i, k]))
    table = scipy.sparse.csr_array((np.concatenate(values), places), shape=(count, count))
    table.sort_indices()
    return table


def metropolis(graph: Graph | object, *, connected: bool = True) -> Weights:
    """Metropolis weights a_ij = 1/(1 + max(d_i, d_j)): from the degrees of the neighbours alone.

    a_ii ≥ 1/(1 + d_i) > 0. `graph`: a Graph or a networkx graph. Source: Xiao and Boyd 2004.

    >>> metropolis(Graph([(0, 1), (1, 2)])).matrix.toarray().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
    """
    net = as_graph(graph)
    degrees = net.degrees
    values = metropolis_weights(degrees[net.edges[:, 0]], degrees[net.edges[:, 1]])
    return Weights.on_edges(net, values, connected=connected)


def _table(matrix: ArrayLike | AnySparse) -> Sparse:
    given: Any = matrix
    sparse: bool = scipy.sparse.issparse(given)
    if sparse:
        table: Any = scipy.sparse.csr_array(given).astype(np.float64)
        as_array(table.data, "W", ndim=1)
    else:
        table = scipy.sparse.csr_array(as_array(given, "W", ndim=2))
    if table.shape[0] != table.shape[1] or table.shape[0] == 0:
        raise InvalidInput(f"W must be square, one row an agent; received shape {table.shape}.")
    table.sum_duplicates()
    table.eliminate_zeros()
    checked: Sparse = table
    return checked


def _links(table: Sparse, graph: Graph | None) -> tuple[Graph, Array]:
    """The edges of W and their weights; W must be symmetric, positive, and fit the graph."""
    upper = scipy.sparse.coo_array(scipy.sparse.triu(table, 1))
    lower = scipy.sparse.coo_array(scipy.sparse.tril(table, -1).T)
    edges = Graph(
        np.concatenate([np.stack(part.coords, axis=1) for part in (upper, lower)]),
        table.shape[0],
        names=None if graph is None else graph.names,
    )
    i, j = edges.edges.T
    forth = back = np.zeros(0)
    if len(i):
        forth, back = np.asarray(table[i, j]).ravel(), np.asarray(table[j, i]).ravel()
        gap = np.abs(forth - back)
        worst = int(gap.argmax())
        if gap[worst] > TOLERANCE:
            a, b = edges.name(i[worst]), edges.name(j[worst])
            raise InvalidInput(
                f"W must be symmetric: agent {a} gives agent {b} the weight {forth[worst]:.15g}, "
                f"agent {b} gives {a} {back[worst]:.15g}. Without symmetry the average is not kept."
            )
        least = int(np.minimum(forth, back).argmin())
        if min(forth[least], back[least]) < 0:
            raise InvalidInput(
                f"the weight between agents {edges.name(i[least])} and {edges.name(j[least])} is "
                f"{min(forth[least], back[least]):.6g}; weights on edges must be > 0."
            )
    weights = (forth + back) / 2
    if graph is None:
        return edges, weights
    _require_same(edges, graph)
    return graph, weights


def _require_same(links: Graph, graph: Graph) -> None:
    if np.array_equal(links.edges, graph.edges):
        return
    wanted = {(int(a), int(b)) for a, b in graph.edges}
    found = {(int(a), int(b)) for a, b in links.edges}
    for pairs, text in (
        (found - wanted, "W has a weight between agents {} and {}, which the graph does not link"),
        (wanted - found, "W has no weight on the edge between agents {} and {}"),
    ):
        if pairs:
            a, b = min(pairs)
            raise InvalidInput(text.format(graph.name(a), graph.name(b)) + ".")
