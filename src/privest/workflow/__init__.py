"""What a data owner does: plan, release, estimate, report; one plan file for all of it."""

from privest.workflow._estimating import Estimate, estimate_release
from privest.workflow._plan_file import load_spec, save_spec
from privest.workflow._planning import Plan, make_plan
from privest.workflow._releasing import ReleaseHeader, simulate_release
from privest.workflow._spec import Noise, Privacy, Spec

__all__ = [
    "Estimate",
    "Noise",
    "Plan",
    "Privacy",
    "ReleaseHeader",
    "Spec",
    "estimate_release",
    "load_spec",
    "make_plan",
    "save_spec",
    "simulate_release",
]
