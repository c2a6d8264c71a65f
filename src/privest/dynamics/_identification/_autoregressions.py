"""Autoregressions and moving averages, with a mean or public regressors."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from privest.arrays import Array, as_flag
from privest.dynamics._identification._affine import AffineFamily, Group, Parameter, as_order
from privest.dynamics._identification._hokalman import SIZE, autoregression, moving_average
from privest.dynamics._identification._levinson import levinson, levinson_slopes
from privest.dynamics._identification._scales import Free, Positive, Stationary
from privest.dynamics._identification._seen import Seen
from privest.errors import NotIdentifiable

NEUTRAL = (0.5, 0.95, -0.5)  # first partial autocorrelations of starts that no moment chose
LOOKED_BACK = (0.8, 0.3, -0.5, 0.97)  # the same where releases look back: their moments mislead
CYCLE = 0.97  # |poles| of an oscillation
LEAST = 0.02  # of the variance, for whatever a start would make nothing of


class ARMA(AffineFamily):
    """y_k = mean + x_k + v_k ,  x_k = Σ φ_jx_{k−j} + w_k + Σ θ_jw_{k−j} ,  var w = q ,  var v = r.

    p, q     orders, not both 0.
    noise    whether the readings have a white error v of their own, beside the release noise, whose
             variance is known. It can be told from w only if q < p.
    mean     whether the mean is estimated; else it is 0.
    Parameters phi1 … , theta1 … , q, then r and mean where asked for; x is stationary from the
    start and the moving average invertible: both polynomials by their partial autocorrelations.

    >>> ARMA(2, 1).names
    ('phi1', 'phi2', 'theta1', 'q', 'mean')
    >>> ARMA(1, 0, mean=False).system([0.5, 0.75]).cov0.tolist()
    [[1.0]]
    """

    def __init__(self, p: int, q: int, *, noise: bool = False, mean: bool = True) -> None:
        self._compose(as_order(p, "p", least=0), as_order(q, "q", least=0), noise, 0, mean)

    def _compose(self, p: int, q: int, noise: bool, regressors: int, mean: bool) -> None:
        """State (x_k, x_{k−1}, …) of the autoregression, C = (1, θ): affine in all parameters."""
        noise, mean = as_flag(noise, "noise"), as_flag(mean, "mean")
        if p + q == 0:
            as_order(p, "the order", least=1)
        if noise and q >= p:
            raise NotIdentifiable(
                f"ARMA({p}, {q}) with a white error of the readings is an ARMA({p}, {max(p, q)}) "
                "again: r cannot be told from the moving average. Leave noise=True out, or take "
                f"fewer terms than {p} in the moving average."
            )
        self.p, self.q, self.noise = p, q, noise
        n, inputs = max(p, q + 1), regressors + mean
        A, C = np.eye(n, k=-1), np.zeros((1, n))
        C[0, 0] = 1.0
        variances = [Parameter("q", (("Q", 0, 0),))]
        coefficients = [Parameter(f"beta{i + 1}", (("D", 0, i),)) for i in range(regressors)]
        if mean:
            coefficients.append(Parameter("mean", (("D", 0, regressors),)))
        groups = [
            Group(
                Stationary(count=n), [Parameter(f"phi{j + 1}", (("A", 0, j),)) for j in range(p)]
            ),
            Group(
                Stationary(moving=True),
                [Parameter(f"theta{j}", (("C", 0, j),)) for j in range(1, q + 1)],
            ),
            Group(Positive(), variances, depth=1),
            Group(Positive(), [Parameter("r", (("R", 0, 0),))] if noise else [], depth=0),
            Group(Free(), coefficients),
        ]
        super().__init__(n, groups, {"A": A, "C": C}, inputs=inputs, constant=bool(mean))
        place = np.arange(n)
        self._apart = np.abs(np.subtract.outer(place, place))

    def _cov0(self, t: Array) -> Array:
        """γ_{|i−j|} of the autoregression."""
        found = levinson(tuple(np.tanh(t[: self.p]).tolist()), self.states)
        scale = math.exp(t[self.p + self.q]) / found.new
        return np.asarray((scale * np.array(found.rho))[self._apart])

    def _cov0_slopes(self, t: Array) -> Array:
        partial, p, place = np.tanh(t[: self.p]), self.p, self.p + self.q
        key = tuple(partial.tolist())
        found = levinson(key, self.states)
        rho, scale = np.array(found.rho), math.exp(t[place]) / found.new
        by: Array = np.zeros((len(t), self.states))
        if self.states == 1:  # γ_0 = q/(1 − r²)
            by[0], by[1] = 2.0 * partial * scale, scale
            return by[:, :, None]
        slopes = levinson_slopes(key, self.states)
        by[:p] = (scale * (1.0 - partial**2))[:, None] * (
            slopes.rho - np.outer(rho, slopes.new / found.new)
        ).T
        by[place] = scale * rho
        return np.asarray(by[:, self._apart])

    def __repr__(self) -> str:
        return f"ARMA({self.p}, {self.q}{_options(self.noise, 'noise')}{_mean(self.constant)})"

    def _begin(self, seen: Seen) -> list[Array]:
        left, coefficients = seen.without_inputs()
        found = []
        if not seen.coloured:
            gamma = left.autocovariances(2 * max(SIZE, self.p + 2) + self.q)
            gamma[0] = left.signal
            phi = self._poles(gamma)
            if phi is not None:
                found.append(self._completed(phi, self._moving(phi, gamma), gamma))
        for phi, theta in self._neutral(left):
            found.append(self._completed(phi, theta, np.array([left.signal])))
        return [np.concatenate([part, coefficients]) for part in found]

    def _neutral(self, seen: Seen) -> Iterator[tuple[Array, Array]]:
        """φ and θ that no moment chose, and an oscillation where the periodogram has its peak."""
        for first in LOOKED_BACK if seen.coloured else NEUTRAL:
            phi, theta = np.zeros(self.p), np.zeros(self.q)
            (phi if self.p else theta)[0] = first
            if self.p > 1 and first < 0:
                phi[:2] = 2 * CYCLE * math.cos(seen.strongest()), -(CYCLE**2)
            yield phi, theta

    def _poles(self, gamma: Array) -> Array | None:
        """φ by lags ≥ 1, after those that the moving average reaches."""
        return autoregression(gamma[max(1, self.q - self.p + 1) :], self.p) if self.p else gamma[:0]

    def _moving(self, phi: Array, gamma: Array) -> Array:
        """θ from the autocovariances of φ(B)y."""
        if not self.q or len(gamma) <= self.q + self.p:
            return np.zeros(self.q)
        poly = np.concatenate([[1.0], -phi])
        both = np.convolve(poly, poly[::-1])  # of lags −p … p
        lags = np.abs(np.add.outer(np.arange(self.q + 1), np.arange(-self.p, self.p + 1)))
        return 0.95 * moving_average(gamma[lags] @ both)  # 0.95: inside, also where a root is at 1

    def _completed(self, phi: Array, theta: Array, gamma: Array) -> Array:
        """θ with q (and r) from the autocovariances γ_0 (corrected), γ_1, …; none is nothing."""
        unit = self._unit_autocovariances(phi, theta, len(gamma))
        share = 0.5 if self.noise else 1.0
        lags = unit[1:]
        if self.noise and len(lags) and float(lags @ lags) > 1e-4 * unit[0] ** 2:
            q = float(gamma[1:] @ lags) / float(lags @ lags)
        elif len(lags) and not self.noise:  # γ_0 varies twice as much as the others
            weight = np.concatenate([[0.5], np.ones(len(lags))])
            q = float((weight * gamma) @ unit) / float((weight * unit) @ unit)
        else:
            q = share * float(gamma[0] / unit[0])
        most = float(gamma[0] / unit[0])
        q = min(max(q, LEAST * most), most / LEAST)
        r = [max(float(gamma[0] - q * unit[0]), LEAST * float(gamma[0]))] if self.noise else []
        return np.concatenate([phi, theta, [q], r])

    def _unit_autocovariances(self, phi: Array, theta: Array, count: int) -> Array:
        """γ_0, γ_1, … of x for q = 1."""
        partial = np.tanh(Stationary().working(phi, self.names[: self.p])).tolist()
        found = levinson(tuple(partial), count + self.q)
        weights = np.concatenate([[1.0], theta])
        both = np.convolve(weights, weights[::-1])  # of lags −q … q
        lags = np.abs(np.add.outer(np.arange(count), np.arange(-self.q, self.q + 1)))
        return np.asarray(np.array(found.rho)[lags] @ both / found.new)


class AR(ARMA):
    """y_k = mean + x_k + v_k ,   x_k = Σ φ_jx_{k−j} + w_k ,   var w = q ,   var v = r.

    order    1, 2, …
    noise    whether the readings have a white error v of their own, beside the release noise.
    mean     whether the mean is estimated; else it is 0.
    Parameters phi1 … , q, then r and mean where asked for; x is stationary from the start.

    >>> AR(2).names, AR(1, noise=True, mean=False).names
    (('phi1', 'phi2', 'q', 'mean'), ('phi1', 'q', 'r'))
    """

    def __init__(self, order: int, *, noise: bool = False, mean: bool = True) -> None:
        self._compose(as_order(order, "the order", least=1), 0, noise, 0, mean)

    def __repr__(self) -> str:
        return f"AR({self.p}{_options(self.noise, 'noise')}{_mean(self.constant)})"


class RegressionAR(ARMA):
    """y_k = h_kβ + x_k + v_k with public rows h_k (inputs=H, a column for each β_i), AR error x.

    x_k = Σ φ_jx_{k−j} + w_k, var w = q, stationary. A constant is a column of ones in H, or
    mean=True. Parameters phi1 … , q, r (with noise=True), beta1 … , mean (with mean=True).

    >>> RegressionAR(1, 2).names
    ('phi1', 'q', 'beta1', 'beta2')
    """

    def __init__(
        self, order: int, regressors: int = 1, *, noise: bool = False, mean: bool = False
    ) -> None:
        columns = as_order(regressors, "regressors", least=1)
        self._compose(as_order(order, "the order", least=1), 0, noise, columns, mean)

    def __repr__(self) -> str:
        columns = self.inputs - self.constant
        mean = _options(self.constant, "mean")
        return f"RegressionAR({self.p}, {columns}{_options(self.noise, 'noise')}{mean})"


def _options(given: bool, name: str) -> str:
    return f", {name}=True" if given else ""


def _mean(given: bool) -> str:
    return "" if given else ", mean=False"
