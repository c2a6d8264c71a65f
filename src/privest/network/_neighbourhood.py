"""The links of one MPI rank to its neighbours, with a deadline on every wait."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput, PrivestError
from privest.network._graph import Graph

T = TypeVar("T")

GREETING, ALIVE = 7301, 7302  # tags
PAUSE = 1e-3  # the longest sleep between two looks at a message that has not come, seconds

# Buffers of exchanges that were given up: MPI may still write into them.
_given_up: list[object] = []


class AgentSilent(PrivestError, TimeoutError):
    """A neighbour was not heard in time: it died, hangs, or is slower than the timeout."""


class Neighbourhood:
    """The links of this rank. Nothing here waits without a deadline."""

    def __init__(self, comm: Any, neighbours: list[int], timeout: float, graph: Graph) -> None:  # noqa: ANN401
        self.comm, self.neighbours, self.timeout, self._name = comm, neighbours, timeout, graph.name
        self.agent, self.agents = int(comm.rank), int(comm.size)
        self._links: Any = None

    def greet(self, facts: bytes) -> None:
        """Meet the neighbours: they are there, and were started with the same public facts."""
        digest = hashlib.sha256(facts).digest()
        mine = np.frombuffer(digest, dtype=np.uint8).copy()
        theirs = np.zeros((len(self.neighbours), len(mine)), dtype=np.uint8)
        requests = [self.comm.Isend(mine, dest=j, tag=GREETING) for j in self.neighbours]
        for row, j in zip(theirs, self.neighbours):
            requests.append(self.comm.Irecv(row, source=j, tag=GREETING))
        self._finish(requests, (mine, theirs))
        for row, j in zip(theirs, self.neighbours):
            if not np.array_equal(row, mine):
                raise InvalidInput(
                    f"agent {self._name(j)} takes part with another graph, other weights or "
                    "parameters (their number, names or order), method or tolerance: start all "
                    "agents with the same."
                )
        self._links = self._within(
            lambda: self.comm.Create_dist_graph_adjacent(self.neighbours, self.neighbours)
        )

    def exchange(self, vector: Array) -> Array:
        """Send a vector to all neighbours; theirs come back, (neighbours, d), in order."""
        heard = np.empty((len(self.neighbours), len(vector)))
        if self.neighbours:
            request = self._links.Ineighbor_allgather(vector, heard)
            self._finish([request], (vector, heard))
        return heard

    def close(self) -> None:
        """Give the communicator back."""
        if self._links is not None:
            self._within(self._links.Free)

    def _finish(self, requests: list[Any], buffers: object) -> None:
        end, pause = time.monotonic() + self.timeout, 0.0
        while not self._arrived(requests, buffers):
            if time.monotonic() > end:
                _given_up.append((requests, buffers))
                raise self._silence()
            time.sleep(pause)  # 0 gives the core to a rank that shares it
            pause = min(PAUSE, pause + 1e-5)

    def _arrived(self, requests: list[Any], buffers: object) -> bool:
        try:
            return all(request.Test() for request in requests)
        except RuntimeError as error:  # MPI.Exception: the library noticed a failure itself
            _given_up.append((requests, buffers))
            raise self._silence() from error

    def _within(self, work: Callable[[], T]) -> T:
        """A call that may block, in a thread of its own: MPI has no other deadline for it."""
        done: list[T | BaseException] = []

        def run() -> None:
            try:
                done.append(work())
            except BaseException as error:
                done.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if not done:
            raise self._silence()
        if isinstance(done[0], BaseException):
            raise done[0]
        return done[0]

    def _silence(self) -> AgentSilent:
        """Who is silent: living neighbours have stopped too, and say so to each other."""
        word = np.zeros(1, dtype=np.uint8)
        silent = set(self.neighbours)
        end = time.monotonic() + min(1.0, self.timeout)
        with contextlib.suppress(RuntimeError):  # MPI's own failure: all of them count as silent
            _given_up.append([self.comm.Isend(word, dest=j, tag=ALIVE) for j in self.neighbours])
            _given_up.append(word)
            while silent and time.monotonic() < end:
                silent -= {j for j in silent if self.comm.Iprobe(source=j, tag=ALIVE)}
                time.sleep(PAUSE)
        names = [self._name(j) for j in self.neighbours if j in silent]
        who = f"agent {', '.join(names)}" if names else "an agent beyond its neighbours"
        return AgentSilent(
            f"agent {self._name(self.agent)} waited {self.timeout:g} s in vain: {who} died, hangs, "
            "or is slower than that. There is no result; start again, with a larger timeout if an "
            "agent is only slow, and with the same releases: what was sent stays sent, and a new "
            "release would be shown on top of it (mechanism.source.Kept keeps one)."
        )
