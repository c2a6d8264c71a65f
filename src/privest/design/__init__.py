"""Design: how much privacy should each reading give up? The dual of the bound, with proofs.

Levels are chosen from public inputs (H, the noise, what is asked for): choosing them reveals
nothing. Every answer has a floor that no other choice is below.
"""

from privest.design._allocate import (
    OptimalityGap,
    allocate,
    equalised,
    least_loss,
    optimality_gap,
)
from privest.design._allocation import Allocation
from privest.design._criteria import A, C, Criterion, D, E, StandardErrors
from privest.design._full import FullAllocation, correlated
from privest.design._problem import Persons
from privest.design._sizes import Frontier, SampleSize, frontier, sample_size
from privest.design._spread import Spread, spread

__all__ = [
    "A", "Allocation", "C", "Criterion", "D", "E", "Frontier", "FullAllocation",
    "OptimalityGap", "Persons", "SampleSize", "Spread", "StandardErrors",
    "allocate", "correlated", "equalised", "frontier", "least_loss", "optimality_gap",
    "sample_size", "spread",
]  # fmt: skip
