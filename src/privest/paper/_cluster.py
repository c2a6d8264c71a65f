"""An executor on a Dask cluster, for `monte_carlo(executor=…)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from privest.arrays import as_positive
from privest.errors import InvalidInput, MissingDependency


@contextmanager
def cluster_executor(address: str, *, timeout: float = 10.0) -> Iterator[Executor]:
    """The workers behind a Dask scheduler ("tcp://host:8786") as an Executor.

    Refused within `timeout` seconds: no scheduler answers, it has no worker, or another version of
    privest. On leaving, by an error or Ctrl-C too, what has not begun is cancelled and the
    connection closed.
    """
    client = _connected(address, as_positive(timeout, "timeout"))
    try:
        _require_workers(client, address, timeout)
        # pure=False: a run is never answered from results that the cluster happens to remember.
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # Dask's own: cancels what is left
    finally:
        client.close()


def _connected(address: str, timeout: float) -> Any:  # noqa: ANN401 - distributed has no types
    try:
        import distributed
    except ImportError as missing:
        raise MissingDependency(
            "A cluster needs dask.distributed: install the extra 'dask', for example with "
            'pip install ".[dask]" in the source folder.'
        ) from missing
    if not isinstance(address, str) or not address:
        raise InvalidInput("a scheduler has an address such as tcp://host:8786.")
    try:
        # Not the default client: other Dask work of this process keeps its own scheduler.
        return distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise InvalidInput(
            f"no Dask scheduler answers at {address} ({type(error).__name__}): start one with "
            "`dask scheduler`, and give the address it prints."
        ) from None


def _require_workers(client: Any, address: str, timeout: float) -> None:  # noqa: ANN401
    import distributed

    import privest

    try:
        client.wait_for_workers(1, timeout=timeout)
    except (TimeoutError, distributed.TimeoutError):
        raise InvalidInput(
            f"the scheduler at {address} has no workers: start some with `dask worker {address}`."
        ) from None
    here = privest.__version__
    # The scheduler too: it reads the tasks. A worker that cannot would die and be started anew,
    # for ever, while we wait.
    found = {"the scheduler": client.run_on_scheduler(_asking()), **client.run(_asking())}
    for where, version in found.items():
        if version != here:
            raise InvalidInput(
                f"{where} of the cluster at {address} has privest {version}, this process {here}: "
                "install the same version everywhere."
            )


def _asking() -> Callable[[], str]:
    """A nested function, sent whole and not by name, that returns the version of privest."""

    def version() -> str:
        try:
            import privest
        except ImportError:
            return "not installed"
        return privest.__version__

    return version
