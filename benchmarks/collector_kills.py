"""kill -9 under load: collectors, their database and devices, again and again.

    python -m benchmarks.collector_kills --kills 50

Devices are `privest contribute` in processes of their own, which send a file each. Whatever is
killed is started again. At the end every report that a device drew is in the store, once, as it was
drawn: the outboxes of the devices say what was drawn and what had an answer.
"""

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from privest.collect import load_plan, open_store, replay

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from collector_servers import Served, postgres

PLAN = """
name = "kills"
features = ["hour"]
range = [0, 2]
residual_variance = 0.04
steps = 1000
[levels]
low = 1.0
"""
ROWS, CLIENTS = 150, 3


class Client:
    """A device that sends its file, as often as it takes."""

    def __init__(self, folder, url, number):
        self.name, self.folder, self.url = f"m{number}", folder, url
        lines = [f"{k / 256},{(k * 37 % 100) / 50}" for k in range(ROWS)]
        (folder / f"{self.name}.csv").write_text("\n".join(["hour,load", *lines]) + "\n")
        self.start()

    def start(self):
        command = [
            sys.executable, "-m", "privest", "contribute", self.url, f"{self.name}.csv",
            "--target", "load", "--features", "hour", "--device", self.name, "--budget", "1",
            "--ledger", f"{self.name}.db",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def ended(self):
        """True: its file is sent; started again where it gave up."""
        code = self.process.poll()
        if code not in (None, 0):
            self.start()
        return code == 0


def run(folder, address, kills, seed, server=None):
    """Counts after so many kills, of the collector, a device, and the database where it is one."""
    folder, rng = Path(folder), random.Random(seed)
    path = folder / "plan.toml"
    path.write_text(PLAN)
    plan, served = load_plan(path), Served(path, address)
    clients = [Client(folder, served.url, k) for k in range(CLIENTS)]
    made, done, killed = CLIENTS, [], {"collector": 0, "device": 0, "database": 0}
    while sum(killed.values()) < kills:
        time.sleep(rng.uniform(0.2, 2.0))
        for k, client in enumerate(clients):
            if client.ended():  # another device in its place: the load goes on
                done.append(client)
                clients[k], made = Client(folder, served.url, made), made + 1
        kind = rng.choice(
            ["collector", "device", "database"] if server else ["collector", "device"]
        )
        killed[kind] += 1
        if kind == "collector":
            served.kill()
            served = Served(path, address, port=served.port)
        elif kind == "device":
            rng.choice(clients).kill()
        else:
            server.kill()
            server.start()
    end = time.monotonic() + 300
    while sum(client.ended() for client in clients) < CLIENTS and time.monotonic() < end:
        time.sleep(0.2)
    assert served.close() == 0
    return {"killed": killed, **compared(folder, address, plan, [*done, *clients])}


def compared(folder, address, plan, clients):
    """The store against the outboxes: what was drawn, what had an answer."""
    drawn, answered = {}, set()
    for client in clients:
        with sqlite3.connect(folder / f"{client.name}.db.outbox") as box:
            for step, z, answer in box.execute("SELECT step, z, answer FROM outbox"):
                drawn[client.name, step] = z
                if answer == 201:
                    answered.add((client.name, step))
        box.close()
    with open_store(address, plan) as store:
        reports = list(store.reports())
        stored = {(one.device, one.step): one.z for one in reports}
        return {
            "devices": len(clients), "drawn": len(drawn), "answered": len(answered),
            "in the store": len(reports), "lost after a 2xx": len(answered - set(stored)),
            "doubled": len(reports) - len(stored), "as drawn": stored == drawn,
            "sums are those of the reports": replay(store),
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with postgres() as server, tempfile.TemporaryDirectory() as folder:
        found = run(folder, server.address, asked.kills, asked.seed, server)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
