"""Design: which privacy level for which measurement? The dual of the bound, with proofs.

Levels are chosen from public inputs (H, the noise, the target): choosing them reveals nothing.
"""

from privest.design._allocate import allocate, least_loss, optimality_gap
from privest.design._allocation import Allocation
from privest.design._schedule import schedule
from privest.design._sizes import SampleSize, sample_size

__all__ = [
    "Allocation", "SampleSize", "allocate", "least_loss", "optimality_gap", "sample_size",
    "schedule",
]  # fmt: skip
