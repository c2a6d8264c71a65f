"""`privest consensus` alone, for mpiexec: python mpi_command.py FILE …"""

import sys

import typer

from privest.cli._consensus import consensus_command
from privest.errors import PrivestError

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(consensus_command)

if __name__ == "__main__":
    try:
        app()
    except PrivestError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
