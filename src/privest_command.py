"""The command `privest`. Outside the package, so that Ctrl-C while it loads is no traceback."""

import signal
import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        usual = signal.getsignal(signal.SIGINT)
        if usual is signal.default_int_handler:  # not where Ctrl-C is ignored, as under nohup
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is begun yet: just end
    except KeyboardInterrupt:
        sys.exit(130)
    from privest.cli import main as run

    signal.signal(signal.SIGINT, usual)
    run()
