"""Results as figures and pages. No formulas here: numbers come from the library.

save_report                a plan and its estimate as one page for people; `report_sections` are its
                           parts, for a page of another.
save_plan_figure           the trade-off of a plan alone: errors against levels.
exposure                   what one person is exposed to at a level, in sentences.
save_convergence           estimates of a stream, as it goes on (`Trail` collects them).
save_diagnosis             innovations of a filter: is the system right?
save_courses               a series as releases show it, and as it is foreseen.
save_states, save_plane    states of a dynamic model along time; a track in the plane.
"""

from privest.report._canvas import BAND, ellipse_points, new_figure, require_files, save, tidy
from privest.report._courses import Course, CoursePanel, save_courses
from privest.report._digits import at_least, at_most, freedom_text, plural, rounded, short
from privest.report._exposure import Exposed, exposed_by, exposure, level_words, often
from privest.report._in_units import total_words
from privest.report._innovations import save_diagnosis
from privest.report._page import Note, Section, TableBlock, render_section
from privest.report._released import charged_to, left_out, level_of
from privest.report._streams import (
    Line,
    Panel,
    Track,
    Trail,
    save_convergence,
    save_plane,
    save_states,
)
from privest.report._words import printable
from privest.report._workflow import curve_of, report_sections, save_plan_figure, save_report

__all__ = [
    "BAND", "Course", "CoursePanel", "Exposed", "Line", "Note", "Panel", "Section", "TableBlock",
    "Track", "Trail", "at_least", "at_most", "charged_to", "curve_of", "ellipse_points",
    "exposed_by", "exposure", "freedom_text", "left_out", "level_of", "level_words",
    "new_figure", "often", "plural", "printable", "render_section",
    "report_sections", "require_files", "rounded", "save", "save_convergence", "save_courses",
    "save_diagnosis", "save_plan_figure", "save_plane", "save_report", "save_states", "short",
    "tidy", "total_words",
]  # fmt: skip
