"""Gather measurements that get their noise on many devices, and estimate from them.

plan.py     what is asked of devices: public features, range and levels; reports as whole numbers
device.py   the device: exact noise, its own ledger and budget, an outbox
store.py    reports and their sums in SQLite or PostgreSQL
server.py   the collector over HTTP; mqtt.py: over MQTT
estimate.py θ̂, its intervals and the bound from the sums

Names here may still change: they are not part of the promise of 1.x.
"""

from privest.collect.device import Device, in_process
from privest.collect.estimate import Collected, estimate
from privest.collect.plan import CollectionPlan, Report, Sums, load_plan
from privest.collect.store import Answer, SqlStore, merge, open_store, replay, running_sums

__all__ = [
    "Answer", "Collected", "CollectionPlan", "Device", "Report", "SqlStore", "Sums", "estimate",
    "in_process", "load_plan", "merge", "open_store", "replay", "running_sums",
]  # fmt: skip
