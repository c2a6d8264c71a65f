"""The data owner's path: specification, plan, release, estimate."""

# `X as X`: for other packages of privest, not for users.
from privest.workflow.account import LEDGER as LEDGER
from privest.workflow.account import Account as Account
from privest.workflow.account import Spending as Spending
from privest.workflow.account import account_name as account_name
from privest.workflow.calls import means_by as means_by
from privest.workflow.calls import plan
from privest.workflow.commands import Commands as Commands
from privest.workflow.commands import commands_of as commands_of
from privest.workflow.document import TableRelease, read_release
from privest.workflow.document import document_path as document_path
from privest.workflow.document import require_same_terms as require_same_terms
from privest.workflow.estimate import estimate
from privest.workflow.held import HeldRows as HeldRows
from privest.workflow.held import held_rows as held_rows
from privest.workflow.plan import Plan, read_plan
from privest.workflow.plan import at_level as at_level
from privest.workflow.plan import make_plan as make_plan
from privest.workflow.plan import stated_plan as stated_plan
from privest.workflow.published import split_of as split_of
from privest.workflow.refusals import NotOffered as NotOffered
from privest.workflow.release import release as release
from privest.workflow.release import simulate_held as simulate_held
from privest.workflow.release import simulate_release as simulate_release
from privest.workflow.release import simulation_source as simulation_source
from privest.workflow.result import Estimate
from privest.workflow.result import is_category as is_category
from privest.workflow.rows import require_unchanged as require_unchanged
from privest.workflow.spec import Model as Model
from privest.workflow.spec import Privacy as Privacy
from privest.workflow.spec import Public as Public
from privest.workflow.spec import Spec
from privest.workflow.spec import is_plain as is_plain
from privest.workflow.spec import load_spec as load_spec
from privest.workflow.spec import read_spec as read_spec
from privest.workflow.spec import save_spec as save_spec
from privest.workflow.spec import stated as stated
from privest.workflow.spec import to_toml as to_toml
from privest.workflow.strategies import Distribution as Distribution
from privest.workflow.terms import Column as Column
from privest.workflow.terms import Terms as Terms
from privest.workflow.terms import index_of as index_of
from privest.workflow.units import row_features as row_features
from privest.workflow.verify import Verification, verify

__all__ = [
    "Estimate", "Plan", "Spec", "TableRelease", "Verification", "estimate", "plan", "read_plan",
    "read_release", "verify",
]  # fmt: skip
