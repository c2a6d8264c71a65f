"""A small Dask cluster on this machine, for tests."""

import contextlib
import logging
import sys
import time

import pytest


@contextlib.contextmanager
def cluster(workers=2, **more):
    """Two worker processes of one thread each, and a client that is not the default one."""
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            **more,
        ) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


def slow(value):
    """Work, in a module that workers can import."""
    time.sleep(0.2)
    return value


def hide_privest():
    """From now on `import privest` fails in this process."""
    sys.modules["privest"] = None
