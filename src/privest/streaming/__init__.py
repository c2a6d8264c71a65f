"""A stream at work, block by block: the same for the command line and for the app."""

from privest.streaming._job import Block, Job
from privest.streaming._plan import StreamPlan

__all__ = ["Block", "Job", "StreamPlan"]
