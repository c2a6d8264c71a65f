"""The set-up of `fig:ppcr`, and mechanisms with their estimators: by name, or your own.

Where the paper's text leaves a choice: the noise of 1/g has the width at which both suprema agree
(`Inverse.calibrated`); the quantiser has triangular dither, as the probabilistic one has infinite
information on its grid; output perturbation acts on (HᵀH)^½ θ̂, where one number calibrates all
directions; H, drawn from [−1, 1]^{10×5}, has a fixed seed. The dynamics-based method
(wang2022decentralized), named and not drawn in the paper, has random gains of mean 1, truncated,
with least squares.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import privest as pv
from privest.arrays import Array, ArrayLike, as_array, as_kind
from privest.data.cells import meant
from privest.errors import InvalidInput, PrivestError
from privest.estimator.likelihood import Likelihood, likelihood_of
from privest.linalg import least_squares, whitening
from privest.mechanism import CATALOGUE, Channel, GaussianMechanism, Mechanism, calibrate

Estimator = Callable[[Array], Array]  # z (trials, q) → θ̂ (trials, n)
Pair = tuple[Mechanism, Estimator]
MakePair = Callable[[pv.LinearModel, float], Pair]
OUTPUT, LINEAR = "-output", "-least-squares"
THETA = np.array([0.63, 0.81, -0.75, 0.83, 0.26])
MEASUREMENTS, DEVIATION, SEED = 10, 0.2, 2025


@dataclass(frozen=True, eq=False)
class Setting:
    """y = Hθ + w, w ~ N(0, σ²I), with the true θ (n,) and σ = `deviation`."""

    model: pv.LinearModel
    theta: Array
    deviation: float


def setting_of(model: pv.LinearModel | None = None, theta: ArrayLike | None = None) -> Setting:
    """A model of white Gaussian noise with the true θ; the paper's where they are not given."""
    if model is None:
        H = np.random.default_rng(SEED).uniform(-1.0, 1.0, size=(MEASUREMENTS, len(THETA)))
        model = pv.LinearModel(H, noise=DEVIATION**2)
    as_kind(model, pv.LinearModel, "model must be a LinearModel")
    truth = as_array(THETA if theta is None else theta, "theta", ndim=1)
    if len(truth) != model.parameters:
        raise InvalidInput(
            f"H has {model.parameters} columns and theta {len(truth)} entries: it needs one for "
            "every column."
        )
    variances = model.covariance.diagonal()
    white = model.covariance.pointwise is not None and np.ptp(variances) == 0
    if not (model.noise.gaussian and white):
        raise InvalidInput("the figure is for white Gaussian noise: LinearModel(H, noise=0.04).")
    return Setting(model, truth, float(np.sqrt(variances[0])))


@dataclass(frozen=True)
class Method:
    """One curve: `pair(model, s)` gives a mechanism within s·I and the estimator for its releases.

    `by_name`: whether `method_of(name)` makes it anew, as other processes do.
    """

    name: str
    label: str
    pair: MakePair = field(repr=False)
    by_name: bool = field(default=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.by_name:
            return method_of, (self.name,)
        return Method, (self.name, self.label, self.pair)


@dataclass(frozen=True, eq=False)
class Linear:
    """An estimator that is linear in z: z @ matrix, (q, n)."""

    matrix: Array

    def __call__(self, z: Array) -> Array:
        return z @ self.matrix


@dataclass(frozen=True, eq=False)
class Likely:
    """Maximum likelihood."""

    matrix: Array
    likelihood: Likelihood

    def __call__(self, z: Array) -> Array:
        found = pv.estimator.maximum_likelihood(self.matrix, z, self.likelihood)
        return np.asarray(found.value)


def _gaussian(model: pv.LinearModel, s: float) -> Pair:
    """The optimal mechanism with weighted least squares (`optM`, `optEst`)."""
    kernel = whitening(pv.PrivacyLevel(s).for_size(model.measurements), model.covariance)
    white = kernel.whiten(np.eye(model.measurements))
    matrix = least_squares(kernel.rows(model.matrix), white)[0].T
    return GaussianMechanism(s, model.measurements), Linear(matrix)


def _likelihood(kind: str | type[Channel], model: pv.LinearModel, s: float) -> Pair:
    """Noise on the measurements, then maximum likelihood."""
    mechanism = calibrate(kind, s, model=model)
    likelihood = likelihood_of(mechanism, float(model.covariance.diagonal()[0]))
    return mechanism, Likely(model.matrix, likelihood)


def _linear(name: str, model: pv.LinearModel, s: float) -> Pair:
    """Noise on the measurements, then least squares as if there were none."""
    matrix = least_squares(model.matrix, np.eye(model.measurements))[0].T
    return calibrate(name, s, model=model), Linear(matrix)


def _output(name: str, model: pv.LinearModel, s: float) -> Pair:
    """Noise on the least-squares estimate, which is then the estimate."""
    mechanism = calibrate(name, s, model=model, on="estimate")
    values, vectors = np.linalg.eigh(model.matrix.T @ model.matrix)
    back = (vectors / np.sqrt(values)) @ vectors.T  # (HᵀH)^-½
    return mechanism, Linear(back)


WAYS: dict[str, tuple[Callable[[str, pv.LinearModel, float], Pair], str]] = {
    OUTPUT: (_output, "on estimate"),
    LINEAR: (_linear, "on data, least squares"),
    "": (_likelihood, "on data, maximum likelihood"),
}


def _from_catalogue(name: str, label: str | None = None) -> Method | None:
    """A channel of the catalogue with the estimator that the end of the name asks for."""
    if name == "gaussian":
        return Method(name, "Gaussian, least squares (optimal)", _gaussian, by_name=True)
    for ending, (way, words) in WAYS.items():
        entry = CATALOGUE.get(name.removesuffix(ending)) if name.endswith(ending) else None
        if entry is not None and entry.channel is not None:
            title = re.sub("laplace|gaussian|cauchy|student", lambda k: k[0].title(), entry.name)
            words = label or f"{title.replace('cos2', 'cos²')} {words}"
            return Method(name, words, partial(way, entry.name), by_name=True)
    return None


INVERSE, QUANTISER = "truncated-inverse-gaussian", f"triangular-quantiser{OUTPUT}"
PAPER: dict[str, str | None] = {
    **dict.fromkeys(("gaussian", "laplace", f"laplace{OUTPUT}", "cauchy", f"cos2{OUTPUT}")),
    INVERSE: "1/Gaussian on data, truncated, maximum likelihood",
    QUANTISER: "quantiser on estimate",
}
GAIN = f"truncated-gain-gaussian{LINEAR}"
LABELS = PAPER | {GAIN: "dynamics-based (random gain), truncated, least squares"}


Given = str | Method | MakePair | type[Channel]


def method_of(given: Given) -> Method:
    """A method by name, as FILE.py:NAME or module:NAME; a kind of channel; (model, s) → pair."""
    if isinstance(given, Method):
        return given
    if not isinstance(given, str):
        return _of_function(given, getattr(given, "__name__", "own method"))
    if ":" in given:
        return _loaded(given)
    found = _from_catalogue(given, LABELS.get(given))
    if found is None:
        raise InvalidInput(_no_such(given))
    return found


def _no_such(name: str) -> str:
    channels = [n for n, entry in CATALOGUE.items() if entry.channel is not None]
    return (
        f"there is no method {name!r}.{meant(name, [*LABELS, *channels])} There are "
        f"{', '.join(LABELS)}; every channel of privest.mechanism.CATALOGUE, also with {OUTPUT} or "
        f"{LINEAR} behind its name; and your own, as FILE.py:NAME."
    )


def _of_function(function: object, name: str, **more: Any) -> Method:  # noqa: ANN401
    if isinstance(function, type) and issubclass(function, Channel):
        words = f"{function.__name__} on data, maximum likelihood"
        return Method(name, words, partial(_likelihood, function), **more)
    if not callable(function):
        raise InvalidInput(
            f"{name} must be a function of (model, s) that returns a mechanism and an estimator; "
            f"it is of type {type(function).__name__}."
        )
    words = (function.__doc__ or "").strip().split("\n")[0].rstrip(".")
    return Method(name, textwrap.shorten(words, 60, placeholder=" …") or name, function, **more)


def _loaded(spec: str) -> Method:
    where, _, name = spec.rpartition(":")
    file = Path(where)
    by_path = file.suffix == ".py"
    if by_path and not file.is_file():
        raise InvalidInput(f"{spec}: there is no file {where}.")
    version = hashlib.sha256(file.read_bytes()).hexdigest()[:16] if by_path else ""
    try:
        own = _from_file(file, version) if by_path else importlib.import_module(where)
    except PrivestError:
        raise
    except Exception as error:
        raise InvalidInput(f"{spec}: {where} failed with {_words(error)}") from error
    if not hasattr(own, name):
        raise InvalidInput(f"{spec}: {where} defines no {name!r}.")
    return _of_function(getattr(own, name), spec, by_name=True)


def _from_file(file: Path, version: str) -> ModuleType:
    """The file as a module, once for every state of it; beside it lies what it may import."""
    name = f"privest_method_{file.stem}_{version}"
    if name not in sys.modules:
        beside = str(file.resolve().parent)
        if beside not in sys.path:
            sys.path.append(beside)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def pair_of(method: Method, model: pv.LinearModel, s: float) -> Pair:
    """The mechanism and the estimator at level s, checked as far as one can without a trial."""
    try:
        made = method.pair(model, s)
    except PrivestError:
        raise
    except Exception as error:
        raise InvalidInput(f"method {method.name} failed with {_words(error)}") from error
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
        raise InvalidInput(f"method {method.name} must return a mechanism and an estimator.")
    if not isinstance(made[0], Mechanism) or made[0].measurements != model.measurements:
        raise InvalidInput(
            f"method {method.name} must return a privest.mechanism.Mechanism for "
            f"{model.measurements} measurements."
        )
    return made


def estimates(method: Method, estimate: Estimator, z: Array, size: int) -> Array:
    try:
        found = np.asarray(estimate(z), dtype=np.float64)
    except PrivestError:
        raise
    except Exception as error:
        raise InvalidInput(f"the estimator of {method.name}: {_words(error)}") from error
    if found.shape != (len(z), size):
        raise InvalidInput(
            f"the estimator of {method.name} must give one row of {size} parameters for each of "
            f"{len(z)} trials; it gave shape {found.shape}."
        )
    if not np.isfinite(found).all():
        raise InvalidInput(f"the estimator of {method.name} gave estimates that are not finite.")
    return found


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
