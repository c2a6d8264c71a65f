"""The collector over MQTT: sensors publish reports, answers come back on a topic of their own.

    privest/NAME/plan             the plan, retained
    privest/NAME/reports          bodies as POST /reports takes them, with QoS 1
    privest/NAME/answers/DEVICE   their answers, or a problem

NAME is the plan's name. QoS 1 may deliver twice, and a report without an answer is published again:
it counts once. The broker's list of users decides who may publish.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import aiomqtt

from privest.collect.device import BROKERS, Reply, answers_of, as_address
from privest.collect.plan import as_name
from privest.reading import parse_json

if TYPE_CHECKING:
    from privest.collect.server import Collector

LOG = logging.getLogger(__name__)
MOST_MESSAGES = 100  # that wait in memory; more are left out, and sent again by their devices
PAUSE = 2.0  # seconds until the broker is tried again
PATIENCE = 10.0  # seconds after which a device takes an answer for lost


def broker_of(url: str) -> dict[str, Any]:
    """Options of a client for mqtt://[user:password@]host[:port], or mqtts:// with TLS."""
    parts = as_address(url, "the address of a broker begins with mqtt:// or mqtts://", *BROKERS)
    tls = parts.scheme == "mqtts"
    return {
        "hostname": parts.hostname, "port": parts.port or (8883 if tls else 1883),
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "tls_params": aiomqtt.TLSParameters() if tls else None,
        "max_queued_incoming_messages": MOST_MESSAGES,
    }  # fmt: skip


async def listen(collector: Collector, url: str) -> None:
    """Take reports from a broker until it is cancelled; a broker that goes away is waited for."""
    root, plan = f"privest/{collector.plan.name}", json.dumps(collector.plan.to_dict())
    own = f"{platform.node()} {Path(collector.store.address).absolute()} {collector.plan.hash}"
    name = f"collector-{hashlib.sha256(own.encode()).hexdigest()[:16]}"
    broker, told = broker_of(url), False
    while True:
        try:  # the broker keeps what comes while the collector is away
            async with aiomqtt.Client(**broker, identifier=name, clean_session=False) as client:
                told = False
                await client.publish(f"{root}/plan", plan, qos=1, retain=True)
                await client.subscribe(f"{root}/reports", qos=1)
                async for message in client.messages:
                    for device, text in await collector.answers_by_device(bytes(message.payload)):
                        await client.publish(f"{root}/answers/{device}", text, qos=1)
        except aiomqtt.MqttError as error:
            if not told:
                LOG.warning("The MQTT broker does not answer (%s). It is tried again.", error)
            told = True
            await asyncio.sleep(PAUSE)


def post(url: str, body: bytes | None, headers: dict[str, str]) -> Reply:
    """A request of a device to mqtt://[user:password@]host[:port]/NAME/plan or …/reports.

    Silence is status 0: the device asks again.
    """
    path = urlsplit(url).path.rpartition("/")[0]
    name = as_name(path.removeprefix("/"), "the name of the plan, after the broker's address,")
    asked = asyncio.wait_for(_asked(url, f"privest/{name}", body), PATIENCE)
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has a loop of its own in this one
            return thread.submit(asyncio.run, asked).result()
    except (aiomqtt.MqttError, TimeoutError, OSError):
        return Reply(0, b"")


async def _asked(url: str, root: str, body: bytes | None) -> Reply:
    """The plan (no body), or the answers to all reports of a device."""
    reports = [] if body is None else parse_json(body.decode())["reports"]
    topic = f"{root}/answers/{reports[0]['device']}" if reports else f"{root}/plan"
    async with aiomqtt.Client(**broker_of(url)) as client:
        await client.subscribe(topic, qos=1)
        if body is not None:
            await client.publish(f"{root}/reports", body, qos=1)
        async for message in client.messages:
            found = bytes(message.payload)
            if body is None:
                return Reply(200, found)
            status, answers = answers_of(found)
            if status >= 400 or {one["id"] for one in reports} <= set(answers):
                return Reply(status, found)
    return Reply(0, b"")
