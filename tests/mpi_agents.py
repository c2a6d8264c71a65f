"""One agent of the MPI tests: `mpiexec -n 8 python mpi_agents.py FOLDER SCENARIO …`.

Reads FOLDER/agent-<rank>.npz (its own H, y and noise, nobody else's), makes its release, takes
part, and writes FOLDER/<scenario>-<rank>.npz with its result and every message it sent and heard.
"""

import os
import sys
import time
import traceback
from pathlib import Path

import numpy as np
from mpi4py import MPI

import privest as pv
from privest.errors import PrivestError
from privest.network import Graph, Sensor, mpi
from privest.network._sensor import SensorRelease

ring, star = Graph.ring, Graph.star
SLOW, GONE = 3, 2  # which agent misbehaves, and after how many messages


def complete(agents):
    return Graph([(i, j) for i in range(agents) for j in range(i)], agents)


SCENARIOS = {
    "ring": (ring, {"tolerance": 1e-9}),
    "star": (star, {"method": "plain", "tolerance": 1e-6}),
    "trials": (ring, {"tolerance": 1e-9}),
    "other_readings": (ring, {"tolerance": 1e-9}),
    "slow": (ring, {"tolerance": 1e-9}),
    "different": (complete, {}),
    "hidden": (ring, {}),
    "impatient": (ring, {"tolerance": 1e-9, "max_rounds": 8}),
    "dies": (ring, {"timeout": 1.5}),
    "hangs": (ring, {"timeout": 1.5}),
    "dies_at_once": (ring, {"timeout": 1.5}),
    "kept_dies": (ring, {"timeout": 1.5}),
    "kept": (ring, {}),
}


class Recorder:
    """The only methods of a communicator that agents get: whatever passes is kept."""

    def __init__(self, comm, before):
        self.comm, self.before, self.rank, self.size = comm, before, comm.rank, comm.size
        self.sent, self.heard, self.small = [], [], []

    def Isend(self, buffer, dest, tag):
        self.small.append(buffer)
        return self.comm.Isend(buffer, dest=dest, tag=tag)

    def Irecv(self, buffer, source, tag):
        self.small.append(buffer)
        return self.comm.Irecv(buffer, source=source, tag=tag)

    def Iprobe(self, source, tag):
        return self.comm.Iprobe(source=source, tag=tag)

    def Create_dist_graph_adjacent(self, sources, destinations):
        self.links = self.comm.Create_dist_graph_adjacent(sources, destinations)
        return self

    def Ineighbor_allgather(self, vector, heard):
        self.before(len(self.sent))
        self.sent.append(vector.copy())
        self.heard.append(heard)  # filled when the request is done; a new array every time
        return self.links.Ineighbor_allgather(vector, heard)

    def Free(self):
        self.links.Free()


def misbehave(scenario, rank):
    def before(messages):
        if rank != SLOW:
            return
        if scenario == "slow" and messages % 4 == 0:
            time.sleep(0.1)
        if scenario in ("dies", "kept_dies") and messages == GONE:
            os._exit(0)
        if scenario == "hangs" and messages == GONE:
            time.sleep(600)

    return before


def own_contribution(folder, scenario, rank):
    own = np.load(folder / f"agent-{rank}.npz")
    H, y, e = own["H"], own["y"], own["e"]
    if scenario == "other_readings":  # z̃ = y + e does not change, exactly
        y, e = y + own["shift"], e - own["shift"]
    if scenario == "hidden":
        H = np.column_stack([H[:, 0], H[:, 0]])
    if scenario == "trials":
        y = np.stack([y, 2 * y])
    sensor = Sensor(H, pv.noise.Gaussian(cov=0.5), pv.PrivacyLevel(1.0))
    if scenario.startswith("kept"):
        kept = pv.mechanism.source.Kept(folder / f"{rank}.release")
        return sensor.contribution(sensor.release(y, kept))
    return sensor.contribution(SensorRelease(y + e, sensor.level.fingerprint, simulated=True))


def run(folder, scenario):
    comm = MPI.COMM_WORLD
    comm.Barrier()  # processes start at different times; the short timeouts count from here
    links, arguments = SCENARIOS[scenario]
    if scenario == "different" and comm.rank == 0:
        arguments = {"tolerance": 1e-5}
    if scenario == "dies_at_once" and comm.rank == SLOW:
        os._exit(0)
    recorder = Recorder(comm, misbehave(scenario, comm.rank))
    start, file = time.monotonic(), folder / f"{scenario}-{comm.rank}"
    try:
        found = mpi.consensus(
            own_contribution(folder, scenario, comm.rank),
            links(comm.size),
            comm=recorder,
            **{"timeout": 20.0} | arguments,
        )
    except PrivestError as error:
        seconds = time.monotonic() - start
        file.with_suffix(".txt").write_text(f"{type(error).__name__}\n{seconds}\n{error}")
        np.savez(file.with_suffix(".npz"), sent=recorder.sent)
        return not isinstance(error, mpi.AgentSilent)
    np.savez(
        file.with_suffix(".npz"),
        sent=recorder.sent,
        heard=recorder.heard,
        small=np.concatenate([np.ravel(buffer) for buffer in recorder.small]),
        **{k: v for k, v in vars(found).items() if v is not None and k != "method"},
        standard_error=found.standard_error,
    )
    return True


if __name__ == "__main__":
    try:
        fine = all(run(Path(sys.argv[1]), scenario) for scenario in sys.argv[2:])
    except BaseException:
        traceback.print_exc()
        fine = False
    if not fine:  # MPI_Finalize would wait for the agent that is gone
        time.sleep(1.5)  # mpiexec ends everybody when the first leaves: let all write
        os._exit(3)
