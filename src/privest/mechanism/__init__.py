"""Mechanisms: the side that sees y and decides what leaves."""

from typing import TYPE_CHECKING

from privest.lazy import lazy

if TYPE_CHECKING:
    from privest.mechanism import source as source
    from privest.mechanism._additive import Additive, BinaryQuantiser
    from privest.mechanism._catalogue import CATALOGUE, calibrate
    from privest.mechanism._gaussian import GaussianMechanism as GaussianMechanism
    from privest.mechanism._mechanism import Channel, Componentwise, Mechanism
    from privest.mechanism._multiplicative import Gain, Inverse, PrivacyWeights
    from privest.mechanism._multiplicative import TwinUniform as TwinUniform
    from privest.mechanism._quantiser import LaplaceQuantiser, ProbabilisticQuantiser
    from privest.mechanism._rotation import GeometricPerturbation
    from privest.mechanism._stream import StreamMechanism as StreamMechanism
    from privest.mechanism.rows import RowMechanism as RowMechanism
    from privest.mechanism.rows import as_range as as_range
    from privest.mechanism.rows import clip_of as clip_of
    from privest.pipeline import OutputPerturbation
else:
    __getattr__ = lazy(__name__, {
        "_additive": "Additive BinaryQuantiser",
        "_catalogue": "CATALOGUE calibrate",
        "_gaussian": "GaussianMechanism",
        "_mechanism": "Channel Componentwise Mechanism",
        "_multiplicative": "Gain Inverse PrivacyWeights TwinUniform",
        "_quantiser": "LaplaceQuantiser ProbabilisticQuantiser",
        "_rotation": "GeometricPerturbation",
        "rows": "RowMechanism as_range clip_of",
        "_stream": "StreamMechanism",
        "privest.pipeline": "OutputPerturbation",  # it needs an estimator: a package above
    })  # fmt: skip

__all__ = [
    "CATALOGUE", "Additive", "BinaryQuantiser", "Channel", "Componentwise",
    "Gain", "GeometricPerturbation", "Inverse", "LaplaceQuantiser", "Mechanism",
    "OutputPerturbation", "PrivacyWeights", "ProbabilisticQuantiser",
    "calibrate",
]  # fmt: skip
