"""The data owner's path: specification, plan, release, estimate."""

from privest.workflow.account import Account, Spending, account_name
from privest.workflow.calls import estimate, plan
from privest.workflow.document import TableRelease, read_release
from privest.workflow.plan import Plan, make_plan, stated_plan
from privest.workflow.release import release, simulate_release, simulation_source
from privest.workflow.result import Estimate
from privest.workflow.spec import Model, Privacy, Public, Spec, load_spec, save_spec
from privest.workflow.verify import Verification, verify

__all__ = [
    "Account", "Estimate", "Model", "Plan", "Privacy", "Public", "Spec", "Spending",
    "TableRelease", "Verification", "account_name", "estimate", "load_spec", "make_plan", "plan",
    "read_release", "release", "save_spec", "simulate_release", "simulation_source",
    "stated_plan", "verify",
]  # fmt: skip
