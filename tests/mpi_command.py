"""`privest consensus` alone, for mpiexec: python mpi_command.py FILE …"""

import sys

import typer

from privest.cli.consensus import consensus
from privest.errors import PrivestError

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(consensus)

if __name__ == "__main__":
    try:
        app()
    except PrivestError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
