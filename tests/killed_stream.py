"""A stream that is killed again and again: `python killed_stream.py FOLDER KIND KILLS SEED`.

The parent forks a worker that takes the stream up from its checkpoint, and kills it (SIGKILL) after
a random time; when the kills are used up, a last worker runs to the end. Every worker appends what
it sends to `sent.jsonl`, one write a line, as a network would: some lines come twice. KIND is that
of the level; "real" and "ledger" have real noise, the latter written down in a ledger too.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg.lapack  # noqa: F401 - loaded once, before the forks

import privest as pv
from privest.mechanism.source import Protected, seeded

STEPS, N = 400, 3


def pair(kind):
    rng = np.random.default_rng(0)
    if kind == "independent":
        level = pv.StreamLevel.constant(2.0)
    elif kind in ("banded", "real", "ledger"):
        level = pv.StreamLevel.constant(2.0, lags=[0.5, -0.3, 0.1])
    else:
        U = 0.1 * np.tril(rng.standard_normal((STEPS, STEPS)), -1)
        level = pv.StreamLevel(rng.uniform(0.5, 2, STEPS), U)
    return pv.StreamMechanism(level), pv.PrivateRLS(level, N, pv.noise.Gaussian(cov=0.5))


def data():
    rng = np.random.default_rng(1)
    H = rng.standard_normal((STEPS, N))
    y = H @ np.ones(N) + rng.standard_normal(STEPS)
    y[::29] = np.nan
    return H, y


def noise(folder, kind, level):
    """Of a seed for one kind, of a numpy generator for the others."""
    if kind == "real":
        return Protected()
    if kind == "ledger":
        ledger = pv.Ledger(folder / "ledger.db", marks=folder / "marks")
        ledger.account("meter", budget=pv.ledger.Budget(level=3.0))  # 2·(1 + 0.35) once, not twice
        return ledger.account("meter").source(
            pv.ledger.cost_of(level), start=0, level=level.fingerprint
        )
    return seeded(7, kind) if kind == "banded" else np.random.default_rng(7)


def work(folder, kind, pace):
    """Take the stream up and go on to its end."""
    H, y = data()
    mechanism, estimator = pair(kind)
    rng = noise(folder, kind, mechanism.level)
    released = mechanism.release if kind in ("real", "ledger") else mechanism.simulate
    sent = os.open(folder / "sent.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def send(release, estimate):
        line = json.dumps([release.to_dict(), estimate]) + "\n"
        os.write(sent, line.encode())

    with pv.Checkpoint(
        folder / "stream.ckpt", mechanism=mechanism, estimator=estimator, source=rng
    ) as kept:
        if kept.resume():
            send(kept.pending, kept.notes["estimate"])
        while mechanism.steps < STEPS:
            k = mechanism.steps
            stop = min(k + 1 + k % 3, STEPS)
            release = released(y[k:stop], rng)
            estimator.update(release, H[k:stop])
            estimate = estimator.value.tolist() if estimator.identifiable else None
            kept.save(pending=release, notes={"estimate": estimate})
            send(release, estimate)
            if pace:
                time.sleep(pace)


def main():
    folder, kind, kills, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    killed = 0
    for _ in range(20 * kills):
        if killed == kills:
            break
        worker = os.fork()
        if worker == 0:
            work(folder, kind, 0.001)
            os._exit(0)
        time.sleep(rng.uniform(0.001, 0.03))
        os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        killed += os.WIFSIGNALED(status)
        if (folder / "stream.ckpt").exists() and finished(folder):
            break
    if not finished(folder):
        work(folder, kind, 0)
    print(killed)


def finished(folder):
    if not (folder / "sent.jsonl").exists():
        return False
    lines = (folder / "sent.jsonl").read_text().splitlines()
    if not lines:  # killed between the first save and the first line
        return False
    release = json.loads(lines[-1])[0]
    return release["start"] + release["steps"] == STEPS


if __name__ == "__main__":
    main()
