"""Autoregressions driven by public inputs."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.dynamics._identification._affine import AffineFamily, Group, Parameter, as_order
from privest.dynamics._identification._autoregressions import LEAST, NEUTRAL
from privest.dynamics._identification._hokalman import stable
from privest.dynamics._identification._scales import Free, Positive, Stationary
from privest.dynamics._identification._seen import Part, Seen
from privest.errors import InvalidInput


class ARX(AffineFamily):
    """y_k = Σ_{j≤order} φ_jy_{k−j} + Σ_{l≤lags} b_lᵀu_{k−d−l+1} + w_k ,   var w = q.

    inputs   columns of the public u (K, inputs): inputs= of the fit.
    lags     how many steps of each input act on a reading; the first acts after
    delay    d = 1 (default, the control engineer's) or 0 steps (u_k acts on y_k itself).
    noise    whether a white error of variance r is added to the readings, beside release noise.
    mean     whether y and u act about a level of y that is estimated, y − mean in place of y.
    Parameters phi1 … , q, r, b1 … (b2.3: lag 2 of input 3, where there are several), mean. The
    autoregression is stable; of x_0 nothing is known, so that without release noise the estimate
    is least squares on the rows k ≥ max(order, lags).

    >>> ARX(2, 2, lags=2).names
    ('phi1', 'phi2', 'q', 'b1.1', 'b1.2', 'b2.1', 'b2.2')
    """

    def __init__(
        self, order: int, inputs: int = 1, *, lags: int = 1, delay: int = 1, noise: bool = False,
        mean: bool = False,
    ) -> None:  # fmt: skip
        self.order = as_order(order, "the order", least=1)
        columns, self.lags = as_order(inputs, "inputs", least=1), as_order(lags, "lags", least=1)
        self.delay, self.noise = as_order(delay, "delay", least=0), bool(noise)
        if self.delay > 1:
            raise InvalidInput(
                f"delay must be 0 or 1; received {delay}. Shift the inputs for a longer one, or "
                "take more lags."
            )
        n = max(self.order, self.lags)
        # Observer form: x_{k+1} = φy_k + (shifted x_k) + B u_k + w, y = x_1. The state after k is
        # what earlier steps add to each later reading, so that x_0 absorbs what is before step 0.
        C = np.zeros((1, n))
        C[0, 0] = 1.0
        gains = [
            Parameter(f"b{lag + 1}" + (f".{i + 1}" if columns > 1 else ""), (("B", lag, i),))
            for lag in range(self.lags)
            for i in range(columns)
        ]
        if mean:
            gains.append(Parameter("mean", (("D", 0, columns),)))
        groups = [
            Group(
                Stationary(), [Parameter(f"phi{j + 1}", (("A", j, 0),)) for j in range(self.order)]
            ),
            Group(Positive(), [Parameter("q", (("Q", 0, 0),))], depth=1),
            Group(Positive(), [Parameter("r", (("R", 0, 0),))] if noise else [], depth=0),
            Group(Free(), gains),
        ]
        super().__init__(
            n, groups, {"A": np.eye(n, k=1), "C": C}, inputs=columns + bool(mean), diffuse=True,
            constant=bool(mean),
        )  # fmt: skip

    def __repr__(self) -> str:
        said = [f"{self.order}, {self.inputs - self.constant}"]
        said += [f"lags={self.lags}"] if self.lags > 1 else []
        said += ["delay=0"] if self.delay == 0 else []
        said += ["noise=True"] if self.noise else []
        said += ["mean=True"] if self.constant else []
        return f"ARX({', '.join(said)})"

    def _delayed(self, inputs: Array) -> Array:
        """B u_k leads to step k + 1: without delay it is the input of that step."""
        if self.delay:
            return inputs
        return np.concatenate([inputs[1:], np.zeros((1, inputs.shape[1]))])

    def _begin(self, seen: Seen) -> list[Array]:
        """By instruments, by least squares, and neutral.

        Least squares on past readings is ruined by their noise. Readings before those, and inputs,
        have no part in it: instruments.
        """
        rows = [_rows(part, self.order, self.lags, self.constant) for part in seen.parts]
        y, X, Z, noise = (np.concatenate(piece) for piece in zip(*rows))
        p, found = self.order, []
        if len(y) > Z.shape[1]:
            fitted = np.asarray(Z @ np.linalg.lstsq(Z, X, rcond=None)[0])
            found.append(stable(np.linalg.lstsq(fitted, y, rcond=None)[0][:p]))
        found += [np.concatenate([[first], np.zeros(p - 1)]) for first in NEUTRAL]
        return [self._completed(phi, y, X, noise, seen) for phi in found]

    def _completed(self, phi: Array, y: Array, X: Array, noise: Array, seen: Seen) -> Array:
        """θ with gains by least squares on the inputs and what is left as variances."""
        p = self.order
        driven = y - X[:, :p] @ phi
        rest = np.zeros(X.shape[1] - p)
        own, added = seen.variance, 1.0 + float(phi @ phi)
        if len(y) > len(rest):
            rest = np.linalg.lstsq(X[:, p:], driven, rcond=None)[0]
            left = float(np.square(driven - X[:, p:] @ rest).mean())
            own = max(left - added * float(noise.mean()), LEAST * left) or own
        variances = [own / 2, own / (2 * added)] if self.noise else [own]
        if self.constant:
            rest[-1] /= 1.0 - phi.sum()  # the equation has (1 − Σφ)·mean
        return np.concatenate([phi, variances, rest])


def _rows(part: Part, order: int, lags: int, constant: bool) -> tuple[Array, Array, Array, Array]:
    """y_k, [y_{k−1} …, u_{k−1} …, 1], instruments, and release noise, where all are seen."""
    K, columns = len(part.weight), part.columns[:, : part.columns.shape[1] - constant]
    further = order + 2
    reach = order + further if 4 * (order + further) < K else order
    first = max(reach, lags)
    if first >= K:
        size = order + lags * columns.shape[1] + constant
        return np.zeros(0), np.zeros((0, size)), np.zeros((0, size)), np.zeros(0)
    when = np.arange(first, K)
    past = [when - j for j in range(1, reach + 1)]
    there = (part.weight[when] > 0) & np.all([part.weight[at] > 0 for at in past], axis=0)
    when = when[there]
    inputs = [columns[when - lag] for lag in range(1, lags + 1)]
    ones = [np.ones((len(when), 1))] if constant else []
    every = []
    for y in part.readings.T:
        own = [y[when - j][:, None] for j in range(1, order + 1)]
        before = [y[when - j][:, None] for j in range(order + 1, reach + 1)]
        past_inputs = [columns[when - lag] for lag in range(lags + 1, min(first, lags + order) + 1)]
        X = np.concatenate([*own, *inputs, *ones], axis=1)
        Z = np.concatenate([*before, *inputs, *past_inputs, *ones], axis=1)
        every.append((y[when], X, Z, part.noise[when]))
    y, X, Z, noise = (np.concatenate(piece) for piece in zip(*every))
    return y, X, Z, noise
