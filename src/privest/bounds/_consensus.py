"""The floor on private average consensus (`coro:consensus`, in its joint form)."""

from __future__ import annotations

import numpy as np

from privest.arrays import ArrayLike, as_count
from privest.bounds._classical import require_size
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg import Blocks
from privest.linalg.tolerances import IN_RANGE
from privest.privacy import PrivacyLevel, as_level


def consensus_bound(level: PrivacyLevel | ArrayLike, agents: int | None = None) -> float:
    """The least mean-square error of an agreed value around the true average of N agents.

        E(ȳ − (1/N)Σ y_i)² ≥ 1ᵀS⁺1 / N²        ( = (1/N²) Σ 1/S_i  for S = diag(S_i) )

    `level` S (N×N) in I_Z(Y) ≤ S, Z everything sent over the network; `agents` N for a number.
    The constraint is joint: under [I_Z(Y)]_ii ≤ S_i alone correlated noise beats this by up to a
    factor N. Attained by adding d_i ~ N(0, 1/S_i) once to y_i, then exact averaging. Raises
    NotIdentifiable if a singular S hides the average.
    Source: `coro:consensus` (printed for S = diag(S_i)).

    >>> consensus_bound(PrivacyLevel([1.0, 2.0]))
    0.375
    >>> consensus_bound(4.0, agents=10)
    0.025
    """
    given = as_level(level)
    count = _agents(given, agents)
    s = given.for_size(count)
    require_size(s, "the level")
    if s.pointwise is None:
        assert isinstance(s, Blocks)
        return _shortest(s) / count**2
    values = s.diagonal()
    if not (values > 0).all():
        raise NotIdentifiable(
            f"Agent {int(values.argmin())} reveals nothing (level 0): no network can agree on "
            "the exact average."
        )
    return float((1.0 / values).sum() / count**2)


def _agents(level: PrivacyLevel, agents: int | None) -> int:
    count = level.size if agents is None else as_count(agents, "agents", least=1)
    if count is None:
        raise InvalidInput("A level given as a number needs the number of agents: agents=N.")
    if level.size not in (None, count):
        raise InvalidInput(f"The level is for {level.size} agents; received agents={count}.")
    return count


def _shortest(level: Blocks) -> float:
    """1ᵀS⁺1 = ‖u‖² for the shortest u with L u = 1; no such u, no average."""
    total = 0.0
    for factor in level.factors:
        for lower in factor.lower[:, :, : factor.columns]:
            shortest = np.linalg.lstsq(lower, np.ones(len(lower)))[0]
            if np.abs(lower @ shortest - 1.0).max() > IN_RANGE:
                raise NotIdentifiable("The level hides a part of the average: 1 ∉ range(S).")
            total += float(shortest @ shortest)
    return total
