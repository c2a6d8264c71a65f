"""A stream at work, block by block, for the command line.

Job             one side or both of a stream, in blocks; `StreamPlan` says what is asked of it.
known_after     what releases tell of one reading, and of the mean of a day.
"""

from privest.streaming._job import Job
from privest.streaming._plan import StreamPlan
from privest.streaming._stated import Account, Privacy, Trial
from privest.streaming._words import known_after

__all__ = ["Account", "Job", "Privacy", "StreamPlan", "Trial", "known_after"]
