"""Work on blocks in a few threads, results in order, never more than a few blocks in memory.

It pays because Arrow and numpy let go of the interpreter while they parse, cast and format.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = min(4, os.cpu_count() or 1)


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS
) -> Generator[Result]:
    """As map(work, items); the caller's thread takes the items, up to `threads` + 1 ahead."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # left early, or an error: nobody waits for the rest
            for future in waiting:
                future.cancel()
