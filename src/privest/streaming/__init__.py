"""A stream block by block: measurements in, releases or estimates out. Used by the command line.

StreamPlan    what is asked of a stream; StreamRun: one side or both of it, in blocks.
Owner         the side that has the measurements; Analyst: the side that sees releases.
known_after   how well a measurement can be guessed after its release.
"""

from privest.streaming._choices import Choices as Choices
from privest.streaming._choices import Columns as Columns
from privest.streaming._choices import LedgerOptions, Privacy, Simulation, StreamPlan
from privest.streaming._choices import Output as Output
from privest.streaming._choices import Promise as Promise
from privest.streaming._choices import Restart as Restart
from privest.streaming._choices import Sides as Sides
from privest.streaming._choices import Spent as Spent
from privest.streaming._choices import promised as promised
from privest.streaming._choices import read_table as read_table
from privest.streaming._choices import read_value as read_value
from privest.streaming._lines import LineOutput as LineOutput
from privest.streaming._lines import hidden_names as hidden_names
from privest.streaming._rows import Rows as Rows
from privest.streaming._rows import read_series as read_series
from privest.streaming._run import StreamRun, known_after
from privest.streaming._run import counts_of as counts_of
from privest.streaming._run import errors_of as errors_of
from privest.streaming._sides import CLIPPED as CLIPPED
from privest.streaming._sides import NOT_RECORDED as NOT_RECORDED
from privest.streaming._sides import Owner as Owner
from privest.streaming._sides import owner_of as owner_of

__all__ = ["LedgerOptions", "Privacy", "Simulation", "StreamPlan", "StreamRun", "known_after"]
