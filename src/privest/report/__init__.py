"""What the workflow makes, for people: sections, and how each medium renders them.

describe        sections of a plan, a release, an estimate, a verification; `exposed`: the
                exposure panel alone.
print_sections  on a terminal; `as_text` without colour.
save_report     an estimate as one self-contained page; `section_html` for parts of another.
figures         matplotlib figures of streams, dynamic models and examples.
"""

# `X as X`: for other packages of privest, not for users.
from privest.report.describe import describe
from privest.report.describe import exposed as exposed
from privest.report.numbers import BAND as BAND
from privest.report.page import parts_html as parts_html
from privest.report.page import save_report
from privest.report.page import section_html as section_html
from privest.report.sections import Section
from privest.report.sections import Sentence as Sentence
from privest.report.sections import printable as printable
from privest.report.terminal import as_text
from privest.report.terminal import print_sections as print_sections
from privest.report.terminal import shown as shown

__all__ = ["Section", "as_text", "describe", "save_report"]
