"""Graphs of agents, the weights of averaging, and links that come and go."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from privest.arrays import (
    Array,
    ArrayLike,
    Index,
    as_array,
    as_count,
    as_nonnegative,
    as_number,
    plural,
)
from privest.errors import InvalidInput, MissingDependency

if TYPE_CHECKING:
    Sparse = scipy.sparse.csr_array[Any, tuple[int, int]]

SHOWN = 6  # names listed in a message before "and 14 more"


class Graph:
    """N agents 0 … N−1 and undirected edges (i, j), connected or not.

    Repeated and reversed pairs are one edge; `names` of agents are used in messages only.

    >>> Graph([(0, 1), (1, 2), (2, 1)], agents=3)
    Graph(3 agents, 2 edges)
    """

    def __init__(
        self,
        edges: ArrayLike,
        agents: int | None = None,
        *,
        names: Sequence[Hashable] | None = None,
    ) -> None:
        pairs = _pairs(edges)
        count = int(pairs.max(initial=-1)) + 1 if agents is None else agents
        self.agents: int = as_count(count, "agents", least=1)
        _require_agents_of(pairs, self.agents)
        self.edges: Index = np.unique(np.sort(pairs, axis=1), axis=0)
        if names is not None and len(names) != self.agents:
            raise InvalidInput(f"{len(names)} names were given for {self.agents} agents.")
        self.names: tuple[Hashable, ...] | None = None if names is None else tuple(names)

    @classmethod
    def from_networkx(cls, graph: object) -> Graph:
        """A graph of networkx; agents in the order of its nodes, loops left out."""
        try:
            import networkx
        except ImportError as missing:
            raise MissingDependency(
                "Graphs of networkx need networkx: install the extra 'network', for example with "
                'pip install "privest[network]".'
            ) from missing
        if not isinstance(graph, networkx.Graph):
            raise InvalidInput(f"this is not a networkx graph; received {type(graph).__name__}.")
        if graph.is_directed():
            raise InvalidInput(
                "the graph is directed: average consensus needs links that work both ways. "
                "graph.to_undirected() makes them so, if they do."
            )
        names = list(graph.nodes)
        number = {name: k for k, name in enumerate(names)}
        edges = [(number[a], number[b]) for a, b in graph.edges() if a != b]
        return cls(np.array(edges, dtype=np.intp).reshape(-1, 2), len(names), names=names)

    @classmethod
    def ring(cls, agents: int) -> Graph:
        """A ring: 0 – 1 – … – N−1 – 0."""
        i = np.arange(as_count(agents, "agents of a ring", least=3))
        return cls(np.stack([i, (i + 1) % len(i)], axis=1))

    @classmethod
    def star(cls, agents: int) -> Graph:
        """Agent 0 in the middle, linked to all others."""
        i = np.arange(1, as_count(agents, "agents of a star", least=2))
        return cls(np.stack([np.zeros_like(i), i], axis=1))

    @classmethod
    def grid(cls, rows: int, columns: int) -> Graph:
        """A grid of rows × columns, linked to the neighbours right and below."""
        rows, columns = (as_count(side, "a side of a grid", least=1) for side in (rows, columns))
        at = np.arange(rows * columns).reshape(rows, columns)
        right = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
        below = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
        return cls(np.concatenate([right, below]), rows * columns)

    @classmethod
    def random_geometric(cls, positions: ArrayLike, radius: float) -> Graph:
        """Agents at `positions` (N, 2), linked where their distance is at most `radius`."""
        places = as_array(positions, "positions", ndim=2)
        if not places.size:
            raise InvalidInput(f"positions must be (N, 2); received shape {places.shape}.")
        tree, near = scipy.spatial.cKDTree(places), as_nonnegative(radius, "radius")
        return cls(tree.query_pairs(near, output_type="ndarray").astype(np.intp), len(places))

    @property
    def degrees(self) -> Index:
        return np.bincount(self.edges.ravel(), minlength=self.agents)

    @cached_property
    def adjacency(self) -> Sparse:
        i, j = self.edges.T
        ones = np.ones(2 * len(i))
        places = (np.concatenate([i, j]), np.concatenate([j, i]))
        return scipy.sparse.csr_array((ones, places), shape=(self.agents, self.agents))

    @cached_property
    def components(self) -> list[Index]:
        """The connected parts, the largest first."""
        count, label = scipy.sparse.csgraph.connected_components(self.adjacency, directed=False)
        order = np.argsort(label, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])
        return sorted(parts, key=len, reverse=True)

    @property
    def connected(self) -> bool:
        return len(self.components) == 1

    @cached_property
    def reach(self) -> int:
        """Bound on the rounds between any two agents: twice the eccentricity of agent 0."""
        self.require_connected()
        hops = scipy.sparse.csgraph.shortest_path(
            self.adjacency, directed=False, unweighted=True, indices=0
        )
        farthest = int(hops.max())
        return min(2 * farthest, max(self.agents - 1, 0))

    def require_connected(self, what: str = "the graph") -> None:
        """Raise InvalidInput, naming the components, where it is not connected."""
        if self.connected:
            return
        parts = [f"{{{self.listed(part)}}}" for part in self.components[:SHOWN]]
        more = len(self.components) - len(parts)
        raise InvalidInput(
            f"{what} is not connected: {len(self.components)} components, "
            f"{', '.join(parts)}{f' and {more} more' if more > 0 else ''}. No agent can learn "
            "what another component holds: add links between them."
        )

    def name(self, agent: int) -> str:
        return str(agent) if self.names is None else repr(self.names[agent])

    def listed(self, agents: Iterable[int]) -> str:
        members = list(agents)
        text = ", ".join(self.name(int(k)) for k in members[:SHOWN])
        return text + (f", … {len(members) - SHOWN} more" if len(members) > SHOWN else "")

    def union(self, *others: Graph) -> Graph:
        if any(other.agents != self.agents for other in others):
            raise InvalidInput("the graphs have different numbers of agents.")
        edges = np.concatenate([self.edges, *(other.edges for other in others)])
        return Graph(edges, self.agents, names=self.names)

    def __repr__(self) -> str:
        return f"Graph({plural(self.agents, 'agent')}, {plural(len(self.edges), 'edge')})"


def _pairs(edges: ArrayLike) -> Index:
    try:
        pairs = np.asarray(edges)
    except ValueError:  # lists of different lengths
        pairs = np.ones(1)
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.intp)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InvalidInput(
            "edges must be pairs of agent numbers, shape (edges, 2); received shape "
            f"{pairs.shape} of type {pairs.dtype}."
        )
    return pairs.astype(np.intp)


def _require_agents_of(pairs: Index, count: int) -> None:
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= count):
        raise InvalidInput(
            f"the agents are numbered 0 … {count - 1}; an edge names agent "
            f"{int(pairs.min() if pairs.min() < 0 else pairs.max())}."
        )
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        raise InvalidInput(
            f"agent {int(pairs[same][0, 0])} has an edge to itself: leave it out, an agent "
            "always keeps a share of its own value."
        )


def as_graph(graph: Graph | object) -> Graph:
    return graph if isinstance(graph, Graph) else Graph.from_networkx(graph)


# --- weights --------------------------------------------------------------------------------------


class Weights:
    """W = (a_ij) of one averaging round x ← W x (`algo:average`), Metropolis (Xiao, Boyd 2004).

        a_ij = a_ji = 1/(1 + max(d_i, d_j)) on edges, a_ii = 1 − Σ_j a_ij > 0

    From the degrees of the neighbours alone. `edge_weights`: a_ij in the order of `graph.edges`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.agents = graph, graph.agents
        ends = graph.degrees[graph.edges]
        self.edge_weights: Array = np.asarray(1.0 / (1.0 + ends.max(axis=1)))
        used = np.bincount(graph.edges.T.ravel(), np.tile(self.edge_weights, 2), self.agents)
        self.own_weights: Array = 1.0 - used  # a_ii, (N,)

    @cached_property
    def matrix(self) -> Sparse:
        return _assembled(self.graph.edges, self.edge_weights, self.edge_weights, self.own_weights)

    def of(self, agent: int) -> tuple[Index, Array]:
        table = self.matrix
        row = slice(table.indptr[agent], table.indptr[agent + 1])
        others = table.indices[row] != agent
        return table.indices[row][others], table.data[row][others]


def weights_of(graph: Graph | object) -> Weights:
    """The weights of a connected graph."""
    net = as_graph(graph)
    net.require_connected()
    return Weights(net)


def _assembled(edges: Index, *values: Array) -> Sparse:
    """W from a_ij and a_ji on edges (E, 2), and a_ii (N,)."""
    (i, j), count = edges.T, len(values[-1])
    k = np.arange(count)
    places = (np.concatenate([i, j, k]), np.concatenate([j, i, k]))
    table = scipy.sparse.csr_array((np.concatenate(values), places), shape=(count, count))
    table.sort_indices()
    return table


# --- links ----------------------------------------------------------------------------------------


class Fixed:
    def __init__(self, table: Sparse) -> None:
        self.table, self.agents = table, table.shape[0]

    def matrix(self, k: int) -> Sparse:
        return self.table


class TimeVarying:
    """W_0, W_1, …: links that come and go by a plan, or fail at random.

    graphs  Graphs (or networkx graphs) of the same agents: round k uses graph k mod T, with
            Metropolis weights. Their union must be connected.
    loss    in [0, 1): probability with which each link fails in each round, for both of its agents;
            its weight a_ij stays with them.
    rng     decides which links fail (a seed or a Generator).

    Every agent converges to the average (Olshevsky and Tsitsiklis 2009; with loss: with probability
    one).

    >>> import privest as pv
    >>> links = TimeVarying([Graph([(0, 1)], agents=3), Graph([(1, 2)], agents=3)])
    >>> sensor, rng = pv.network.Sensor(np.ones((3, 1)), 1.0, 1e6), np.random.default_rng(0)
    >>> sent = sensor.simulate([1.0, 2.0, 6.0], rng)
    >>> pv.network.average(sent, links).estimates.round(2).ravel().tolist()
    [3.0, 3.0, 3.0]
    """

    agents: int
    loss: float

    def __init__(
        self,
        graphs: Sequence[Graph | object],
        *,
        loss: float = 0.0,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        if not isinstance(graphs, list | tuple) or not graphs:
            raise InvalidInput(
                "time-varying links are a list of graphs, at least one; received "
                f"{type(graphs).__name__}."
            )
        plan = [as_graph(each) for each in graphs]
        self.graph: Graph = plan[0].union(*plan[1:])
        self.graph.require_connected("the union of the time-varying graphs")
        self.agents, self.loss = self.graph.agents, as_number(loss, "loss")
        if not 0.0 <= self.loss < 1.0:
            raise InvalidInput(f"loss must lie in [0, 1); received {self.loss:g}.")
        if self.loss and rng is None:
            raise InvalidInput("links that fail need rng=, a seed or a numpy Generator.")
        if rng is not None and not isinstance(rng, np.random.Generator):
            rng = np.random.default_rng(as_count(rng, "rng", least=0))
        self._rng = rng if self.loss else None
        self._plan = [Weights(each) for each in plan]

    def matrix(self, k: int) -> Sparse:
        weights = self._plan[k % len(self._plan)]
        if self._rng is None:
            return weights.matrix
        a, edges = weights.edge_weights, weights.graph.edges
        used = np.where(self._rng.random(len(a)) >= self.loss, a, 0.0)
        own = 1.0 - np.bincount(edges.T.ravel(), np.tile(used, 2), minlength=self.agents)
        return _assembled(edges, used, used, own)


Links = Fixed | TimeVarying
AnyLinks = TimeVarying | Graph | object  # object: a networkx graph


def as_links(graph: AnyLinks) -> Links:
    return graph if isinstance(graph, TimeVarying) else Fixed(weights_of(graph).matrix)
