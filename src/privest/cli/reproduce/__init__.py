"""`privest reproduce`: the paper's experiments, one command a figure."""

from privest.cli.reproduce.app import app

__all__ = ["app"]
