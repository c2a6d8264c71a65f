"""Who talks to whom: an undirected graph of agents, from networkx, an edge list or a shape."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Index, as_array, as_count, as_nonnegative, plural
from privest.errors import InvalidInput, MissingDependency

if TYPE_CHECKING:
    Sparse = scipy.sparse.csr_array[Any, tuple[int, int]]

SHOWN = 6  # names listed in a message before "and so many more"


class Graph:
    """N agents 0 … N−1 and undirected edges (i, j), i < j, each once.

    `Graph(edges, agents)`: pairs of numbers; repeated and reversed pairs are one edge, an edge from
    an agent to itself is refused. `names` are used in messages only. It need not be connected: what
    needs that says so (`require_connected`).

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
        self.agents = as_count(count, "agents", least=1)
        _require_agents_of(pairs, self.agents)
        self.edges: Index = np.unique(np.sort(pairs, axis=1), axis=0)
        if names is not None and len(names) != self.agents:
            raise InvalidInput(f"{len(names)} names were given for {self.agents} agents.")
        self.names: tuple[Hashable, ...] | None = None if names is None else tuple(names)

    @classmethod
    def from_networkx(cls, graph: object) -> Graph:
        """The undirected graph of networkx; agents in the order of its nodes, loops left out."""
        try:
            import networkx
        except ImportError as missing:
            raise MissingDependency(
                "Graphs of networkx need networkx: install the extra 'network', for example with "
                'pip install ".[network]" in the source folder.'
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

    @property
    def degrees(self) -> Index:
        """Number of neighbours of every agent."""
        return np.bincount(self.edges.ravel(), minlength=self.agents)

    @cached_property
    def adjacency(self) -> Sparse:
        """The 0/1 matrix (N, N)."""
        i, j = self.edges.T
        ones = np.ones(2 * len(i))
        places = (np.concatenate([i, j]), np.concatenate([j, i]))
        return scipy.sparse.csr_array((ones, places), shape=(self.agents, self.agents))

    def neighbours(self, agent: int) -> Index:
        """The agents that `agent` hears, in increasing order."""
        table = self.adjacency
        return np.sort(table.indices[table.indptr[agent] : table.indptr[agent + 1]])

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
        """The most rounds a message needs between any two agents is at most this: twice the
        eccentricity of agent 0, one breadth-first search. Connected graphs only.
        """
        self.require_connected()
        hops = scipy.sparse.csgraph.shortest_path(
            self.adjacency, directed=False, unweighted=True, indices=0
        )
        farthest = int(hops.max())
        return min(2 * farthest, max(self.agents - 1, 0))

    def require_connected(self, what: str = "the graph") -> None:
        """Raise InvalidInput naming the components of a graph that falls apart."""
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
        """The name of an agent for a message."""
        return str(agent) if self.names is None else repr(self.names[agent])

    def listed(self, agents: Iterable[int]) -> str:
        """Some agents for a message."""
        members = list(agents)
        text = ", ".join(self.name(int(k)) for k in members[:SHOWN])
        return text + (f", … {len(members) - SHOWN} more" if len(members) > SHOWN else "")

    def union(self, *others: Graph) -> Graph:
        """All links of several graphs of the same agents."""
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
    """Every edge links two different agents that there are."""
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
    """A Graph as it is, a networkx graph converted."""
    return graph if isinstance(graph, Graph) else Graph.from_networkx(graph)


def ring(agents: int) -> Graph:
    """0 – 1 – … – N−1 – 0."""
    agents = as_count(agents, "agents of a ring", least=3)
    i = np.arange(agents)
    return Graph(np.stack([i, (i + 1) % agents], axis=1))


def star(agents: int) -> Graph:
    """Agent 0 in the middle, linked to all others."""
    agents = as_count(agents, "agents of a star", least=2)
    i = np.arange(1, agents)
    return Graph(np.stack([np.zeros_like(i), i], axis=1))


def grid(rows: int, columns: int) -> Graph:
    """rows × columns, linked to the neighbours right and below."""
    rows, columns = (as_count(side, "a side of a grid", least=1) for side in (rows, columns))
    at = np.arange(rows * columns).reshape(rows, columns)
    right = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    below = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    return Graph(np.concatenate([right, below]), rows * columns)


def random_geometric(positions: Array, radius: float) -> Graph:
    """Agents at `positions` (N, 2), linked where their distance is at most `radius`."""
    places = as_array(positions, "positions", ndim=2)
    if not places.size:
        raise InvalidInput(f"positions must be (N, 2); received shape {places.shape}.")
    tree, near = scipy.spatial.cKDTree(places), as_nonnegative(radius, "radius")
    return Graph(tree.query_pairs(near, output_type="ndarray").astype(np.intp), len(places))
