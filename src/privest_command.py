"""The command `privest`. Outside the package, so that Ctrl-C while it loads is no traceback."""

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from privest.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
