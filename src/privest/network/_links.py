"""Which weights are used in which round: fixed, time-varying, or links that fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privest.arrays import Array, Index, as_number
from privest.errors import InvalidInput
from privest.network._graph import Graph
from privest.network._weights import Weights, assemble, metropolis

if TYPE_CHECKING:
    from privest.network._graph import Sparse


class Links(ABC):
    """W_k of round k = 0, 1, …; `keeps_average`: every W_k is symmetric and stochastic."""

    agents: int
    keeps_average: bool = True

    @abstractmethod
    def matrix(self, k: int) -> Sparse:
        """W_k (N, N). Asked once for every round, in order."""


class Fixed(Links):
    """The same W in every round; its graph must be connected."""

    def __init__(self, weights: Weights) -> None:
        weights.graph.require_connected("the graph of the weights")
        self.weights, self.agents = weights, weights.agents
        self._matrix = weights.matrix

    def matrix(self, k: int) -> Sparse:
        return self._matrix

    def reordered(self, order: Index) -> Fixed:
        """The same links of agents renumbered: new agent a is old agent order[a]."""
        other = Fixed.__new__(Fixed)
        other.weights, other.agents = self.weights, self.agents
        other._matrix = self._matrix[order][:, order].tocsr()
        return other


class TimeVarying(Links):
    """W_0, W_1, …, W_{T−1}, W_0, …: links that come and go by a plan, in turn.

    Any one of them may be disconnected; together they must not be (joint connectivity: the union
    over a period is connected), else InvalidInput names the components. Each is a Weights made with
    connected=False, a Graph or a networkx graph (Metropolis weights).
    Guarantee: every agent converges to the average (Olshevsky and Tsitsiklis 2009).
    """

    def __init__(self, plan: Sequence[Weights | Graph | object]) -> None:
        if len(plan) == 0:
            raise InvalidInput("time-varying links need at least one set of weights.")
        self.plan = [
            each if isinstance(each, Weights) else metropolis(each, connected=False)
            for each in plan
        ]
        first = self.plan[0].graph
        together = first.union(*(weights.graph for weights in self.plan[1:]))
        together.require_connected("the union of the time-varying graphs")
        self.agents, self.graph = first.agents, together
        self._matrices = [weights.matrix for weights in self.plan]

    def matrix(self, k: int) -> Sparse:
        return self._matrices[k % len(self._matrices)]


class Lossy(Links):
    """Every link of `weights` fails in every round with probability `loss`, independently.

    A graph instead of weights gets Metropolis weights. Without failures it must be connected.
    Both ways (the default): in a round an edge is used by both agents or by neither, as with an
    acknowledged exchange; the weight a_ij of a failed edge stays with both. Every W_k is symmetric
    and stochastic, the average is kept, and every agent converges to it with probability one.
    One way (`both_ways=False`): each direction fails by itself and the receiver keeps the weight.
    Rows still sum to one, columns do not: agents agree, but on Σπ_i x_i with random weights π. The
    estimate r⁻¹x is then still unbiased (π does not depend on the readings) but not efficient, and
    an average is simply wrong. `consensus` shows it in `drift`.
    `rng` decides which links fail: never the mechanism's noise.
    """

    def __init__(
        self,
        weights: Weights | Graph | object,
        loss: float,
        rng: np.random.Generator,
        *,
        both_ways: bool = True,
    ) -> None:
        weights = weights if isinstance(weights, Weights) else metropolis(weights)
        weights.graph.require_connected("the graph of the weights")
        self.loss = as_number(loss, "loss")
        if not 0.0 <= self.loss < 1.0:
            raise InvalidInput(f"loss must lie in [0, 1); received {self.loss:g}.")
        self.weights, self.rng, self.keeps_average = weights, rng, both_ways
        self.agents = weights.agents
        self._prepare(weights.graph.edges)

    def _prepare(self, edges: Index) -> None:
        """Where the two directions of every edge and the diagonal lie in the sparse matrix."""
        count, links = self.agents, len(edges)
        number = np.arange(1.0, 2 * links + count + 1)  # recognisable entries; 0 would be dropped
        self._table = table = assemble(edges, *np.split(number, [links, 2 * links]))
        self._place = np.empty(len(number), dtype=np.intp)
        self._place[table.data.astype(np.intp) - 1] = np.arange(len(number))
        self._receiver = np.concatenate([*edges.T])

    def matrix(self, k: int) -> Sparse:
        a = self.weights.edge_weights
        heard = self.rng.random(len(a) if self.keeps_average else 2 * len(a)) >= self.loss
        both = np.where(np.resize(heard, 2 * len(a)), np.concatenate([a, a]), 0.0)
        own = 1.0 - np.bincount(self._receiver, both, minlength=self.agents)
        data: Array = np.empty(len(self._place))
        data[self._place] = np.concatenate([both, own])
        return scipy.sparse.csr_array(
            (data, self._table.indices, self._table.indptr), shape=self._table.shape
        )


AnyLinks = Links | Weights | Graph | object  # object: a networkx graph


def as_links(links: AnyLinks) -> Links:
    """Links as they are; Weights are fixed ones; a graph gets Metropolis weights."""
    if isinstance(links, Links):
        return links
    return Fixed(links if isinstance(links, Weights) else metropolis(links))
