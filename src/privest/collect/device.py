"""A device: it protects its measurements, charges its own ledger, and sends until it is heard.

A measurement is written down in this order, so that a crash loses no report and doubles none:

    outbox: step and features → ledger: noise drawn and charged → outbox: z → sent → outbox: done

A step that is in the ledger leaves as it was drawn; one that is not has revealed nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import math
import re
import secrets
import sqlite3
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import numpy as np

from privest.collect.plan import (
    CollectionPlan,
    Report,
    as_name,
    as_words,
    from_words,
    on_feature_grid,
)
from privest.collect.store import Closing, SqlStore, owner_only_database
from privest.errors import CollectorSilent, InvalidInput
from privest.lattice import GRID
from privest.lazy import needed
from privest.ledger import Ledger, cost_of
from privest.reading import parse_json, read_count

BATCH = 100  # reports in one request
BROKERS = "mqtt", "mqtts"
VISIBLE = re.compile("[!-~]+")  # what an address is made of
LONGEST_WAIT = 30.0  # seconds between two tries
# One process at a time has the outbox: the lock goes with the process.
SETTINGS = "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA synchronous = FULL", "BEGIN EXCLUSIVE", "END"
TABLES = (
    "CREATE TABLE IF NOT EXISTS own (plan TEXT NOT NULL, device TEXT NOT NULL, salt TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS outbox (step INTEGER PRIMARY KEY, level TEXT NOT NULL, "
    "features TEXT NOT NULL, z INTEGER, answer INTEGER)",
)


class Reply(NamedTuple):
    """Status and body of an answer; seconds to wait where the collector asks for it."""

    status: int
    body: bytes
    wait: float = 0.0


Post = Callable[[str, bytes | None, dict[str, str]], Reply]


class Device(Closing):
    """A device of a collection: `contribute` protects a measurement and sends it.

    url       of the collector: https://…, http://…, or mqtt://broker/NAME with the plan's name.
    device    name of this device.
    ledger    file of this device's own ledger; the outbox is beside it.
    budget    the highest privacy level that this device accepts, for each measurement.
    plan      hash of the plan that this device accepts, if its owner was told it. Without it the
              budget alone limits what the collector can ask for.
    level     name of a level of the plan; left out: the lowest.
    token     that the collector gave to this device.
    post      sends a request in place of HTTP or MQTT; it is tried `tries` times.
    sleep     waits between two tries.

    >>> device = Device("https://meter.example", "m17", "m17.db", budget=1.0)  # doctest: +SKIP
    >>> device.contribute(0.42, [19.5])  # doctest: +SKIP
    """

    def __init__(
        self, url: str, device: str, ledger: str | Path, *, budget: float, plan: str | None = None,
        level: str | None = None, token: str | None = None, post: Post | None = None,
        tries: int = 8, sleep: Callable[[float], None] | None = None,
    ) -> None:  # fmt: skip
        self._url, self._tries, self._sleep = url, tries, sleep or time.sleep
        self._post = post or _transport(url)
        self._headers = {"content-type": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {as_name(token, 'a token')}"
        self.device: str = as_name(device, "the name of a device")
        text = self._asked("/plan", None).body.decode("utf-8", "replace")
        stated = parse_json(text, "the plan of the collector")
        self.plan: CollectionPlan = CollectionPlan.from_dict(stated)
        if plan is not None and plan != self.plan.hash:
            raise InvalidInput("the collector has another plan than the one that you accept.")
        self.level: str = level or min(self.plan.levels, key=lambda one: self.plan.levels[one])
        self.plan.stream_level(self.level)  # refused if the plan has none of this name
        asked = self.plan.levels[self.level]
        if not asked <= budget:
            raise InvalidInput(
                f"the collector asks for the privacy level {asked:g}, above the budget of this "
                f"device, {budget:g}. Nothing was released."
            )
        self._ledger = Ledger(ledger)
        self._account = self._ledger.account(self.device)
        self._account.open(budget)
        self._key = self.plan.hash[:16]
        self._box = owner_only_database(f"{ledger}.outbox", timeout=2.0)
        try:
            for statement in (*SETTINGS, *TABLES):
                self._box.execute(statement)
            self._salt = self._own_salt()
            self._recover()
        except Exception as error:
            self.close()  # a notebook keeps what failed, and the outbox locked with it
            if not isinstance(error, sqlite3.OperationalError):
                raise
            raise InvalidInput(
                "the outbox beside this ledger is in use: close the other device or process."
            ) from None

    def _own_salt(self) -> str:
        """What makes the ids of this device unguessable; the outbox is of one plan and device."""
        row = self._box.execute("SELECT plan, device, salt FROM own").fetchone()
        if row is None:
            row = self.plan.hash, self.device, secrets.token_hex(16)
            self._box.execute("INSERT INTO own VALUES (?, ?, ?)", row)
        if row[:2] != (self.plan.hash, self.device):
            raise InvalidInput(
                "the outbox beside this ledger is of another plan or device: use a ledger of its "
                "own, for new measurements only, or finish that collection and remove the outbox."
            )
        return str(row[2])

    def _recover(self) -> None:
        """Finish what a crash left: steps in the ledger leave as drawn, others revealed nothing."""
        rows = self._box.execute("SELECT step, level, features FROM outbox WHERE z IS NULL")
        for step, level, features in rows.fetchall():
            if not self._dropped(step):
                self._draw(step, level, features, 0.0)  # the ledger's numbers: y is not used

    def _dropped(self, step: int, *, refused: bool = False) -> bool:
        """Whether a step leaves the outbox: not charged, or refused, it revealed nothing."""
        if not refused and self._account.entry_at(step, self._key) is not None:
            return False
        self._box.execute("DELETE FROM outbox WHERE step = ?", (step,))
        return True

    @property
    def steps(self) -> int:
        """The next step: the first that neither outbox nor ledger has."""
        boxed = self._number("SELECT coalesce(max(step), -1) FROM outbox") + 1
        return max(boxed, self._account.next_index(self._key))

    @property
    def waiting(self) -> int:
        """How many reports have not been answered."""
        return self._number("SELECT count(*) FROM outbox WHERE answer IS NULL")

    @property
    def refused(self) -> int:
        """How many reports the collector has refused for good."""
        return self._number("SELECT count(*) FROM outbox WHERE answer > 201")

    def _number(self, statement: str) -> int:
        return int(self._box.execute(statement).fetchone()[0])

    def put(self, value: float, features: Sequence[float] = (), *, step: int | None = None) -> bool:
        """Protect a measurement and put it into the outbox; `flush` sends it.

        False: nothing was released, because the measurement or a feature is missing (NaN), or the
        step was put before; that is left as it was drawn. `step` left out: the next one.
        """
        if len(features) != len(self.plan.features):
            raise InvalidInput(f"this plan has the features {', '.join(self.plan.features)}.")
        if math.isnan(value) or any(map(math.isnan, features)):
            return False
        found, at = list(on_feature_grid(features)), self.steps if step is None else step
        if not 0 <= at < self.plan.steps:
            raise InvalidInput(f"this plan takes steps 0 to {self.plan.steps - 1}.")
        text = as_words(found)
        row = self._box.execute("SELECT features FROM outbox WHERE step = ?", (at,)).fetchone()
        if row is not None:
            if row[0] != text:
                raise InvalidInput(f"step {at} was released with other features.")
            return False
        self._box.execute("INSERT INTO outbox VALUES (?, ?, ?, NULL, NULL)", (at, self.level, text))
        try:
            self._draw(at, self.level, text, value)
        except Exception as error:  # the budget is spent, or the ledger has another such step
            self._dropped(at, refused=isinstance(error, InvalidInput))
            raise
        return True

    def _draw(self, step: int, name: str, features: str, value: float) -> None:
        """z of a step at the level `name`: charged and in the ledger when this returns."""
        level, mechanism = self.plan.stream_level(name), self.plan.mechanism(name)
        cost, fingerprint = cost_of(level), level.fingerprint
        source = self._account.source(cost, start=step, key=self._key, level=fingerprint)
        source.marks = {"features": hashlib.sha256(features.encode()).hexdigest()}
        z = round(float(mechanism.release(np.array([value]), source).values[0]) / GRID)
        self._box.execute("UPDATE outbox SET z = ? WHERE step = ?", (z, step))

    def contribute(self, value: float, features: Sequence[float] = ()) -> bool:
        """Protect a measurement and send it, with those that wait.

        False: nothing was released. Raises CollectorSilent where the collector does not answer, and
        InvalidInput where it refuses. The report then waits in the outbox: `flush` sends it. The
        same measurement contributed again is a second release.
        """
        done = self.put(value, features)
        self.flush()
        return done

    def flush(self) -> int:
        """Send what waits, again and again with growing pauses; how many were answered."""
        sent = 0
        while rows := self._box.execute(
            "SELECT step, level, features, z FROM outbox WHERE answer IS NULL "
            f"AND z IS NOT NULL ORDER BY step LIMIT {BATCH}"
        ).fetchall():
            reports = [self._report(*row) for row in rows]
            body = {"plan": self.plan.hash, "reports": reports}
            _, answers = answers_of(self._asked("/reports", json.dumps(body).encode()).body)
            if not all(answers.get(own["id"]) in (201, 409, 410) for own in reports):
                raise InvalidInput("the collector leaves reports without an answer.")
            for row, own in zip(rows, reports):
                self._box.execute(
                    "UPDATE outbox SET answer = ? WHERE step = ?", (answers[own["id"]], row[0])
                )
            sent += len(rows)
        return sent

    def _report(self, step: int, level: str, features: str, z: int) -> dict[str, Any]:
        name = hashlib.sha256(f"{self._salt} {step}".encode()).hexdigest()[:32]
        return Report(name, self.device, step, level, from_words(features), z).to_dict()

    def _asked(self, path: str, body: bytes | None) -> Reply:
        """An answer: tries again where the collector is busy, broken or silent."""
        pause = 0.5
        for attempt in range(self._tries):
            try:
                reply = self._post(self._url.rstrip("/") + path, body, self._headers)
            except (OSError, http.client.HTTPException):  # an answer that was cut
                reply = Reply(0, b"")
            if reply.status in (200, 201, 207, 409, 410):
                return reply
            if reply.status not in (0, 408, 429) and reply.status < 500:
                raise InvalidInput(f"the collector refuses: {_problem(reply)}")
            if attempt + 1 < self._tries:
                # Pauses differ between devices, so that they do not come back all at once.
                jitter = 0.5 + secrets.randbelow(1000) / 1000
                self._sleep(max(pause * jitter, min(reply.wait, LONGEST_WAIT)))
                pause = min(2 * pause, LONGEST_WAIT)
        raise CollectorSilent(
            f"the collector at {self._url.rpartition('@')[2]} does not answer. What was drawn "
            "waits in the outbox and is sent next time: do not contribute it again."
        )

    def close(self) -> None:
        self._ledger.close()
        self._box.close()


def answers_of(body: bytes) -> tuple[int, dict[str, int]]:
    """Status of an answer, and the status of each report by its id."""
    found = parse_json(body.decode("utf-8", "replace"), "the collector's answer")
    what = "a status in the collector's answer"
    try:
        if "answers" not in found:
            return read_count(found["status"], what), {}
        return 207, {str(one["id"]): read_count(one["status"], what) for one in found["answers"]}
    except (KeyError, TypeError):
        raise InvalidInput("the collector's answer has another form.") from None


def in_process(store: SqlStore) -> Post:
    """A `post` for devices of this process, straight to a store: to try them without a network."""

    def post(url: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        if body is None:
            return Reply(200, json.dumps(store.plan.to_dict()).encode())
        sent = parse_json(body.decode())["reports"]
        reports = [Report(**one | {"features": tuple(one["features"])}) for one in sent]
        answers = [
            {"id": own.id, "status": answer.value}
            for own, answer in zip(reports, store.add(reports))
        ]
        return Reply(207, json.dumps({"answers": answers}).encode())

    return post


def _problem(reply: Reply) -> str:
    try:
        return str(parse_json(reply.body.decode("utf-8", "replace"))["title"])[:200]
    except (InvalidInput, KeyError, TypeError):
        return f"status {reply.status}"


def as_address(url: str, wanted: str, *schemes: str) -> SplitResult:
    """The parts of an address that has one of these schemes and a host."""
    with contextlib.suppress(ValueError):  # a host or a port that is none
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        if parts.scheme in schemes and host and parts.port != 0 and VISIBLE.fullmatch(url):
            return parts
    raise InvalidInput(f"{wanted}, then names a host and perhaps a port.")


def _transport(url: str) -> Post:
    """How requests reach the collector at this address."""
    wanted = "the address of a collector begins with https://, http://, mqtts:// or mqtt://"
    parts = as_address(url, wanted, "https", "http", *BROKERS)
    if parts.scheme not in BROKERS:
        return _post
    found: Post = needed("privest.collect.mqtt", "MQTT needs aiomqtt", "collect").post
    return found


class _Stays(urllib.request.HTTPRedirectHandler):
    """Refuses to go on to another address: the token is for the one that was stated."""

    def redirect_request(self, *_: object) -> None:
        raise InvalidInput(
            "this address leads to another one: state the address of the collector itself, with "
            "https:// if it has TLS."
        )


def _post(url: str, body: bytes | None, headers: dict[str, str]) -> Reply:
    """A request by the standard library; status 0: no answer."""
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.build_opener(_Stays).open(request, timeout=30.0) as answer:
            found = answer.read(1 << 22)
            return Reply(0 if answer.length else answer.status, found)
    except urllib.error.HTTPError as error:
        try:
            wait = float(error.headers.get("retry-after", "0"))
        except ValueError:
            wait = 0.0
        return Reply(error.code, error.read(1 << 20), wait)
    except OSError as error:
        if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
            raise InvalidInput("this machine does not trust the collector's certificate.") from None
        return Reply(0, b"")
