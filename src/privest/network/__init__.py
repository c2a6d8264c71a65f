"""Networks of sensors: fusion, average consensus on graphs, private averages."""

from privest.network import mpi
from privest.network._average import PrivateAverage, private_average, release_average
from privest.network._consensus import Consensus, consensus
from privest.network._fusion import fuse, joint_model
from privest.network._graph import Graph, TimeVarying
from privest.network._sensor import Contribution, Sensor, SensorRelease

__all__ = [
    "Consensus", "Contribution", "Graph", "PrivateAverage", "Sensor", "SensorRelease",
    "TimeVarying", "consensus", "fuse", "joint_model", "mpi", "private_average",
    "release_average",
]  # fmt: skip
