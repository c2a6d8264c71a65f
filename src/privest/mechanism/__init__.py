"""Mechanisms: the side that sees y and decides what leaves."""

from privest.mechanism.additive import Additive
from privest.mechanism.affine import AffineMechanism
from privest.mechanism.binary import BinaryQuantiser
from privest.mechanism.catalogue import CATALOGUE, ChannelEntry, Entry, VectorEntry
from privest.mechanism.channel import Channel, Worst
from privest.mechanism.gaussian import GaussianMechanism
from privest.mechanism.inverse import Inverse
from privest.mechanism.laplace_quantiser import LaplaceQuantiser
from privest.mechanism.quantiser import ProbabilisticQuantiser, TriangularQuantiser
from privest.mechanism.rotation import GeometricPerturbation, Rotation
from privest.mechanism.stream import StreamMechanism
from privest.mechanism.truncated_inverse import TruncatedInverse
from privest.mechanism.twin_uniform import TwinUniform
from privest.mechanism.user import UserChannel
from privest.mechanism.vector import (
    Componentwise,
    Information,
    Mechanism,
    data_perturbation,
    output_perturbation,
)
from privest.mechanism.weights import PrivacyWeights

__all__ = [
    "CATALOGUE",
    "Additive",
    "AffineMechanism",
    "BinaryQuantiser",
    "Channel",
    "ChannelEntry",
    "Componentwise",
    "Entry",
    "GaussianMechanism",
    "GeometricPerturbation",
    "Information",
    "Inverse",
    "LaplaceQuantiser",
    "Mechanism",
    "PrivacyWeights",
    "ProbabilisticQuantiser",
    "Rotation",
    "StreamMechanism",
    "TriangularQuantiser",
    "TruncatedInverse",
    "TwinUniform",
    "UserChannel",
    "VectorEntry",
    "Worst",
    "data_perturbation",
    "output_perturbation",
]
