"""Audits: does a mechanism keep its promise, and what do attackers make of it?

information   I_z(y), by numbers or from samples alone
  sampled       the estimate and the bounds from samples (steps, scored, atoms)
  quadratic     the curvature of a Gaussian log-density
certificate   a verdict on a level
  search        the input that shows most
  refuted       verdicts by simulation
adversary     attackers and the floors below them
  attackers     on one channel (rowwise: their integrals; averaged: E I over a prior)
  linear, rotations, vectors, learnt     on mechanisms that mix the readings, and samplers
  floors        what information lets an unbiased attacker do
"""

from privest.audit._adversary import adversary
from privest.audit._attack import Attack
from privest.audit._certificate import certify
from privest.audit._information import FisherInformation, fisher_information
from privest.audit._verdict import Certificate

__all__ = [
    "Attack",
    "Certificate",
    "FisherInformation",
    "adversary",
    "certify",
    "fisher_information",
]
