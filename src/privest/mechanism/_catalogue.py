"""Every mechanism that the paper names (`subsec:app_mech`), by name.

What the paper leaves open is chosen in the families' own files, with the derivation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from privest import noise
from privest.arrays import ArrayLike
from privest.errors import InvalidInput
from privest.mechanism._additive import Additive, BinaryQuantiser
from privest.mechanism._channel import Channel
from privest.mechanism._gain import Gain, TruncatedGain
from privest.mechanism._gaussian import GaussianMechanism
from privest.mechanism._multiplicative import Inverse, Noise, PrivacyWeights, TwinUniform
from privest.mechanism._quantiser import (
    LaplaceQuantiser,
    ProbabilisticQuantiser,
    TriangularQuantiser,
)
from privest.mechanism._rotation import GeometricPerturbation, Rotation
from privest.mechanism._truncated_inverse import TruncatedInverse
from privest.mechanism._vector import (
    Componentwise,
    Mechanism,
    data_perturbation,
    output_perturbation,
)
from privest.privacy import PrivacyLevel


@dataclass(frozen=True)
class Entry(ABC):
    """One mechanism of the paper, before its noise is chosen.

    source      label in the paper, or the work it cites.
    supremum    sup over y of the information, as text.
    attained    whether some y attains it (else: a limit).
    unbiased    whether E z = u.

    >>> CATALOGUE["laplace"].calibrated(4.0, readings=3)
    Componentwise(Additive(law=Laplace(scale=0.5)), 3 readings)
    >>> CATALOGUE["rotation"].calibrated(4.0, readings=3)
    Traceback (most recent call last):
    ...
    privest.errors.NotCalibratable: a random rotation cannot be calibrated: ...
    """

    name: str
    source: str
    supremum: str
    attained: bool
    unbiased: bool

    @abstractmethod
    def calibrated(self, level: PrivacyLevel | float, readings: int) -> Mechanism:
        """The mechanism with the least noise that keeps I_z(y) ≤ S for every y.

        Raises NotCalibratable, with the reason, where there is none.
        """

    @abstractmethod
    def example(self, readings: int) -> Mechanism:
        """An instance with parameters of order one, calibrated to nothing."""


@dataclass(frozen=True)
class ChannelEntry(Entry):
    """A mechanism for one number: on every reading, or on the least-squares estimate."""

    channel: Callable[[float], Channel]
    unit: Channel

    def calibrated(self, level: PrivacyLevel | float, readings: int) -> Componentwise:
        return data_perturbation(level, readings, self.channel)

    def on_estimate(self, level: PrivacyLevel | float, matrix: ArrayLike) -> Componentwise:
        """Output perturbation: the channel on (HᵀH)^½ θ̂, within s·I."""
        return output_perturbation(level, matrix, self.channel)

    def example(self, readings: int) -> Componentwise:
        return Componentwise(self.unit, readings=readings)


@dataclass(frozen=True)
class VectorEntry(Entry):
    """A mechanism that mixes the readings."""

    make: Callable[[PrivacyLevel | float, int], Mechanism]
    unit: Callable[[int], Mechanism]

    def calibrated(self, level: PrivacyLevel | float, readings: int) -> Mechanism:
        return self.make(level, readings)

    def example(self, readings: int) -> Mechanism:
        return self.unit(readings)


def _channel(
    name: str, source: str, supremum: str, unit: Channel, *, unbiased: bool = False, **fixed: object
) -> ChannelEntry:
    """`fixed`: what calibration needs beside the level. Every supremum of a channel is attained."""
    calibrated: Callable[..., Channel] = type(unit).calibrated
    return ChannelEntry(name, source, supremum, True, unbiased, partial(calibrated, **fixed), unit)


def _additive(name: str, law: noise.ScalarLaw, source: str, supremum: str) -> ChannelEntry:
    return _channel(name, source, supremum, Additive(law), unbiased=law.mean == 0, law=law)


def _truncated(name: str, law: type[Noise], supremum: str) -> ChannelEntry:
    unit = TruncatedInverse(law(0.25), 1.0)
    return _channel(name, "remark:truncation", supremum, unit, law=law)


def _binary(name: str, law: noise.ScalarLaw, supremum: str) -> ChannelEntry:
    return _channel(name, "ke2025privacy+quantization", supremum, BinaryQuantiser(law), law=law)


_ENTRIES: list[Entry] = [
    VectorEntry(
        "gaussian", "coro:ppcr; dong2022gaussian", "S, everywhere", True, True,
        GaussianMechanism.calibrated, lambda m: GaussianMechanism.calibrated(1.0, m),
    ),
    _additive("laplace", noise.Laplace(), "ex:affine; dwork2009what", "1/b², everywhere"),
    _additive("cauchy", noise.Cauchy(), "ex:affine; ito2021privacy", "1/2γ², everywhere"),
    _additive("student-t", noise.StudentT(3.0), "ito2021privacy", "(ν+1)/((ν+3)s²), everywhere"),
    _additive(
        "cos2", noise.CosSquared(), "mech:trigonometry; farokhi2019ensuring", "π²/a², everywhere"
    ),
    _additive(
        "bump", noise.Bump(2.0), "ex:affine; dagan2022bounded", "15.115/a² (p = 2), everywhere"
    ),
    _additive("uniform", noise.Uniform(), "ex:affine; geng2016optimal", "∞: the density jumps"),
    _additive(
        "staircase", noise.Staircase(1.0), "ex:affine; geng2016optimal", "∞: the density jumps"
    ),
    _channel(
        "inverse-gaussian", "ye2024privacy", "∞ at u = 0: (2 + 1/σ²)/u²",
        Inverse(noise.GaussianLaw(0.25)),
    ),
    _channel(
        "inverse-laplace", "ye2024privacy", "∞ at u = 0: (1 + 1/b²)/u²",
        Inverse(noise.Laplace(0.25)),
    ),
    _truncated(
        "truncated-inverse-gaussian", noise.GaussianLaw,
        "max(2 + 1/σ², (e^{4/σ²} − 1)/4)/ε², at |u| = ε",
    ),
    _truncated(
        "truncated-inverse-laplace", noise.Laplace,
        "max(1 + 1/b², (⅔e^{2/b} + ⅓e^{−4/b} − 1)/4)/ε², at |u| = ε",
    ),
    _channel(
        "twin-uniform", "brackenbury2019protecting", "∞: the density jumps",
        TwinUniform(0.25, 0.75), unbiased=True,
    ),
    _channel(
        "gain-gaussian", "wang2022decentralized", "∞ at u = 0: (2 + 1/σ²)/u²",
        Gain(noise.GaussianLaw(0.25, 1.0)), unbiased=True,
    ),
    _channel(
        "gain-uniform", "wang2022decentralized", "∞: the density jumps",
        Gain(1 + noise.Uniform(0.5)), unbiased=True,
    ),
    _channel(
        "truncated-gain-gaussian", "wang2022decentralized; remark:truncation",
        "max(2 + 1/σ², (e^{4/σ²} − 1)/4)/ε², at |u| = ε",
        TruncatedGain(noise.GaussianLaw(0.25, 1.0), 1.0), unbiased=True,
    ),
    VectorEntry(
        "rotation", "chen2005privacy", "∞ along y, 0 across", True, False,
        Rotation.calibrated, Rotation,
    ),
    _channel(
        "privacy-weights", "ke2023differentiated",
        "1/σ² at u = 0 (τ² ≤ ½), else (1 + 2τ²)²/8τ²σ²", PrivacyWeights(1.5, 1.0), unbiased=True,
    ),
    VectorEntry(
        "geometric", "chen2011geometric", "1/σ² along y, as ‖y‖ → ∞", False, False,
        GeometricPerturbation.calibrated, GeometricPerturbation,
    ),
    _channel(
        "probabilistic-quantiser", "liu2026design; wang2023quantization",
        "∞ on the grid: 1/(t(Δ − t))", ProbabilisticQuantiser(1.0), unbiased=True,
    ),
    _channel(
        "triangular-quantiser", "liu2026design, with a bound", "6/Δ², halfway between grid points",
        TriangularQuantiser(1.0), unbiased=True,
    ),
    _channel(
        "laplace-quantiser", "lang2023federated", "1/b² for every step, at the edge of a cell",
        LaplaceQuantiser(1.0, 1.0),
    ),
    _binary("binary-gaussian", noise.GaussianLaw(), "2/πσ², at u = C"),
    _binary("binary-laplace", noise.Laplace(), "1/b², at u = C"),
    _binary("binary-cauchy", noise.Cauchy(), "4/π²γ², at u = C"),
]  # fmt: skip


class Catalogue(dict[str, Entry]):
    """Mechanisms by name; a name that is not there is answered with those that are."""

    def __missing__(self, name: str) -> Entry:
        raise InvalidInput(f"there is no mechanism {name!r}; there are: {', '.join(self)}.")


CATALOGUE = Catalogue((entry.name, entry) for entry in _ENTRIES)
