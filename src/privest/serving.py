"""HTTP connections that are limited in number, and in the time until a request's head arrives.

uvicorn has neither limit: connections that send half a head would be held for ever.
"""

from __future__ import annotations

import asyncio
import asyncio.constants

from uvicorn.protocols.http.h11_impl import H11Protocol

from privest.files import most_files

LONGEST_HEAD = 10.0  # seconds until the head of a request has arrived
# Half of the files that the process may open: what is served needs files too.
MOST_CONNECTIONS = min(1000, most_files() // 2)
BACKLOG = MOST_CONNECTIONS // 8  # asyncio takes as many at once before it looks at any of them
# uvicorn passes no time for the handshake of TLS on: asyncio's own is a minute.
asyncio.constants.SSL_HANDSHAKE_TIMEOUT = LONGEST_HEAD


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 on one connection, closed where the head of a request does not arrive in time.

    Where there are too many, the one that has waited longest for a head is closed.
    """

    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_wait()
        if len(self.connections) > MOST_CONNECTIONS:
            served = [one for one in self.connections if isinstance(one, LimitedProtocol)]
            waiting = [one for one in served if one._is_waiting()]
            min(waiting, key=lambda one: one._deadline.when())._drop()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._begin_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _begin_wait(self) -> None:
        self._deadline = self.loop.call_later(LONGEST_HEAD, self._end_wait)

    def _end_wait(self) -> None:
        """A request that came in the meantime is being served; its end begins another wait."""
        if self._is_waiting():
            self._drop()

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _drop(self) -> None:
        self.connections.discard(self)  # at once: others may come before asyncio has closed it
        self.transport.abort()
