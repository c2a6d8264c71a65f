"""Audits: does a mechanism keep its promise, and what do attackers make of it?

search        the input that shows most
sampled       information from samples alone
atoms         exact outputs that move with y
quadratic     the curvature of a Gaussian log-density
"""

from privest.audit.adversary import Attack, adversary
from privest.audit.certificate import Certificate, certify
from privest.audit.information import FisherInformation, fisher_information

__all__ = [
    "Attack",
    "Certificate",
    "FisherInformation",
    "adversary",
    "certify",
    "fisher_information",
]
