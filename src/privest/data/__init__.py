"""Tables: files and frames read in blocks, the features of a model, and data to try things on.

inspect        the look of a table, for its owner before any plan.
Format         how a file is written, where it does not say so itself.
load_diabetes  an embedded example; load_nhanes: a national survey.
"""

from privest.data.format import Format
from privest.data.frames import load_diabetes
from privest.data.look import inspect
from privest.data.nhanes import load_nhanes

__all__ = ["Format", "inspect", "load_diabetes", "load_nhanes"]
