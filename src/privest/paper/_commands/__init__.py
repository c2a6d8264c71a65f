"""`privest reproduce`: the paper's experiments, one command a figure."""

from privest.paper._commands.app import app

__all__ = ["app"]
