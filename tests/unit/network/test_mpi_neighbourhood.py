"""The links of a rank without MPI: a stand-in communicator that keeps silent, fails or blocks."""

import threading
import time

import numpy as np
import pytest

from privest.network import Graph
from privest.network.mpi import AgentSilent, Neighbourhood


class Request:
    def __init__(self, done=True, error=None):
        self.done, self.error = done, error

    def Test(self):
        if self.error is not None:
            raise self.error
        return self.done


class Silent:
    """Rank 0 of four on a ring. Greetings come back as they went out; then `then` happens."""

    rank, size = 0, 4

    def __init__(self, then, alive=()):
        self.then, self.alive, self.block = then, alive, threading.Event()

    def Isend(self, buffer, dest, tag):
        self.last = buffer
        return Request()

    def Irecv(self, buffer, source, tag):
        buffer[:] = self.last
        return Request()

    def Iprobe(self, source, tag):
        return source in self.alive

    def Create_dist_graph_adjacent(self, sources, destinations):
        if self.then == "blocks":
            self.block.wait(20)
        return self

    def Ineighbor_allgather(self, vector, heard):
        errors = {"fails": RuntimeError("MPI_ERR_PROC_FAILED")}
        return Request(done=self.then == "works", error=errors.get(self.then))


def links(then, alive=()):
    return Neighbourhood(Silent(then, alive), [1, 3], 0.2, Graph.ring(4))


@pytest.mark.parametrize(
    ("alive", "who"),
    [((), "agent 1, 3 died"), ((1,), "agent 3 died"), ((1, 3), "beyond its neighbours died")],
)
def test_silence_names_who(alive, who):
    net = links("nothing", alive)
    net.greet(b"facts")
    start = time.monotonic()
    with pytest.raises(AgentSilent, match=rf"agent 0 waited 0\.2 s in vain: .*{who}"):
        net.exchange(np.zeros(3))
    assert 0.2 <= time.monotonic() - start < 5


def test_a_blocked_set_up_has_a_deadline_too():
    net = links("blocks")
    with pytest.raises(AgentSilent):
        net.greet(b"facts")
    net.comm.block.set()


def test_an_error_of_the_library_is_told_the_same_way():
    net = links("fails")
    net.greet(b"facts")
    with pytest.raises(AgentSilent) as caught:
        net.exchange(np.zeros(3))
    assert "PROC_FAILED" in str(caught.value.__cause__)


def test_it_is_a_timeout():
    assert issubclass(AgentSilent, TimeoutError)
    net = links("works")
    net.greet(b"facts")
    assert net.exchange(np.zeros(3)).shape == (2, 3)
