"""What the literature does for private averages: noise in every round. To compare with `average`.

Both are written with messages m_k = x_k + η_k and a public W, so that what an eavesdropper of all
messages learns has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_choice, as_count, as_number, as_positive
from privest.errors import InvalidInput
from privest.mechanism.source import require_room
from privest.network._sensor import one_each
from privest.network._weights import Weights


@dataclass(frozen=True)
class DecayingNoise:
    """Independent noise that decays: η_i,k ~ law of scale b_i q^k.

        m_k = x_k + η_k ,   x_{k+1} = x_k − (I − W) m_k + g η_k

    Symbols: scale b (number or (N,)), decay q in (0, 1), `kept` g in (0, 1]: how much of its own
    noise an agent keeps; law "laplace" (scale b) or "gaussian" (deviation b).
    The value agreed on moves by g·mean(η_k) every round, so (v = 2 Laplace, 1 Gaussian)

        MSE = (1/N²) Σ_i v g² b_i²/(1 − q²)
        I_Z(Y) = diag( (1/b_i²) Σ_k ((1 − g)/q)^{2k} ) = diag( 1/(b_i²(1 − ((1 − g)/q)²)) )

    since x_k = (1 − g)^k y + what the messages tell. Finite only for q > 1 − g, the condition of
    Nozari, Tallapragada and Cortés (Automatica 2017) for ε-differential privacy; their ε is
    `epsilon`. At equal I_Z(Y) the MSE is `inefficiency` ≥ v times `coro:consensus`:
    Laplace noise costs a factor 2 at best. (Gaussian noise with q² = 1 − g attains the floor too.)
    With Laplace noise I_Z(Y) is the same sum: independent additive noise of information 1/(b q^k)²,
    and x_k is a function of y and the messages before.
    """

    scale: ArrayLike
    decay: float
    kept: float = 1.0
    law: Literal["laplace", "gaussian"] = "laplace"

    def __post_init__(self) -> None:
        if not (as_array(self.scale, "scale", ndim=(0, 1)) > 0).all():
            raise InvalidInput("scale must be > 0.")
        if not 0.0 < as_number(self.decay, "decay") < 1.0:
            raise InvalidInput(f"decay must lie in (0, 1); received {self.decay:g}.")
        if not 0.0 < as_number(self.kept, "kept") <= 1.0:
            raise InvalidInput(f"kept must lie in (0, 1]; received {self.kept:g}.")
        as_choice(self.law, ("laplace", "gaussian"), "law")

    @property
    def _unit_variance(self) -> float:
        return 2.0 if self.law == "laplace" else 1.0

    def _scales(self, agents: int) -> Array:
        """b_i, (N,)."""
        return one_each(np.asarray(self.scale, dtype=float), agents, "scales")

    def information(self, agents: int) -> Array:
        """diag I_Z(Y), (N,): all messages of all rounds; inf where q ≤ 1 − g."""
        step = ((1.0 - self.kept) / self.decay) ** 2
        total = 1.0 / (1.0 - step) if step < 1.0 else np.inf
        return total / self._scales(agents) ** 2

    def mean_square_error(self, agents: int) -> float:
        """Of the agreed value around the true average."""
        squared = self._scales(agents) ** 2
        spent = self._unit_variance * self.kept**2 / (1.0 - self.decay**2)
        return float(spent * squared.sum() / agents**2)

    @property
    def inefficiency(self) -> float:
        """MSE over the floor `coro:consensus` at the same I_Z(Y)."""
        step = ((1.0 - self.kept) / self.decay) ** 2
        if step >= 1.0:
            return float("inf")
        return self._unit_variance * self.kept**2 / ((1.0 - self.decay**2) * (1.0 - step))

    def epsilon(self, move: float) -> Array:
        """ε of pure differential privacy of each agent's value moving by `move`; Laplace only.

        (move/b) q/(q − (1 − g)): Σ_k move (1 − g)^k/(b q^k). Infinite for Gaussian noise.
        """
        size = as_positive(move, "move") / np.asarray(self.scale, dtype=float)
        room = self.decay - (1.0 - self.kept)
        if self.law == "gaussian" or room <= 0:
            return np.full(np.shape(size), np.inf)
        return np.asarray(size * self.decay / room)

    def simulate(
        self, y: ArrayLike, weights: Weights, rng: np.random.Generator, rounds: int
    ) -> Array:
        """x after so many rounds, the shape of y: (N,) or (trials, N)."""
        now = _columns(y, weights, rounds)
        scale = self._scales(weights.agents)[:, None]
        require_room(now, scale)
        draw = rng.laplace if self.law == "laplace" else rng.normal
        for k in range(rounds):
            noise = draw(0.0, 1.0, now.shape) * (scale * self.decay**k)
            message = now + noise
            now = now - message + weights.matrix @ message + self.kept * noise
        return now.T.reshape(np.shape(y))


@dataclass(frozen=True)
class DampedNoise:
    """Exponentially damped noise that cancels (Mo and Murray, IEEE TAC 2017).

        x_{k+1} = W (x_k + η_k) ,  η_0 = v_0 ,  η_k = φ^k v_k − φ^{k−1} v_{k−1} ,  v_k ~ N(0, σ²)

    The noise sums to zero: the average is exact, MSE = 0. What that costs: an eavesdropper of all
    messages knows x_{k+1} = W m_k, hence η_1, η_2, …, and their sum −v_0 + φ^K v_K: after K rounds

        I_Z(Y) = (1/σ²) Σ_{k ≤ K} φ^{−2k} · I        → ∞ : the readings are revealed exactly.

    (The paper's privacy is against a neighbour that does not hear everything.)
    """

    deviation: float
    damping: float

    def __post_init__(self) -> None:
        as_positive(self.deviation, "deviation")
        if not 0.0 < as_number(self.damping, "damping") < 1.0:
            raise InvalidInput(f"damping must lie in (0, 1); received {self.damping:g}.")

    def information(self, agents: int, rounds: int) -> Array:
        """diag I_Z(Y), (N,), of the messages m_0 … m_rounds."""
        powers = self.damping ** (-2.0 * np.arange(rounds + 1))
        return np.full(agents, powers.sum() / self.deviation**2)

    def simulate(
        self, y: ArrayLike, weights: Weights, rng: np.random.Generator, rounds: int
    ) -> Array:
        """x after so many rounds, the shape of y: (N,) or (trials, N)."""
        now = _columns(y, weights, rounds)
        require_room(now, self.deviation)
        before: Array = np.zeros_like(now)
        for k in range(rounds):
            fresh = self.damping**k * rng.normal(0.0, self.deviation, now.shape)
            now = weights.matrix @ (now + fresh - before)
            before = fresh
        return now.T.reshape(np.shape(y))


def _columns(y: ArrayLike, weights: Weights, rounds: int) -> Array:
    """y (N, trials). After no round at all the "result" would be y itself."""
    as_count(rounds, "rounds", least=1)
    given = as_array(y, "the agents' values", ndim=(1, 2))
    if given.shape[-1] != weights.agents:
        raise InvalidInput(
            f"the weights are for {weights.agents} agents; received values of shape {given.shape}."
        )
    return np.ascontiguousarray(given.reshape(-1, weights.agents).T)
