"""The collector over MQTT: sensors publish reports, answers come back on a topic of their own.

    privest/PLAN/reports          bodies as POST /reports takes them, with QoS 1
    privest/PLAN/answers/DEVICE   their answers

PLAN is the first 16 digits of the plan's hash. QoS 1 may deliver twice: a report counts once. A
report without an answer is published again, as one without a 2xx is sent again. Who may publish is
the broker's business: its list of users.
"""

from __future__ import annotations

import json

import aiomqtt
import msgspec

from privest.collect.server import DECODER, Collector, Problem
from privest.errors import InvalidInput


async def listen(collector: Collector, host: str, port: int = 1883) -> None:
    """Take reports from a broker until it is cancelled."""
    root = f"privest/{collector.plan.hash[:16]}"
    name = f"collector-{collector.plan.hash[:16]}"
    async with aiomqtt.Client(host, port, identifier=name, clean_session=False) as client:
        await client.subscribe(f"{root}/reports", qos=1)
        async for message in client.messages:
            try:
                body = DECODER.decode(bytes(message.payload))
                if body.plan != collector.plan.hash:
                    raise Problem(422, "another plan")
                reports = [one.report() for one in body.reports]
                answers = await collector.submit(reports)
            except (msgspec.DecodeError, InvalidInput, Problem, TypeError) as error:
                collector.note_refusal(getattr(error, "status", 400))
                continue
            for report, answer in zip(reports, answers):
                said = json.dumps({"id": report.id, "status": answer.value, "text": answer.text})
                await client.publish(f"{root}/answers/{report.device}", said, qos=1)
