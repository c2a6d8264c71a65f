"""Audits: whether a mechanism keeps its level, and what attackers learn from its releases.

certificate   a verdict on a level by one of three routes: the density (`_density`; `_information`:
              scores; `_sampler`: a test of the draws), samples alone (`_samples`), code that
              releases for real (`_release`)
information   I_z(y), by numbers or from samples alone
attack        attackers on a release, and the floors below them
"""

from privest.audit._attack import Attack
from privest.audit._attackers import attack
from privest.audit._certificate import Certificate, certify
from privest.audit._information import fisher_information
from privest.audit._samples import Information

__all__ = ["Attack", "Certificate", "Information", "attack", "certify", "fisher_information"]
