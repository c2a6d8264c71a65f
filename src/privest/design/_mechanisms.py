"""Which mechanism serves best at one level: every one of the catalogue, with the same S.

Additive noise d with Fisher information s and variance κ/s, κ = var d · I_d ≥ 1, on a reading with
noise of variance v (1/κ is what least squares keeps of the level):

    least squares        variance v + κ/s: the bound at the level s/κ
    maximum likelihood   information of w + d, at most s/(1 + vs); Gaussian noise attains it
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from privest.arrays import Array, ArrayLike, as_choice
from privest.bounds._classical import in_range, level_for, local_model
from privest.design._smoothed import efficiency
from privest.errors import InvalidInput, NotCalibratable
from privest.linalg import (
    PSD,
    InformationRoot,
    pointwise_weight,
    private_root,
    weighted_roots,
)
from privest.mechanism import CATALOGUE, Additive, Channel, ChannelEntry, Entry, TriangularQuantiser
from privest.mechanism._additive import require_law
from privest.model import LinearModel, NonlinearModel
from privest.noise import GaussianLaw, ScalarLaw
from privest.privacy import PrivacyLevel
from privest.records import Record, as_frame, standard_errors

Estimator = Literal["least squares", "maximum likelihood"]
DISTINCT = 16  # products vs whose efficiencies are worked out; for more of them a polynomial
POLYNOMIAL = 1e-6  # its error, as if the efficiency were analytic within π of real ln vs


@dataclass(frozen=True, eq=False)
class MechanismRanking(Record):
    """Mechanisms at one level, the best first.

    estimator       "least squares" or "maximum likelihood".
    names           of the mechanisms (`mechanism.CATALOGUE`), `parameters` those of θ.
    kappa           (k,): variance × information of the noise, 1 at best; inf: no variance.
    efficiency      (k,): of the information about θ, the part of the bound's (the n-th root of the
                    ratio of determinants: no unit matters). 1/efficiency times the readings are
                    needed.
    standard_error  (k, n): of each parameter; `bound` (n,) the least possible.
    left_out        {name: why it has no rank}: not within any level, or not for this estimator.
    """

    estimator: Estimator
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    kappa: Array
    efficiency: Array
    standard_error: Array
    bound: Array
    left_out: dict[str, str]

    DERIVED = ("best",)

    @property
    def best(self) -> str:
        return self.names[0]

    def explain(self) -> str:
        """The ranking in words, and why the others have no rank."""
        lines = [f"With {self.estimator}, at the same level:"]
        lines += [
            f"{rank}. {name}: {100 * part:.1f} % of the information of the bound, "
            f"{1 / part:.3g} times the readings"
            for rank, (name, part) in enumerate(zip(self.names, self.efficiency), 1)
        ]
        lines += [f"no rank: {name}: {why}" for name, why in self.left_out.items()]
        return "\n".join(lines)

    def frame(self, library: str = "pandas") -> Any:  # noqa: ANN401
        """One row for each mechanism that has a rank."""
        columns: dict[str, Any] = {
            "mechanism": list(self.names),
            "kappa": self.kappa,
            "efficiency": self.efficiency,
        }
        for name, errors in zip(self.parameters, self.standard_error.T):
            columns[f"standard_error {name}"] = errors
        return as_frame(columns, library)

    def __repr__(self) -> str:
        return f"MechanismRanking({self.estimator}: {', '.join(self.names)})"


def rank_mechanisms(
    model: LinearModel | NonlinearModel,
    level: PrivacyLevel | ArrayLike,
    estimator: Estimator = "least squares",
    *,
    laws: Mapping[str, ScalarLaw] | None = None,
    theta: ArrayLike | None = None,
) -> MechanismRanking:
    """Which mechanism of the catalogue loses least at this privacy level (larger shows more)?

    Symbols: `model`, `level` and `theta` as for `bound`; `laws` {name: law} adds additive noise of
    other laws, stretched to the level. "least squares": any noise of finite variance, any level.
    "maximum likelihood": independent Gaussian noise of the readings, levels reading by reading.
    Every mechanism has the least noise that keeps the level. What no choice of parameters keeps
    within a level (infinite information) is named with the reason and never ranked; so is what the
    estimator cannot use, or what depends on where the readings lie (one bit, quantisers with
    maximum likelihood).
    Guarantees: Gaussian noise attains the bound for Gaussian readings (`thm:opt`): none is above 1.
    Of maximum likelihood the figures are those of many readings (its information).
    Numerics: variances and informations are the laws' own; the information of w + d by quadrature
    of its score, to about 1e-8; for more than 16 different v·s a polynomial in ln vs, to 1e-5.

    >>> model = LinearModel(np.ones((10, 1)), noise=1.0)
    >>> found = rank_mechanisms(model, 1.0)
    >>> list(zip(found.names, found.kappa.round(3).tolist()))[:3]
    [('gaussian', 1.0), ('cos2', 1.29), ('bump', 1.485)]
    >>> found.efficiency.round(3).tolist()[:3]  # (v + 1/s)/(v + κ/s)
    [1.0, 0.873, 0.805]
    >>> found.left_out["uniform"]
    'additive noise with Uniform(half_width=1.0) cannot be calibrated: its density jumps, ...
    """
    as_choice(estimator, get_args(Estimator), "estimator")
    local = in_range(local_model(model, theta))
    S = level_for(level, local)
    best = private_root(local.matrix, S, local.inverse_information)
    floor = best.inverse()
    served = (
        _by_least_squares(local, S) if estimator == "least squares" else _by_likelihood(local, S)
    )
    roots: dict[str, tuple[float, InformationRoot]] = {}
    left_out: dict[str, str] = {}
    for name, found in _calibrated(laws or {}).items():
        channel = found if isinstance(found, str) else _usable(found, estimator)
        if isinstance(channel, str):
            left_out[name] = channel
        else:
            roots[name] = _kappa(channel), served(channel)
    part = {name: _part(root, best) for name, (_, root) in roots.items()}
    order = sorted(roots, key=lambda name: -part[name])
    return MechanismRanking(
        estimator=estimator,
        parameters=local.names,
        names=tuple(order),
        kappa=np.array([roots[name][0] for name in order]),
        efficiency=np.array([part[name] for name in order]),
        standard_error=np.array([standard_errors(roots[name][1].inverse()) for name in order]),
        bound=standard_errors(floor),
        left_out=left_out,
    )


def _part(root: InformationRoot, best: InformationRoot) -> float:
    ratio = np.diagonal(root.triangle) / np.diagonal(best.triangle)
    return float(np.exp(2.0 * np.log(np.abs(ratio)).mean()))


def _calibrated(laws: Mapping[str, ScalarLaw]) -> dict[str, Channel | str]:
    """Every mechanism at level 1, or why there is none."""
    found: dict[str, Channel | str] = {}
    for name, entry in CATALOGUE.items():
        try:
            found[name] = _channel(entry)
        except NotCalibratable as refused:
            found[name] = str(refused)
    for name, law in laws.items():
        if name in CATALOGUE:
            raise InvalidInput(
                f"there is a mechanism {name!r} in the catalogue: take another name."
            )
        require_law(law)
        try:
            found[name] = Additive.calibrated(1.0, law=law)
        except NotCalibratable as refused:
            found[name] = str(refused)
    return found


def _channel(entry: Entry) -> Channel | str:
    if entry.name == "gaussian":
        return Additive(GaussianLaw(1.0))
    if isinstance(entry, ChannelEntry):
        return entry.channel(1.0)
    entry.calibrated(1.0, 2)  # says why not, where there is no such mechanism
    return "it mixes the readings: what it leaves of them is no number a reading"


def _usable(channel: Channel, estimator: Estimator) -> Channel | str:
    """The channel, or why this estimator has no figure for it."""
    if estimator == "maximum likelihood":
        if isinstance(channel, Additive):
            return channel
        return "its information depends on where the readings lie: no figure for the level alone"
    if isinstance(channel, TriangularQuantiser):
        return channel
    if not isinstance(channel, Additive):
        return "its release is no reading with noise of one variance: least squares does not apply"
    if not math.isfinite(channel.law.variance):
        return "its noise has no variance: least squares does not settle; maximum likelihood does"
    return channel


def _kappa(channel: Channel) -> float:
    """Variance × information, at level 1."""
    if isinstance(channel, TriangularQuantiser):
        return channel.step**2 / 4 * channel.worst.information
    assert isinstance(channel, Additive)
    variance = channel.law.variance
    return variance * channel.law.fisher_information if math.isfinite(variance) else math.inf


def _by_least_squares(model: LinearModel, S: PSD) -> Callable[[Channel], InformationRoot]:
    """Noise of variance κ on Lᵀy is that of the Gaussian mechanism at the level S/κ."""
    covariance = model.covariance
    return lambda channel: private_root(model.matrix, S.scaled(1.0 / _kappa(channel)), covariance)


def _by_likelihood(model: LinearModel, S: PSD) -> Callable[[Channel], InformationRoot]:
    sigma = model.inverse_information
    if not model.noise.gaussian or S.pointwise is None or sigma.pointwise is None:
        raise InvalidInput(
            "maximum likelihood is ranked for independent Gaussian noise of the readings and a "
            "level for each reading; rank for least squares, or give a diagonal level."
        )
    weight = np.broadcast_to(pointwise_weight(S.pointwise, sigma.pointwise), (model.readings,))
    product = S.diagonal() * sigma.diagonal()

    def root(channel: Channel) -> InformationRoot:
        assert isinstance(channel, Additive)
        return weighted_roots(model.matrix, [weight * _efficiencies(channel.law, product)])[0]

    return root


def _efficiencies(law: ScalarLaw, product: Array) -> Array:
    """Information of w + d over s/(1 + vs), for the law of d at level 1 and each v·s."""
    if isinstance(law, GaussianLaw):
        return np.ones(product.shape)
    found, where = np.unique(product, return_inverse=True)
    shown = found > 0
    part = np.ones(found.shape)
    if shown.sum() <= DISTINCT:
        part[shown] = [efficiency(law, float(x)) for x in found[shown]]
        return part[where]
    ends = np.log(found[shown][[0, -1]])
    # Chebyshev interpolation loses ρ^-degree, ρ of the ellipse that reaches π beside the line.
    ratio = 2.0 * np.pi / (ends[1] - ends[0])
    degree = math.ceil(-math.log(POLYNOMIAL) / math.asinh(ratio))
    fitted = np.polynomial.chebyshev.Chebyshev.interpolate(
        lambda t: np.array([efficiency(law, float(x)) for x in np.exp(t)]), degree, ends
    )
    part[shown] = fitted(np.log(found[shown]))
    return part[where]
