"""A stream at work, block by block: the same for the command line and for the app.

Job             one side or both of a stream, in blocks; `StreamPlan` says what is asked of it.
Replay          a file as a stream, for one who looks on; `ReplayPlan` says what is asked of it.
privacy_of      a privacy level in the words of a data owner.
live_sections   a replay as it goes, for a page.
known_after     what releases tell of one reading, and of the mean of a day.
EXAMPLE         a file to try all of it on.
"""

from privest.streaming._example import EXAMPLE
from privest.streaming._job import Block, Job
from privest.streaming._plan import StreamPlan
from privest.streaming._replay import Replay, ReplayState
from privest.streaming._replay_plan import ReplayPlan, privacy_of
from privest.streaming._sections import exposed, live_sections
from privest.streaming._stated import Account, Privacy, Trial
from privest.streaming._words import known_after

__all__ = [
    "EXAMPLE",
    "Account",
    "Block",
    "Job",
    "Privacy",
    "Replay",
    "ReplayPlan",
    "ReplayState",
    "StreamPlan",
    "Trial",
    "exposed",
    "known_after",
    "live_sections",
    "privacy_of",
]  # fmt: skip
