"""Monte Carlo on a Dask cluster; what goes wrong with one; interrupts leave nothing running."""

import contextlib
import gc
import os
import signal
import threading
import time

import pytest

import montecarlo_tasks
from dask_cluster import cluster, hide_privest, slow
from privest.errors import InvalidInput
from privest.paper._cluster import cluster_executor
from privest.paper._engine import Task, monte_carlo

pytestmark = pytest.mark.processes

distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")


@pytest.fixture(scope="module")
def client():
    with cluster() as found:
        yield found


@pytest.fixture
def address(client):
    return client.scheduler.address


def still_there(client):
    """Tasks that the scheduler knows of."""
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def soon_empty(client, seconds=5.0):
    end = time.monotonic() + seconds
    while still_there(client):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def interrupt_after(seconds):
    """Ctrl-C, as the main thread gets it (also where a shell started us with it ignored).

    Meanwhile nothing is collected: hypothesis has a callback there, and an exception in a callback
    of the collector is lost.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    gc.collect()
    gc.disable()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        gc.enable()
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_monte_carlo_is_the_same_as_here(address):
    tasks = [
        Task(name, montecarlo_tasks.normal, {"scale": s}) for name, s in (("a", 1.0), ("b", 3))
    ]
    here = monte_carlo(tasks, trials=1000, seed=4, chunk=100)
    with cluster_executor(address) as executor:
        there = monte_carlo(tasks, trials=1000, seed=4, chunk=100, executor=executor)
    assert here == there


def test_an_error_on_a_worker_comes_back(address, client):
    with (
        cluster_executor(address) as executor,
        pytest.raises(InvalidInput, match="one number for each of 5 trials"),
    ):
        monte_carlo([Task("w", montecarlo_tasks.wrong)], trials=5, seed=0, executor=executor)
    assert soon_empty(client)


def test_leaving_cancels_what_waits(address, client):
    begin = time.monotonic()
    with cluster_executor(address) as executor:
        futures = [executor.submit(slow, k) for k in range(200)]  # 20 s on two workers
        assert futures[0].result() == 0
    assert soon_empty(client)
    assert time.monotonic() - begin < 10


def test_interrupted_monte_carlo(address, client):
    with interrupt_after(1.0), cluster_executor(address) as executor:
        list(executor.map(slow, range(200)))
    assert soon_empty(client)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "", None])
def test_no_scheduler(address):
    with pytest.raises(InvalidInput, match="scheduler"), cluster_executor(address, timeout=0.5):
        pass


def test_no_workers():
    with (
        cluster(0) as empty,
        pytest.raises(InvalidInput, match="has no workers: start some"),
        cluster_executor(empty.scheduler.address, timeout=0.5),
    ):
        pass


def test_another_version(address, monkeypatch):
    monkeypatch.setattr("privest.__version__", "0.0.1")
    # The scheduler of these tests lives in this process.
    with (
        pytest.raises(InvalidInput, match=r"tcp:.* has privest \d.*, this process 0\.0\.1"),
        cluster_executor(address),
    ):
        pass


def test_workers_without_privest():
    with cluster(1) as bare:
        bare.run(hide_privest)
        with (
            pytest.raises(InvalidInput, match="has privest not installed, this process"),
            cluster_executor(bare.scheduler.address),
        ):
            pass
