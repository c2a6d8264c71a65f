"""Audits: does a mechanism keep its promise, and what do attackers make of it?

information          I_z(y), by numbers or from samples alone
  sampled              the estimate and the bounds from samples (move_size, score_regression);
                       one_sided: at a kink, from both sides
certificate          a verdict on a level: judges and explains what was found
  by_density           the input that shows most (search, special_inputs; screen: all of a range,
                       at a resolution), or the curvature
  by_simulation        by simulated scores, by samples, or by running what users run
  compared             draws next to the density (drawn, drawn_vectors), with a stated power
adversary            attackers and the floors below them
  attackers            on one channel (averaged: their integrals over a prior), on samplers
  vectors              on mechanisms that mix the readings
  floors               what information lets an unbiased attacker do
release_audit        code that releases for real, as a black box
  low_digits           the attack on floating-point noise; the grid
"""

from privest.audit._adversary import adversary
from privest.audit._attack import Attack, Errors
from privest.audit._certificate import Certificate, certify
from privest.audit._information import fisher_information
from privest.audit._release_audit import Check, ReleaseAudit, audit_release, naive_release
from privest.audit._sampled import FisherInformation

__all__ = [
    "Attack", "Certificate", "Check", "Errors", "FisherInformation", "ReleaseAudit", "adversary",
    "audit_release", "certify", "fisher_information", "naive_release",
]  # fmt: skip
