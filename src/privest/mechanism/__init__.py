"""Mechanisms: the side that sees y and decides what leaves."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.mechanism import source
    from privest.mechanism._additive import Additive, BinaryQuantiser
    from privest.mechanism._affine import AffineMechanism, Runnable, RunningMechanism
    from privest.mechanism._catalogue import CATALOGUE, ChannelEntry, Entry, VectorEntry
    from privest.mechanism._channel import Channel, Worst
    from privest.mechanism._coins import RandomisedResponse
    from privest.mechanism._gain import Gain, TruncatedGain
    from privest.mechanism._gaussian import GaussianMechanism
    from privest.mechanism._multiplicative import Inverse, PrivacyWeights, TwinUniform
    from privest.mechanism._quantiser import (
        LaplaceQuantiser,
        ProbabilisticQuantiser,
        TriangularQuantiser,
    )
    from privest.mechanism._rotation import GeometricPerturbation, Rotation
    from privest.mechanism._stream import StreamMechanism
    from privest.mechanism._truncated_inverse import TruncatedInverse
    from privest.mechanism._user import UserChannel
    from privest.mechanism._vector import (
        Componentwise,
        Information,
        Mechanism,
        data_perturbation,
        output_perturbation,
    )
    from privest.mechanism.rows import RowMechanism as RowMechanism
    from privest.mechanism.rows import as_range as as_range
    from privest.mechanism.rows import clip_of as clip_of
else:
    __getattr__ = lazy(__name__, {
        "_additive": "Additive BinaryQuantiser",
        "_affine": "AffineMechanism Runnable RunningMechanism",
        "_catalogue": "CATALOGUE ChannelEntry Entry VectorEntry",
        "_channel": "Channel Worst",
        "_coins": "RandomisedResponse",
        "_gain": "Gain TruncatedGain",
        "_gaussian": "GaussianMechanism",
        "_multiplicative": "Inverse PrivacyWeights TwinUniform",
        "_quantiser": "LaplaceQuantiser ProbabilisticQuantiser TriangularQuantiser",
        "_rotation": "GeometricPerturbation Rotation",
        "rows": "RowMechanism as_range clip_of",
        "_stream": "StreamMechanism",
        "_truncated_inverse": "TruncatedInverse",
        "_user": "UserChannel",
        "_vector": "Componentwise Information Mechanism data_perturbation output_perturbation",
    })  # fmt: skip

__all__ = [
    "CATALOGUE", "Additive", "AffineMechanism", "BinaryQuantiser", "Channel", "ChannelEntry",
    "Componentwise", "Entry", "Gain", "GaussianMechanism", "GeometricPerturbation", "Information",
    "Inverse", "LaplaceQuantiser", "Mechanism", "PrivacyWeights",
    "ProbabilisticQuantiser", "RandomisedResponse", "Rotation", "Runnable", "RunningMechanism",
    "StreamMechanism", "TriangularQuantiser", "TruncatedGain", "TruncatedInverse", "TwinUniform",
    "UserChannel", "VectorEntry", "Worst", "data_perturbation", "output_perturbation", "source",
]  # fmt: skip
