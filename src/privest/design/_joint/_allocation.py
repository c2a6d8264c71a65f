"""The answer of a design over full matrices."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from privest.arrays import Array, Index
from privest.design._allocation import Allocation
from privest.design._joint._release import joint_level
from privest.linalg import PSD, Blocks
from privest.records import plain

Shape = Literal["full", "persons"]


class FullAllocation(Allocation):
    """An allocation whose S is a full matrix, or one block for each person.

    factor   L (m, r), S = LLᵀ: what is released is Lᵀy + N(0, I).
    shape    "full": one curator draws all noise jointly. "persons": a block for each person.
    """

    factor: Array
    shape: Shape

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; with L, which is the level."""
        return {**super().to_dict(), "shape": self.shape, "factor": plain(self.factor)}

    def explain(self) -> str:
        """What was found, how sure it is, who pays, and which promise it is."""
        who = (
            "one trusted curator, who sees every reading and draws the noise jointly"
            if self.shape == "full"
            else "every person to draw the noise of the own readings jointly"
        )
        return (
            f"{super().explain()}\nReleased: {self.factor.shape[1]} numbers Lᵀy + noise. The "
            "limits are of the diagonal of S: what each reading shows to whoever knows all "
            f"others, and sums of it; combinations may be shown better. It needs {who}."
        )

    def __repr__(self) -> str:
        return super().__repr__().replace("Allocation(", f"FullAllocation({self.shape}, ", 1)


def level_of(factor: Array, blocks: list[Index]) -> PSD:
    """S = LLᵀ: in blocks where each is a run of neighbours, else one matrix."""
    runs = [np.arange(block[0], block[-1] + 1) for block in blocks]
    together = np.concatenate(runs)
    if len(blocks) == 1 or not np.array_equal(together, np.arange(len(factor))):
        return joint_level(factor)
    lowers = []
    for block in blocks:
        own = factor[block]
        own = own[:, own.any(axis=0)]
        lower = np.zeros((len(block), len(block)))
        lower[:, : own.shape[1]] = own
        lowers.append(lower)
    return Blocks([lower @ lower.T for lower in lowers], lowers)
