"""What the workflow makes, for people: sections, and how each medium renders them.

describe        sections of a plan, a release, an estimate, a verification; `exposed`: the
                exposure panel alone.
print_sections  on a terminal; `as_text` without colour.
save_report     an estimate as one self-contained page; `section_html` for parts of another.
figures         matplotlib figures of streams, dynamic models and examples.
"""

from privest.report.describe import describe, exposed
from privest.report.numbers import BAND
from privest.report.page import parts_html, save_report, section_html
from privest.report.sections import Section, Sentence, printable
from privest.report.terminal import as_text, print_sections, shown

__all__ = [
    "BAND", "Section", "Sentence", "as_text", "describe", "exposed", "parts_html",
    "print_sections", "printable", "save_report", "section_html", "shown",
]  # fmt: skip
