"""A million devices, links that lose requests and answers, collectors that crash: discrete events.

    python -m benchmarks.collector_simulation --devices 1000000 --seconds 1000

Devices and links are simulated, the stores are real (SQLite). Every report carries a value of its
own, so that a report which is lost or counted twice shows in the exact sums. A device follows
`privest.collect.Device`: it sends until it is answered, with growing pauses, perhaps to another
collector. Time in a collector is that of `COMMIT` and `EACH`, as `benchmarks.collector_load` finds
them.
"""

import argparse
import heapq
import itertools
import json
import random
import tempfile
import time
from pathlib import Path

import numpy as np

from privest.collect import CollectionPlan, Report, merge, open_store, replay

COMMIT, EACH = 0.006, 60e-6  # seconds for a group, and for each of its reports
GROUP, MOST_WAITING = 2000, 10_000  # as in the server
TIMEOUT, LONGEST = 10.0, 60.0  # seconds of a device: for an answer, and between two tries
LATENCY = 0.05  # mean, of a request and of an answer


class Collector:
    """The queue of a collector, and its store."""

    def __init__(self, store):
        self.store, self.waiting, self.group = store, [], None
        self.down_until, self.busy, self.peak, self.life = 0.0, 0, 0, 0


class Simulation:
    """What happens, in order of time."""

    def __init__(
        self, stores, *, devices, each=1, seconds=100.0, lost_requests=0.05, lost_answers=0.05,
        skew=30.0, dying=0.0, crashes=0, most=MOST_WAITING, seed=0,
    ):  # fmt: skip
        self.rng, self.events, self.order = random.Random(seed), [], itertools.count()
        self.collectors, self.most, self.each = [Collector(one) for one in stores], most, each
        self.lost_requests, self.lost_answers, self.dying = lost_requests, lost_answers, dying
        self.devices = devices
        self.attempt, self.start = {}, {}  # of devices that wait for an answer
        self.answered, self.dead, self.seconds = set(), set(), []
        self.requests = self.busy = self.unanswered = 0
        for device in range(devices):  # a clock that is wrong sends early or late
            at = max(0.0, self.rng.uniform(0, seconds) + self.rng.gauss(0, skew))
            self.at(at, self.begin, device)
        for _ in range(crashes):
            self.at(self.rng.uniform(0, 2 * seconds), self.crash, self.rng.choice(self.collectors))

    def at(self, when, work, *given):
        heapq.heappush(self.events, (when, next(self.order), work, given))

    def run(self):
        while self.events:
            self.now, _, work, given = heapq.heappop(self.events)
            work(*given)

    # --- a device ---------------------------------------------------------------------------------

    def reports(self, device):
        """All reports of a device; z is a number that no other report has."""
        numbers = range(device * self.each, (device + 1) * self.each)
        return [Report(f"{k:032x}", f"d{device}", k % self.each, "one", (), k + 1) for k in numbers]

    def begin(self, device):
        self.attempt[device], self.start[device] = 0, self.now
        self.send(device)

    def send(self, device):
        self.attempt[device] += 1
        self.requests += 1
        self.at(self.now + TIMEOUT, self.silent, device, self.attempt[device])
        if self.rng.random() >= self.lost_requests:
            collector = self.rng.choice(self.collectors)
            self.at(self.now + self.rng.expovariate(1 / LATENCY), self.arrive, collector, device)

    def silent(self, device, attempt):
        """No answer in time."""
        if self.attempt.get(device) == attempt:
            self.unanswered += 1
            self.again(device)

    def again(self, device, least=0.0):
        if self.rng.random() < self.dying:
            self.dead.add(device)
            del self.attempt[device], self.start[device]
            return
        pause = min(0.5 * 2 ** (self.attempt[device] - 1), LONGEST) * (0.5 + self.rng.random())
        self.attempt[device] += 1  # the timer of before is over
        self.at(self.now + max(pause, least), self.send, device)

    def answer(self, device, status):
        if device not in self.attempt:
            return  # a late answer to a request that was sent again
        if status == 429:
            self.busy += 1
            self.again(device, 1.0)
            return
        assert status == 201
        self.answered.add(device)
        self.seconds.append(self.now - self.start.pop(device))
        del self.attempt[device]

    def reply(self, device, status):
        if self.rng.random() >= self.lost_answers:
            self.at(self.now + self.rng.expovariate(1 / LATENCY), self.answer, device, status)

    # --- a collector ------------------------------------------------------------------------------

    def arrive(self, collector, device):
        if self.now < collector.down_until:
            return
        if collector.busy + self.each > self.most:
            self.reply(device, 429)
            return
        collector.waiting.append(device)
        collector.busy += self.each
        collector.peak = max(collector.peak, collector.busy)
        if collector.group is None:
            self.commit(collector)

    def commit(self, collector):
        size = max(1, GROUP // self.each)
        collector.group, collector.waiting = collector.waiting[:size], collector.waiting[size:]
        took = COMMIT + EACH * self.each * len(collector.group)
        self.at(self.now + took, self.done, collector, collector.life)

    def write(self, collector):
        reports = [one for device in collector.group for one in self.reports(device)]
        answers = collector.store.add(reports)
        assert all(one.value == 201 for one in answers)

    def done(self, collector, life):
        if life != collector.life:
            return  # it crashed meanwhile
        self.write(collector)
        for device in collector.group:
            self.reply(device, 201)
        collector.busy -= self.each * len(collector.group)
        collector.group = None
        if collector.waiting:
            self.commit(collector)

    def crash(self, collector):
        """Gone before or after its commit, in any case before its answers; back in 5 seconds."""
        if collector.group is not None and self.rng.random() < 0.5:
            self.write(collector)
        collector.life += 1
        collector.group, collector.waiting, collector.busy = None, [], 0
        collector.down_until = self.now + 5.0


def plan(each):
    return CollectionPlan(
        name="simulated", features=(), range=(0.0, 6e4), residual_variance=1.0,
        levels={"one": 1.0}, steps=each,
    )  # fmt: skip


def checked(simulation, whole):
    """Exact sums against the values that were sent; `whole` has the reports of all collectors."""
    stored = [one.z for one in whole.reports()]
    sums = whole.sums().get("one")  # a store without reports has no sums: every device died
    count = 0 if sums is None else sums.count
    assert len(stored) == len(set(stored)) == count
    each = simulation.each
    sent = {device * each + k + 1 for device in simulation.answered for k in range(each)}
    lost = len(sent - set(stored))
    # Sums of z and z² of a set of different whole numbers: a double or a loss shows.
    doubled = 0
    if sums is not None:
        doubled += int(sums.gram[0, 1] // 65536 - sum(stored))
        doubled += int(sums.gram[1, 1] - sum(z * z for z in stored))
    ended = len(simulation.answered) + len(simulation.dead)
    return {
        "devices": simulation.devices, "answered": len(simulation.answered),
        "gave up": len(simulation.dead), "reports counted": count,
        "lost after a 2xx": lost, "difference of the sums": doubled,
        "without an end": simulation.devices - ended, "replay": replay(whole),
    }  # fmt: skip


def run(folder, *, collectors=2, each=1, **options):
    """The counts of a simulation, and what it took."""
    made = plan(each)
    stores = [open_store(Path(folder) / f"{k}.db", made) for k in range(collectors)]
    for one in stores:
        one._run("PRAGMA synchronous = OFF")  # the crashes are simulated
    simulation = Simulation(stores, each=each, **options)
    simulation.run()
    for other in stores[1:]:
        merge(stores[0], other)
    found = checked(simulation, stores[0])
    p50, p95, p99 = np.percentile(simulation.seconds or [np.nan], [50, 95, 99])
    found |= {
        "requests": simulation.requests, "429": simulation.busy,
        "silence": simulation.unanswered,
        "most waiting": max(one.peak for one in simulation.collectors),
        "seconds to the answer, p50 p95 p99": [round(float(p), 3) for p in (p50, p95, p99)],
    }  # fmt: skip
    for one in stores:
        one.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=1_000_000)
    parser.add_argument("--each", type=int, default=1, help="reports of a device, sent as one")
    parser.add_argument("--seconds", type=float, default=1000.0)
    parser.add_argument("--collectors", type=int, default=2)
    parser.add_argument("--lost-requests", type=float, default=0.05)
    parser.add_argument("--lost-answers", type=float, default=0.05)
    parser.add_argument("--dying", type=float, default=0.001)
    parser.add_argument("--crashes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = run(folder, **vars(parser.parse_args()))
    found["minutes"] = round((time.perf_counter() - start) / 60, 1)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
