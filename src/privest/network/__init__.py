"""Networks of sensors: fusion, average consensus on graphs, private averages."""

from privest.network import mpi
from privest.network._consensus import Consensus, average, consensus
from privest.network._fusion import fuse, joint_model
from privest.network._graph import Graph, TimeVarying
from privest.network._sensor import Contribution, Sensor

__all__ = [
    "Consensus", "Contribution", "Graph", "Sensor", "TimeVarying", "average", "consensus", "fuse",
    "joint_model", "mpi",
]  # fmt: skip
