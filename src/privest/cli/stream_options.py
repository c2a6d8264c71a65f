"""Options of `privest stream`, `filter`, `identify`, `bound` and of the ledger.

The fields are those of the library's records; here are their texts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import privest as pv
from privest import streaming as stated
from privest.arrays import Array
from privest.cli.options import LEDGER, NOISE, OUTPUT, PRIVACY, about, group, listed
from privest.data.cells import is_number
from privest.data.lines import open_lines, read_matrix
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.reading import HELD_WHOLE


@group(NOISE, seed={"min": 0})
class Trial(stated.Trial):
    """Whether this is a simulation, which protects nothing, with or without a seed."""


@group(LEDGER)
class Account(stated.LedgerOptions):
    """Where a real release is charged, and what it may spend.

    ledger FILE   Ledger, made if it is not there: a release is in it before it leaves, within the
                  budget.
    subject NAME  Account. Left out: the columns and the name of FILE.
    budget S      Budget of a new account: the privacy level of one measurement (a larger one
                  reveals more), all releases together. Left out: that of this release.
    """


@group(PRIVACY)
class Privacy(stated.Privacy):
    """A level, or the (ε, δ) at a stated sensitivity that it amounts to.

    level NUMBER|FILE  Privacy level S, a cap on Fisher information (a larger S reveals more);
                       unbiased guesses have sd ≥ 1/√s. A number (s·I), or a CSV file with a vector
                       (diagonal) or a matrix.
    epsilon ε          ε of differential privacy, instead of a level; with --delta.
    delta δ            δ. With a level: also print the ε that it amounts to.
    sensitivity C      Sensitivity for ε: one measurement differs by at most this, in its units.
    """

    def read(self) -> pv.PrivacyLevel:
        """The level, as it is given or by (ε, δ) of real releases."""
        self._require_stated()
        if self.level is not None:
            with about(f"--level {self.level}"):
                return pv.PrivacyLevel(read_value(self.level))
        epsilon, delta, sensitivity = self._epsilon()
        return pv.PrivacyLevel.from_epsilon(epsilon, delta=delta, sensitivity=sensitivity)


@group(PRIVACY)
class ScalarPrivacy(Privacy):
    """The same where every release is of one measurement.

    level NUMBER  Privacy level s, a cap on Fisher information (a larger s reveals more); unbiased
                  guesses have sd ≥ 1/√s. `privest levels` helps to choose.
    """


@group(OUTPUT, given={"names": ("--from",)})
class Sides(stated.Sides):
    """Which side of a stream this is: the data owner, the analyst, or both.

    emit   What to write.
    given  What FILE holds: measurements, or releases that `--emit releases` wrote elsewhere.
    """


@group(OUTPUT)
class Output(stated.Output):
    """Where the rows and the figure go.

    output FILE  File to write. Left out: standard output.
    png FILE     Figure of the estimates and their intervals by step.
    """

    def require_writable(self) -> None:
        """Refuse what cannot be written before any noise is spent."""
        self.require_free()
        self.require_possible()

    def write(self, text: str) -> None:
        """All of the output at once."""
        self.require_free()
        if self.output is None:
            sys.stdout.write(text)
        elif self.output.exists() and not self.output.is_file():  # /dev/null, a pipe
            self.output.write_text(text, encoding="utf-8")
        else:
            atomic_write(Path(self.output), text)


def as_weights(lags: str) -> list[float]:
    """The numbers of --lags."""
    given = listed(lags)
    if not all(is_number(weight) for weight in given):
        raise InvalidInput("--lags must be numbers separated by commas.")
    return [float(weight) for weight in given]


def read_table(source: str) -> tuple[Array, list[str] | None]:
    """A matrix from a CSV file ("-": standard input), and its column names if it has any."""
    with open_lines(source, name="", most=HELD_WHOLE) as lines:
        return read_matrix(lines)


def read_value(text: str) -> Array | float:
    """A number, or the content of a CSV file: one row or column is a vector, else a matrix."""
    if is_number(text):
        return float(text)
    try:
        exists = text == "-" or (text != "" and Path(text).exists())
    except OSError:
        exists = False
    if not exists:
        raise InvalidInput("neither a number nor an existing file.")
    matrix, _ = read_table(text)
    return matrix.ravel() if 1 in matrix.shape else matrix
