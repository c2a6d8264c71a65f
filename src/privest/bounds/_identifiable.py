"""Can θ be estimated at all under the level? (`thm:identifiable`)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import EPS, Array, Index
from privest.bounds._classical import level_for, local_model, parameter_list
from privest.linalg import InformationRoot, level_root, weighted_roots
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel
from privest.records import Record


@dataclass(frozen=True, eq=False)
class Identifiability(Record):
    """Verdict of `identifiability`.

    identifiable          HᵀSH is invertible: some mechanism within the level reveals all of θ.
    rank                  rank of HᵀSH: how many independent combinations of θ can be estimated.
    hidden_directions     (n, n − rank), orthonormal: no mechanism within the level reveals vᵀθ.
    unseen_directions     (n, u), orthonormal: hidden even without privacy, because H v = 0.
    readings_to_reveal    a smallest set of readings whose level must be raised for everything that
                          H sees to become identifiable (any positive amount will do).
    helpful_readings      all readings that see a hidden direction.
    names                 of the parameters.
    """

    identifiable: bool
    rank: int
    hidden_directions: Array
    unseen_directions: Array
    readings_to_reveal: tuple[int, ...]
    helpful_readings: Index
    names: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.identifiable

    def explain(self) -> str:
        """The verdict in words; readings are counted from 0."""
        n = len(self.hidden_directions)
        if self.identifiable:
            return f"identifiable: all {n} parameters can be estimated under this level"
        parts = [f"not identifiable: rank {self.rank} of {n}"]
        if self.unseen_directions.shape[1]:
            unseen = parameter_list(self.unseen_directions, self.names)
            parts.append(f"hidden even without privacy: {unseen} (H does not see them apart)")
        if self.readings_to_reveal:
            enough = _readings(self.readings_to_reveal)
            others = [k for k in self.helpful_readings if k not in self.readings_to_reveal]
            also = f" ({_readings(others)} would also help)" if others else ""
            parts.append(
                f"hidden by the level: {parameter_list(self.hidden_directions, self.names)}; "
                f"revealing something of {enough} is enough{also}"
            )
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"Identifiability({self.explain()})"


def identifiability(
    model: LinearModel | NonlinearModel,
    level: PrivacyLevel | ArrayLike,
    theta: ArrayLike | None = None,
) -> Identifiability:
    """Can θ be estimated under I_z(y) ≤ S, and if not, what is hidden?

        identifiable  ⇔  HᵀSH invertible  ⇔  LᵀH has full column rank (S = L Lᵀ)

    Symbols: `model` holds H, `level` is S; `theta` is needed by a nonlinear model (H = F'(θ)).
    Assumes a continuous noise density that does not depend on θ (`assum:w0`); the verdict does
    not depend on the noise otherwise.
    Numerics: the rank of LᵀH, each column relative to √(Σ_k S_kk h_kj²), so that neither the
    units of a reading nor those of a parameter matter; singular values below max(m, n)·eps count
    as zero. One pass over H for a diagonal level.
    Source: `thm:identifiable`. The readings to reveal are ours: raising S_kk by any amount adds
    a multiple of h_k h_kᵀ to HᵀSH.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], noise=Gaussian(cov=1.0))
    >>> verdict = identifiability(model, PrivacyLevel([1.0, 0.0, 1.0]))
    >>> verdict.identifiable, verdict.rank, verdict.readings_to_reveal
    (False, 1, (1,))
    >>> abs(verdict.hidden_directions.T).tolist()
    [[0.0, 1.0]]
    """
    local = local_model(model, theta)
    return verdict(local, level_root(local.matrix, level_for(level, local)))


def verdict(model: LinearModel, root: InformationRoot) -> Identifiability:
    """Identifiability from the root of HᵀSH."""
    matrix, n = model.matrix, model.parameters
    root = root.with_tolerance(model.accuracy)
    if root.rank == n:
        none = np.zeros((n, 0))
        return Identifiability(True, n, none, none, (), np.zeros(0, dtype=np.intp), model.names)
    hidden = root.hidden
    unseen = weighted_roots(matrix, [1.0])[0].with_tolerance(model.accuracy).hidden
    # In units where every column of H has length one, so that no parameter's unit decides.
    size = np.linalg.norm(matrix, axis=0)
    size[size == 0] = 1.0
    exposure = (matrix / size) @ np.linalg.qr(hidden * size[:, None])[0]
    tolerance = max(max(matrix.shape) * EPS, model.accuracy) * np.linalg.norm(matrix / size, axis=1)
    helpful = np.flatnonzero(np.linalg.norm(exposure, axis=1) > tolerance)
    wanted = hidden.shape[1] - unseen.shape[1]
    chosen: tuple[int, ...] = ()
    if wanted:
        # Pivoted QR of the hidden parts of the rows: each pivot is the reading that shows most
        # of what the earlier ones leave hidden.
        pivots = scipy.linalg.qr(exposure[helpful].T, mode="r", pivoting=True)[-1]
        chosen = tuple(sorted(int(k) for k in helpful[pivots[:wanted]]))
    return Identifiability(False, root.rank, hidden, unseen, chosen, helpful, model.names)


def _readings(index: Sequence[int]) -> str:
    listed = ", ".join(str(k) for k in index[:6]) + (", …" if len(index) > 6 else "")
    return f"reading{'s' if len(index) > 1 else ''} {listed}"
