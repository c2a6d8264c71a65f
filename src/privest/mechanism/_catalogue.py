"""Every mechanism that the paper names (`subsec:app_mech`), by name; and calibration to a level."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NoReturn

import numpy as np

from privest import noise
from privest.arrays import ArrayLike, as_array, as_choice, as_count
from privest.errors import InvalidInput, NotCalibratable, NotIdentifiable
from privest.linalg import root_of_rows
from privest.mechanism._additive import Additive, BinaryQuantiser
from privest.mechanism._factor import balanced
from privest.mechanism._gaussian import GaussianMechanism
from privest.mechanism._mechanism import Channel, Componentwise, Mechanism
from privest.mechanism._multiplicative import Gain, Inverse, PrivacyWeights, TwinUniform
from privest.mechanism._quantiser import LaplaceQuantiser, ProbabilisticQuantiser
from privest.mechanism._rotation import GeometricPerturbation
from privest.model import LinearModel
from privest.privacy import PrivacyLevel, as_level

MakeChannel = Callable[[float], Channel]
MakeVector = Callable[[PrivacyLevel | ArrayLike, int], Mechanism]
Target = Literal["data", "estimate"]
AT_ZERO = "its information j/u² is infinite at u = 0 for all noise; truncate= bounds it."
ROTATED = (
    "‖z‖ = ‖y‖ reveals the length of y exactly, infinite information along y. "
    "GeometricPerturbation with a variance adds noise."
)


@dataclass(frozen=True)
class Entry:
    """One mechanism of the paper, before its noise is chosen.

    source      label in the paper, or the work it cites.
    supremum    sup over y of the information, as text.
    unbiased    whether E z = u.
    channel     s → the channel within s, for mechanisms on single numbers.
    vector      (level, measurements) → the mechanism, for those that mix measurements.
    unit        an instance with parameters of order one: a channel, or a function of m.
    """

    name: str
    source: str
    supremum: str
    unbiased: bool
    unit: Channel | Callable[[int], Mechanism]
    channel: MakeChannel | None = None
    vector: MakeVector | None = None

    def example(self, measurements: int) -> Mechanism:
        """An instance with parameters of order one."""
        if isinstance(self.unit, Channel):
            return Componentwise(self.unit, measurements=measurements)
        return self.unit(measurements)


def calibrate(
    kind: str | type[Channel] | MakeChannel,
    level: PrivacyLevel | ArrayLike,
    *,
    model: LinearModel | int,
    on: Target = "data",
) -> Mechanism:
    """The mechanism of a kind with the least noise that keeps I_z(y) ≤ S for every y.

    kind    a name of `CATALOGUE`, a class of channels, or a function s → channel within s.
    model   the model of the measurements, or how many there are.
    on      "data": channels on the measurements. A number or a diagonal S: one channel per
            measurement at its own level; any other S = LLᵀ: unit channels on Lᵀy.
            "estimate": channels on u = (HᵀH)^½ θ̂, within s·I; the estimate is (HᵀH)^-½ z.

    Raises NotCalibratable, with the reason, where no parameters keep the level.

    >>> calibrate("laplace", 4.0, model=3)
    Componentwise(Additive(law=Laplace(scale=0.5)), 3 measurements)
    >>> calibrate("rotation", 4.0, model=3)
    Traceback (most recent call last):
    ...
    privest.errors.NotCalibratable: a random rotation cannot be calibrated: ...
    """
    as_choice(on, ("data", "estimate"), "on")
    entry = CATALOGUE[kind] if isinstance(kind, str) else None
    make = entry.channel if entry is not None else _maker(kind)
    if on == "estimate":
        if make is None or not isinstance(model, LinearModel):
            raise InvalidInput('on="estimate" needs a mechanism for one number and a LinearModel.')
        return _on_estimate(level, model.matrix, make)
    count = (
        model.measurements if isinstance(model, LinearModel) else as_count(model, "model", least=1)
    )
    if make is None:
        assert entry is not None
        assert entry.vector is not None
        return entry.vector(level, count)
    return _on_data(level, count, make)


def _maker(kind: object) -> MakeChannel:
    make = kind.calibrated if isinstance(kind, type) and issubclass(kind, Channel) else kind
    if not callable(make):
        raise InvalidInput(
            "kind must be a name of CATALOGUE, a class of channels or a function of the level; "
            f"received {type(kind).__name__}."
        )
    name = getattr(kind, "__name__", "it")
    try:
        inspect.signature(make).bind(1.0)
    except TypeError as wrong:
        raise InvalidInput(
            f"kind is called with a level alone, but {name}: {wrong}. Give a function of the "
            "level, such as lambda s: Additive.calibrated(s, law=Laplace())."
        ) from None
    return make


def _on_data(level: PrivacyLevel | ArrayLike, count: int, make: MakeChannel) -> Componentwise:
    S = as_level(level).for_size(count)
    if S.pointwise is None:
        return Componentwise(make(1.0), S.factor_rows(np.eye(count)))
    values = S.diagonal()
    if not (values > 0).all():
        raise InvalidInput(
            "a measurement at level 0 must not be released at all: leave it out of the mechanism."
        )
    if (values == values[0]).all():
        return Componentwise(make(float(values[0])), measurements=count)
    return Componentwise([make(float(s)) for s in values])


def _on_estimate(
    level: PrivacyLevel | ArrayLike, matrix: ArrayLike, make: MakeChannel
) -> Componentwise:
    H = as_array(matrix, "H", ndim=2)
    size = np.linalg.norm(H, axis=0)
    root = root_of_rows(H / np.where(size > 0, size, 1.0))
    if root.rank < H.shape[1]:
        raise NotIdentifiable(
            f"H has rank {root.rank} of {H.shape[1]}: there is no single least-squares estimate to "
            "perturb.",
            root.hidden,
        )
    number = as_level(level).number
    if number is None:
        raise InvalidInput("output perturbation needs a level that is one number, s·I.")
    left, _, right = np.linalg.svd(H, full_matrices=False)
    return Componentwise(make(number), right.T @ left.T)


def _refuse(kind: str, why: str, *_: object) -> NoReturn:
    raise NotCalibratable(f"{kind} cannot be calibrated: {why}")


def _truncated_inverse_laplace(s: float) -> Inverse:
    return Inverse.calibrated(s, noise=balanced(noise.Laplace))


def _of(
    name: str, source: str, supremum: str, unit: Channel, *, unbiased: bool = False,
    make: MakeChannel | None = None,
) -> Entry:  # fmt: skip
    return Entry(name, source, supremum, unbiased, unit, channel=make or type(unit).calibrated)


def _additive(name: str, law: noise.Distribution, source: str, supremum: str) -> Entry:
    make = partial(Additive.calibrated, law=law)
    return _of(name, source, supremum, Additive(law), unbiased=law.mean == 0, make=make)


def _binary(name: str, law: noise.Distribution, supremum: str) -> Entry:
    make = partial(BinaryQuantiser.calibrated, law=law)
    return _of(name, "ke2025privacy+quantization", supremum, BinaryQuantiser(law), make=make)


CAUCHY, STEP = "ex:affine; ito2021privacy", "wang2022decentralized"
UNIFORM = ProbabilisticQuantiser(1.0)
_ENTRIES = [
    Entry(
        "gaussian", "thm:opt; dong2022gaussian", "S, everywhere", True,
        partial(GaussianMechanism, 1.0), vector=GaussianMechanism,
    ),
    _additive("laplace", noise.Laplace(), "ex:affine; dwork2009what", "1/b², everywhere"),
    _additive("cauchy", noise.Cauchy(), CAUCHY, "1/2γ², everywhere"),
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
    _of(
        "inverse-gaussian", "ye2024privacy", "∞ at u = 0: (2 + 1/σ²)/u²",
        Inverse(noise.Gaussian(0.25)), make=partial(_refuse, "u/g", AT_ZERO),
    ),
    _of(
        "inverse-laplace", "ye2024privacy", "∞ at u = 0: (1 + 1/b²)/u²",
        Inverse(noise.Laplace(0.25)), make=partial(_refuse, "u/g", AT_ZERO),
    ),
    _of(
        "truncated-inverse-gaussian", "remark:truncation",
        "max(2 + 1/σ², (e^{4/σ²} − 1)/4)/ε², at |u| = ε", Inverse(noise.Gaussian(0.25), 1.0),
    ),
    _of(
        "truncated-inverse-laplace", "remark:truncation",
        "max(1 + 1/b², (⅔e^{2/b} + ⅓e^{−4/b} − 1)/4)/ε², at |u| = ε",
        Inverse(noise.Laplace(0.25), 1.0),
        make=_truncated_inverse_laplace,
    ),
    _of(
        "twin-uniform", "brackenbury2019protecting", "∞: the density jumps",
        TwinUniform(0.25, 0.75), unbiased=True,
    ),
    _of(
        "gain-gaussian", STEP, "∞ at u = 0: (2 + 1/σ²)/u²", Gain(noise.Gaussian(0.25, 1.0)),
        unbiased=True, make=partial(_refuse, "Du", AT_ZERO),
    ),
    _of(
        "gain-uniform", STEP, "∞: the density jumps", Gain(1 + noise.Uniform(0.5)), unbiased=True,
        make=partial(Gain.calibrated, law=1 + noise.Uniform(0.5)),
    ),
    _of(
        "truncated-gain-gaussian", f"{STEP}; remark:truncation",
        "max(2 + 1/σ², (e^{4/σ²} − 1)/4)/ε², at |u| = ε",
        Gain(noise.Gaussian(0.25, 1.0), 1.0), unbiased=True,
    ),
    Entry(
        "rotation", "chen2005privacy", "∞ along y, 0 across", False,
        partial(GeometricPerturbation, variance=0.0),
        vector=partial(_refuse, "a random rotation", ROTATED),
    ),
    _of(
        "privacy-weights", "ke2023differentiated",
        "1/σ² at u = 0 (τ² ≤ ½), else (1 + 2τ²)²/8τ²σ²", PrivacyWeights(1.5, 1.0), unbiased=True,
    ),
    Entry(
        "geometric", "chen2011geometric", "1/σ² along y, as ‖y‖ → ∞", False,
        GeometricPerturbation, vector=GeometricPerturbation.calibrated,
    ),
    _of(
        "probabilistic-quantiser", "liu2026design; wang2023quantization",
        "∞ on the grid: 1/(t(Δ − t))", UNIFORM, unbiased=True,
        make=partial(ProbabilisticQuantiser.calibrated, dither="uniform"),
    ),
    _of(
        "triangular-quantiser", "liu2026design, with a bound", "6/Δ², halfway between grid points",
        ProbabilisticQuantiser(1.0, dither="triangular"), unbiased=True,
    ),
    _of(
        "laplace-quantiser", "lang2023federated", "1/b² for every step, at the edge of a cell",
        LaplaceQuantiser(1.0, 1.0),
    ),
    _binary("binary-gaussian", noise.Gaussian(), "2/πσ², at u = C"),
    _binary("binary-laplace", noise.Laplace(), "1/b², at u = C"),
    _binary("binary-cauchy", noise.Cauchy(), "4/π²γ², at u = C"),
]  # fmt: skip


class Catalogue(dict[str, Entry]):
    """Mechanisms by name."""

    def __missing__(self, name: str) -> Entry:
        raise InvalidInput(f"there is no mechanism {name!r}; there are: {', '.join(self)}.")


CATALOGUE = Catalogue((entry.name, entry) for entry in _ENTRIES)
