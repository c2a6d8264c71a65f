"""Design: how much privacy should each reading give up? The dual of the bound, with proofs.

Levels are chosen from public inputs (H, the noise, what is asked for): choosing them reveals
nothing. Every answer has a floor that no other choice is below.
"""

from privest.design._allocating import allocate, equalised, least_loss
from privest.design._allocation import Allocation
from privest.design._certifying import Certificate, certify
from privest.design._constraints import Persons
from privest.design._criteria import A, C, Criterion, D, E, StandardErrors
from privest.design._joint._allocation import FullAllocation
from privest.design._joint._correlated import CorrelatedAllocation, correlated
from privest.design._mechanisms import MechanismRanking, rank_mechanisms
from privest.design._over_time._anytime import Anytime, anytime
from privest.design._over_time._spread import Spread, spread
from privest.design._sizes import Frontier, SampleSize, frontier, sample_size

__all__ = [
    "A", "Allocation", "Anytime", "C", "Certificate", "CorrelatedAllocation", "Criterion", "D", "E",
    "Frontier", "FullAllocation", "MechanismRanking", "Persons", "SampleSize", "Spread",
    "StandardErrors", "allocate", "anytime", "certify", "correlated", "equalised", "frontier",
    "least_loss", "rank_mechanisms", "sample_size", "spread",
]  # fmt: skip
