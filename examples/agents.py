"""Agents with their own tables reach the estimate of all: one process each, started by MPI.

    mpiexec -n 8 python -m mpi4py examples/agents.py 'meter-{agent}.csv'

A process opens its own table only (columns load and warm), adds privacy noise once, and talks to
its neighbours on a ring. Its release is on disk before the first message: a run that is started
again after a failure sends the same numbers.
"""

import csv
import sys

import numpy as np

import privest as pv
from privest.mechanism.source import Kept
from privest.network import mpi


def main(pattern: str) -> None:
    comm = mpi.world()
    path = pattern.replace("{agent}", str(comm.rank))
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    H = np.array([[1.0, float(row["warm"])] for row in rows])
    y = np.array([float(row["load"]) for row in rows])
    sensor = pv.network.Sensor(H, 0.25, 4.0)
    release = sensor.release(y, Kept(f"{path}.release", level=4.0))
    ring = pv.network.Graph.ring(comm.size)
    found = mpi.consensus(sensor.contribution(release), ring, names=("load", "1", "warm"))
    if comm.rank == 0:
        print("estimate      ", found.value.round(3).tolist())
        print("standard error", found.standard_error.round(3).tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])
