"""Audits: does a mechanism keep its promise, and what do attackers make of it?

certificate   a verdict on a level: by the density (`_search`: the worst input of a channel;
              `_density`; `_simulation`: scores), with its draws next to it (`_draws`, `_calls`), by
              runs of the code (`_simulation`), or by samples alone (`_samples`)
information   I_z(y), by numbers or from samples alone
release       code that releases for real, as a black box (`_low_digits`: the attack on
              floating-point noise)
attack        attackers on a release, and the floors below them
"""

from privest.audit._attack import Attack, Errors
from privest.audit._attackers import adversary
from privest.audit._certificate import Certificate, certify
from privest.audit._information import fisher_information
from privest.audit._release import Check, ReleaseAudit, audit_release, naive_release
from privest.audit._samples import FisherInformation

__all__ = [
    "Attack", "Certificate", "Check", "Errors", "FisherInformation", "ReleaseAudit", "adversary",
    "audit_release", "certify", "fisher_information", "naive_release",
]  # fmt: skip
