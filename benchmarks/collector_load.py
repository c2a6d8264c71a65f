"""Load on a collector at a constant rate of arrivals, on this machine.

    python -m benchmarks.collector_load --rate 1000 --batch 1 --seconds 30
    python -m benchmarks.collector_load --rate 5000 --batch 100 --seconds 1200

Requests begin when they are due, whether or not those before them are answered; their time counts
from when they were due. So a server that stalls cannot hide it (no coordinated omission). The rate
is in contributions a second; generator and server share the machine.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from privest.collect import load_plan, open_store, replay

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from collector_servers import Served, postgres

PLAN = """
name = "load"
features = ["a", "b"]
range = [0, 2]
residual_variance = 0.04
steps = 1000000000
[levels]
low = 1.0
"""
CONNECTIONS = 64


def body(plan, first, size):
    """A request with reports of its own; each has its own device and value."""
    reports = ",".join(
        f'{{"id":"{k:032x}","device":"d{k % 100_000}","step":{k},"level":"low",'
        f'"features":[{k % 65536},{k * 7 % 65536}],"z":{k % 4096}}}'
        for k in range(first, first + size)
    )
    text = f'{{"plan":"{plan.hash}","reports":[{reports}]}}'.encode()
    head = f"POST /reports HTTP/1.1\r\nhost: c\r\ncontent-length: {len(text)}\r\n\r\n"
    return head.encode() + text


async def answered(reader, writer, request):
    """The status of an answer, on a connection that stays open."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
    return int(head[9:12])


async def load(port, plan, rate, batch, seconds, memory):
    """Seconds from when each request was due to its answer; how often each status came."""
    free, found, statuses = asyncio.Queue(), [], {}
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))

    async def one(due, request):
        connection = await free.get()
        status = await answered(*connection, request)
        found.append(time.perf_counter() - due)
        statuses[status] = statuses.get(status, 0) + 1
        free.put_nowait(connection)

    start, tasks, kept = time.perf_counter(), set(), 0.0
    for k in range(int(seconds * rate / batch)):
        due = start + k * batch / rate
        request = body(plan, k * batch, batch)
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(due, request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if due - kept > 10:
            kept = due
            memory.append(resident(memory.pid))
    await asyncio.gather(*tasks)
    took = time.perf_counter() - start
    while not free.empty():
        free.get_nowait()[1].close()
    return np.array(found), statuses, took


class Memory(list):
    """Resident memory of a process, in MB, now and then."""

    def __init__(self, pid):
        super().__init__()
        self.pid = pid


def resident(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def cpu(pid):
    """Seconds of processor time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder, address, rate, batch, seconds):
    path = Path(folder) / "plan.toml"
    path.write_text(PLAN)
    plan = load_plan(path)
    with Served(path, address) as served:
        asyncio.run(load(served.port, plan, 100, 1, 1, Memory(served.process.pid)))  # warm
        memory = Memory(served.process.pid)
        found, statuses, took = asyncio.run(load(served.port, plan, rate, batch, seconds, memory))
        state, spent = json.loads(served.get("/estimate")), cpu(served.process.pid)
        served.close()
    size = sum(one.stat().st_size for one in Path(folder).glob("c.db*"))
    with open_store(address, plan) as store:
        counted, whole = store.count()[0], replay(store) if seconds <= 120 else "not computed"
    p50, p95, p99 = 1000 * np.percentile(found, [50, 95, 99])
    return {
        "rate": rate, "batch": batch, "seconds": round(took, 1),
        "contributions per second": round(len(found) * batch / took),
        "ms: p50": round(p50, 1), "p95": round(p95, 1), "p99": round(p99, 1),
        "most": round(1000 * found.max(), 1), "statuses": statuses, "counted": counted,
        "sent again": state["again"], "sums are those of the reports": whole,
        "of a million: CPU seconds": round(spent * 1e6 / counted),
        "MB of SQLite": round(size / counted) or None,
        "resident MB: first, last, most": [round(m) for m in (memory[0], memory[-1], max(memory))],
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--postgresql", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.postgresql:
            with postgres() as server:
                found = measure(folder, server.address, asked.rate, asked.batch, asked.seconds)
        else:
            place = str(Path(folder) / "c.db")
            found = measure(folder, place, asked.rate, asked.batch, asked.seconds)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
