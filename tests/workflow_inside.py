"""Names of the owner's side that are not public, for the tests of several packages."""

from privest.report.describe import describe as describe
from privest.report.page import report as report
from privest.workflow.account import Account as Account
from privest.workflow.document import TableRelease as TableRelease
from privest.workflow.document import document_path as document_path
from privest.workflow.document import read_release as read_release
from privest.workflow.estimate import estimate as estimate
from privest.workflow.plan import make_plan as make_plan
from privest.workflow.plan import plan as plan
from privest.workflow.plan import stated_plan as stated_plan
from privest.workflow.release import release as release
from privest.workflow.release import simulate_release as simulate_release
from privest.workflow.release import simulation_source as simulation_source
from privest.workflow.spec import Model as Model
from privest.workflow.spec import Privacy as Privacy
from privest.workflow.spec import Public as Public
from privest.workflow.spec import Spec as Spec
from privest.workflow.spec import load_spec as load_spec
from privest.workflow.spec import to_toml as to_toml
