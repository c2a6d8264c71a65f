"""Memory that a reader may take, as the system counts it."""

import contextlib
import re
import sys
from pathlib import Path

MIB = 1 << 20


@contextlib.contextmanager
def memory(more: int):
    """No more than `more` bytes beyond what the process has now: MemoryError, which no reader may
    raise. Linux; elsewhere nothing is limited.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    now = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
