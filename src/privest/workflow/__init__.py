"""What a data owner does: plan, release, estimate, report; one plan file for all of it."""

from privest.workflow._account import Account
from privest.workflow._account_terms import account_name
from privest.workflow._calls import estimate, plan
from privest.workflow._estimate import Estimate, Fit
from privest.workflow._estimate import fit_of as fit_of
from privest.workflow._estimating import estimate_release
from privest.workflow._header import TableRelease, read_release
from privest.workflow._leaving import TableMechanism
from privest.workflow._planning import Plan, make_plan
from privest.workflow._record_plan import RecordPlan
from privest.workflow._releasing import release, simulate_release, trial_source
from privest.workflow._route_columns import ColumnsEstimate
from privest.workflow._same_plan import require_same_plan
from privest.workflow._sections import Noise, People, Privacy, Weights
from privest.workflow._spec import Spec, load_spec, save_spec
from privest.workflow._spending import Spending
from privest.workflow._starting import starting_privacy
from privest.workflow._terms import Terms, stated_terms
from privest.workflow._terms import require_shown as require_shown
from privest.workflow._verifying import Verified, verify_release

__all__ = [
    "Account",
    "ColumnsEstimate",
    "Estimate",
    "Fit",
    "Noise",
    "People",
    "Plan",
    "Privacy",
    "RecordPlan",
    "Spec",
    "Spending",
    "TableMechanism",
    "TableRelease",
    "Terms",
    "Verified",
    "Weights",
    "account_name",
    "estimate",
    "estimate_release",
    "load_spec",
    "make_plan",
    "plan",
    "read_release",
    "release",
    "require_same_plan",
    "save_spec",
    "simulate_release",
    "starting_privacy",
    "stated_terms",
    "trial_source",
    "verify_release",
]  # fmt: skip
