"""What a data owner does: plan, release, estimate, report; one plan file for all of it."""

from privest.workflow._account import Account
from privest.workflow._estimating import Estimate, Fit, estimate_release
from privest.workflow._header import TableRelease, read_release
from privest.workflow._planning import Plan, make_plan
from privest.workflow._releasing import TableMechanism, release, simulate_release, trial_source
from privest.workflow._spec import Noise, Privacy, Spec, load_spec, save_spec
from privest.workflow._terms import Terms, stated_terms
from privest.workflow._verifying import Verified, verify_release

__all__ = [
    "Account", "Estimate", "Fit", "Noise", "Plan", "Privacy", "Spec", "TableMechanism",
    "TableRelease", "Terms", "Verified", "estimate_release", "load_spec", "make_plan",
    "read_release", "release", "save_spec", "simulate_release", "stated_terms", "trial_source",
    "verify_release",
]  # fmt: skip
