"""Networks of sensors: fusion, average consensus, private averages; simulation of all agents."""

from privest.network import agent, mpi
from privest.network._agreement import ConsensusResult, Round, consensus, rounds
from privest.network._average import (
    PrivateAverage,
    linear_information,
    masked,
    private_average,
    release_average,
    release_masked,
)
from privest.network._baselines import DampedNoise, DecayingNoise
from privest.network._fusion import Fused, FusionCentre, fuse, fusion_bound
from privest.network._graph import Graph, grid, random_geometric, ring, star
from privest.network._links import Links, Lossy, TimeVarying
from privest.network._sensor import Contribution, Contributions, Sensor, SensorRelease
from privest.network._spectrum import Spectrum, spectrum_of
from privest.network._weights import Weights, metropolis

__all__ = [
    "ConsensusResult", "Contribution", "Contributions", "DampedNoise", "DecayingNoise", "Fused",
    "FusionCentre", "Graph", "Links", "Lossy", "PrivateAverage", "Round", "Sensor",
    "SensorRelease", "Spectrum", "TimeVarying", "Weights", "agent", "consensus", "fuse",
    "fusion_bound", "grid", "linear_information", "masked", "metropolis", "mpi",
    "private_average", "random_geometric", "release_average", "release_masked", "ring", "rounds",
    "spectrum_of", "star",
]  # fmt: skip
