"""The collector over HTTP: a report is on disk before it is answered.

Reports wait in a bounded queue. One task takes all that wait and writes them in one transaction
(group commit); a full queue is answered with 429. Errors are RFC 9457 problems.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import prometheus_client as prometheus
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from privest.collect.estimate import estimate
from privest.collect.plan import LARGEST, CollectionPlan, Report, as_name
from privest.collect.store import Answer, SqlStore
from privest.errors import InvalidInput, NotIdentifiable, PrivestError
from privest.reading import read_document
from privest.serving import MOST_CONNECTIONS

STATIC = Path(__file__).with_name("static")
MOST_BYTES = 1 << 20  # of one request
LONGEST_BODY = 30.0  # seconds until a body has arrived
MOST_REPORTS = 1000  # in one request
MOST_WAITING = 10_000  # reports in the queue
GROUP = 2000  # reports in one transaction
MOST_POINTS = 300  # of the course on the live page
MOST_WATCHING = MOST_CONNECTIONS // 2  # who look at the live page
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Answers: TypeAlias = "asyncio.Future[list[Answer]]"
Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]


class Sent(msgspec.Struct, forbid_unknown_fields=True):
    """A report as it is sent: the fields of `Report`, in their order."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    device: Name
    step: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    level: Name
    features: Annotated[tuple[Whole, ...], msgspec.Meta(max_length=1000)]
    z: Whole


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a post: reports of a device or a gateway."""

    plan: str
    reports: Annotated[list[Sent], msgspec.Meta(min_length=1, max_length=MOST_REPORTS)]


DECODER = msgspec.json.Decoder(Body)


@dataclass(eq=False)
class Problem(Exception):
    """A request that is refused: status, what is wrong, seconds to wait."""

    status: int
    title: str
    wait: int = 0


class Tokens:
    """Tokens of devices: for which device each may send, and up to which level.

    A line of the file: a name, the SHA-256 of its token, and the highest level (or inf). A name
    that ends with a star is a gateway's: it sends for all devices that begin so.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._written = path, 0
        self._owners: dict[bytes, tuple[str, float]] = {}
        self._follow()

    def _follow(self) -> None:
        """Read the file again if it has changed, also while reports come."""
        written = self._path.stat().st_mtime_ns if self._path.exists() else 0
        if written != self._written or not written:
            self._owners = self._read(read_document(self._path).splitlines())
            self._written = written

    @staticmethod
    def _read(lines: Sequence[str]) -> dict[bytes, tuple[str, float]]:
        owners: dict[bytes, tuple[str, float]] = {}
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            try:
                name, digest, budget = words
                as_name(name.removesuffix("*") or "x", "the name of a device")
                key, most = bytes.fromhex(digest), float(budget)
            except ValueError:  # InvalidInput too
                key, most = b"", math.nan
            if len(key) != 32 or not most > 0:
                raise InvalidInput(
                    f"line {number} of the tokens must be a name, a SHA-256 and a level."
                )
            owners[key] = name, most
        return owners

    def owner(self, header: str) -> tuple[str, float]:
        """Name and highest level of the token in an Authorization header.

        Nobody may send while the file cannot be read.
        """
        try:
            self._follow()
        except (InvalidInput, OSError):
            raise Problem(503, "the collector cannot read its tokens", wait=5) from None
        kind, _, token = header.partition(" ")
        digest = hashlib.sha256(token.encode()).digest()
        found = self._owners.get(digest) if kind.lower() == "bearer" else None
        if found is None:
            raise Problem(401, "a bearer token of this collector is needed")
        return found

    @staticmethod
    def require(
        owner: tuple[str, float], reports: Sequence[Report], levels: Mapping[str, float]
    ) -> None:
        """Refuse reports that this owner of a token may not send."""
        name, most = owner
        start = name.removesuffix("*")
        for one in reports:
            if not (one.device.startswith(start) if start != name else one.device == name):
                raise Problem(403, "this token is of another device")
            if levels.get(one.level, 0.0) > most:
                raise Problem(403, "this level is above the budget of the device")


def new_token(name: str, budget: float = math.inf) -> tuple[str, str]:
    """A token for a device, and its line for the file of tokens."""
    as_name(name.removesuffix("*") or "x", "the name of a device")
    token = secrets.token_urlsafe(24)
    return token, f"{name} {hashlib.sha256(token.encode()).hexdigest()} {budget}\n"


class Collector:
    """The queue before a store, and what is counted.

    tokens  None: any device may send under any name.
    """

    def __init__(self, store: SqlStore, tokens: Tokens | None = None) -> None:
        self.store: SqlStore = store
        self.plan: CollectionPlan = store.plan
        self.tokens: Tokens | None = tokens
        self._waiting = 0
        self._queue: asyncio.Queue[tuple[list[Report], Answers]] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, "store")  # the only one that uses the store
        self.registry: Any = prometheus.CollectorRegistry()
        self.counted: Any = prometheus.Counter(
            "privest_reports", "Reports by answer", ["answer"], registry=self.registry
        )
        self.refused: Any = prometheus.Counter(
            "privest_refused", "Requests by status", ["status"], registry=self.registry
        )
        self.seconds: Any = prometheus.Histogram(
            "privest_commit_seconds", "Time of a group commit", registry=self.registry
        )
        waiting = prometheus.Gauge("privest_waiting", "Reports that wait", registry=self.registry)
        waiting.set_function(lambda: self._waiting)
        self._shown: tuple[float, dict[str, Any]] = (-math.inf, {})
        self._showing = asyncio.Lock()
        self._course: list[list[float]] = []  # reports, s.e. and s.e. without privacy
        self._refusals = 0
        self.watching: int = 0

    async def submit(self, reports: list[Report]) -> list[Answer]:
        """The answers to reports, once they are on disk."""
        for report in reports:
            self.plan.require(report)
        if self._waiting + len(reports) > MOST_WAITING:
            raise Problem(429, "the collector is busy", wait=1)
        self._waiting += len(reports)
        future: Answers = asyncio.Future()
        self._queue.put_nowait((reports, future))
        # A client that goes away does not take its reports back.
        return await asyncio.shield(future)

    async def answers_by_device(self, body: bytes) -> list[tuple[str, str]]:
        """The answers to a body of no request, as JSON by device; a problem goes to all of them."""
        sent: Sequence[Sent] = ()
        try:
            sent = self.decoded(body).reports
            reports = self.read(body)
            answers = await self.submit(reports)
        except (Problem, InvalidInput) as error:
            status = getattr(error, "status", 422)
            self.note_refusal(status)
            text = json.dumps({"title": getattr(error, "title", str(error)), "status": status})
            return [(device, text) for device in sorted({one.device for one in sent})]
        by_device: dict[str, list[dict[str, object]]] = {}
        for report, answer in zip(reports, answers):
            by_device.setdefault(report.device, []).append(_said(report, answer))
        return [(one, json.dumps({"answers": said})) for one, said in by_device.items()]

    def decoded(self, body: bytes) -> Body:
        """A body, of whatever plan."""
        if len(body) > MOST_BYTES:
            raise Problem(413, f"a request has at most {MOST_BYTES} bytes")
        try:
            return DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Problem(400, "the body is no report of this plan") from None

    def read(self, body: bytes) -> list[Report]:
        """The reports of a body of this plan."""
        sent = self.decoded(body)
        if sent.plan != self.plan.hash:
            raise Problem(422, "these reports are of another plan: fetch /plan")
        return [Report(*msgspec.structs.astuple(one)) for one in sent.reports]

    async def run(self) -> None:
        """Write what waits, in groups, until it is cancelled."""
        while True:
            group = [await self._queue.get()]
            size = len(group[0][0])
            while size < GROUP and not self._queue.empty():
                group.append(self._queue.get_nowait())
                size += len(group[-1][0])
            reports = [report for own, _ in group for report in own]
            try:
                with self.seconds.time():
                    answers = await self.on_store(self.store.add, reports)
            except Problem as error:  # nobody gets a 2xx
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
            else:
                for answer in answers:
                    self.counted.labels(answer.name.lower()).inc()
                left = iter(answers)
                for sent, future in group:
                    answered = list(islice(left, len(sent)))
                    if not future.done():
                        future.set_result(answered)
            finally:
                self._waiting -= size

    async def on_store(self, work: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401
        """Run a call of the store in its thread; 503: a full disk, a database that went away."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
        except Exception as error:
            raise Problem(503, f"the store does not answer ({type(error).__name__})", 5) from None

    async def state(self) -> dict[str, Any]:
        """State of the live page, at most half a second old; it holds no measurement."""
        async with self._showing:
            then, before = self._shown
            if time.monotonic() - then > 0.5:
                found = await self._state()
                now, total = time.monotonic(), found["reports"]
                found["rate"] = (total - before["reports"]) / (now - then) if before else 0.0
                if found["parameters"] and found["reports"] != before.get("reports"):
                    first = found["parameters"][0]
                    self._course.append([found["reports"], first["se"], first["classical"]])
                    if len(self._course) > MOST_POINTS:
                        del self._course[1:-1:2]
                self._shown = now, found | {"course": self._course}
            return self._shown[1]

    async def watch(self) -> None:
        """Keep the course of the standard errors, also while nobody looks, until cancelled."""
        while True:
            await asyncio.sleep(10)
            with contextlib.suppress(Exception):  # a store that is away: the next time
                await self.state()

    async def _state(self) -> dict[str, Any]:
        sums = await self.on_store(self.store.sums)
        _, devices = await self.on_store(self.store.count)
        rows = {name: one.count for name, one in sums.items()}
        shown: dict[str, Any] = {
            "name": self.plan.name, "plan": self.plan.hash, "devices": devices,
            "reports": sum(rows.values()), "rows": rows,  # those of the estimate
            "waiting": self._waiting, "refused": self._refusals, "again": self.store.known,
        }  # fmt: skip
        try:
            found = await asyncio.to_thread(estimate, self.plan, sums)
        except NotIdentifiable as error:
            return shown | {"parameters": [], "note": str(error)}
        own = found.estimate
        assert own.bound is not None
        assert own.classical is not None
        least, classical = own.bound.diagonal() ** 0.5, own.classical.diagonal() ** 0.5
        return shown | {
            "note": "",
            "residual_ratio": None if math.isnan(found.residual_ratio) else found.residual_ratio,
            "parameters": [
                {"name": name, "value": float(value), "se": float(error), "bound": float(limit),
                 "classical": float(plain), "low": float(low), "high": float(high)}
                for name, value, error, limit, plain, (low, high) in zip(
                    own.names, own.value, own.standard_error, least, classical, own.interval()
                )
            ],
        }  # fmt: skip

    def note_refusal(self, status: int) -> None:
        self._refusals += 1
        self.refused.labels(str(status)).inc()

    def close(self) -> None:
        self._thread.shutdown()
        self.store.close()


def _said(report: Report, answer: Answer) -> dict[str, object]:
    return {"id": report.id, "status": answer.value, "text": answer.text}


def make_app(collector: Collector, *sources: Callable[[], Coroutine[Any, Any, None]]) -> Starlette:
    """The collector as ASGI; `sources` bring it reports from elsewhere while it runs."""

    async def reports(request: Request) -> Response:
        tokens = collector.tokens
        owner = tokens.owner(request.headers.get("authorization", "")) if tokens else None
        found = collector.read(await _body(request))
        if owner is not None:
            Tokens.require(owner, found, collector.plan.levels)
        answers = await collector.submit(found)
        listed = [_said(own, answer) for own, answer in zip(found, answers)]
        statuses = {answer.value for answer in answers}
        return JSONResponse({"answers": listed}, statuses.pop() if len(statuses) == 1 else 207)

    async def plan(_: Request) -> Response:
        found = collector.plan
        return JSONResponse(found.to_dict(), headers={"etag": f'"{found.hash}"'})

    async def shown(_: Request) -> Response:
        return JSONResponse(await collector.state())

    async def health(_: Request) -> Response:
        await collector.on_store(collector.store.sums)
        return JSONResponse({"status": "ok"})

    async def metrics(_: Request) -> Response:
        text = prometheus.generate_latest(collector.registry)
        return Response(text, media_type=prometheus.CONTENT_TYPE_LATEST)

    async def events(request: Request) -> Response:
        async def lines() -> AsyncIterator[str]:
            collector.watching += 1
            try:
                while not await request.is_disconnected():
                    yield f"data: {json.dumps(await collector.state())}\n\n"
                    await asyncio.sleep(1)
            except Problem:
                pass  # the page connects again
            finally:
                collector.watching -= 1

        await collector.state()  # a store that is away is a problem, not half an answer
        if collector.watching >= MOST_WATCHING:
            raise Problem(503, "too many watch this page", wait=10)
        return StreamingResponse(lines(), media_type="text/event-stream")

    def problem(_: Request, error: Exception) -> Response:
        status, title, headers = 500, "an error that nobody foresaw", {}
        if isinstance(error, Problem):
            status, title = error.status, error.title
            headers = {"retry-after": str(error.wait)} if error.wait else {}
            headers |= {"www-authenticate": "Bearer"} if status == 401 else {}
        elif isinstance(error, HTTPException):
            status, title, headers = error.status_code, error.detail, dict(error.headers or {})
        elif isinstance(error, PrivestError):
            status, title = 422, str(error)
        collector.note_refusal(status)
        body = {"type": "about:blank", "title": title, "status": status}
        return JSONResponse(body, status, headers, media_type="application/problem+json")

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        coming = [asyncio.create_task(one()) for one in sources]
        tasks = [asyncio.create_task(collector.run()), asyncio.create_task(collector.watch())]
        try:
            yield
        finally:
            for task in coming:
                task.cancel()
            while not collector._queue.empty() or collector._waiting:
                await asyncio.sleep(0.01)  # what is accepted is written
            for task in tasks:
                task.cancel()

    refused = Problem, HTTPException, PrivestError, Exception
    handlers: Mapping[Any, Any] = dict.fromkeys(refused, problem)
    return Starlette(
        routes=[
            Route("/", _file("live.html")), Route("/live.js", _file("live.js")),
            Route("/live.css", _file("live.css")), Route("/plan", plan),
            Route("/reports", reports, methods=["POST"]), Route("/estimate", shown),
            Route("/health", health), Route("/metrics", metrics), Route("/events", events),
        ],
        exception_handlers=handlers,
        lifespan=lifespan,
    )  # fmt: skip


def _file(name: str) -> Callable[[Request], Any]:
    async def answer(_: Request) -> Response:
        headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff"}
        return FileResponse(STATIC / name, headers=headers)

    return answer


async def _body(request: Request) -> bytes:
    """The body of a request; of one that is too large, enough to refuse it."""
    body = bytearray()
    try:
        async with asyncio.timeout(LONGEST_BODY):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    break
    except (TimeoutError, ClientDisconnect):
        raise Problem(408, "the body did not arrive") from None
    return bytes(body)
