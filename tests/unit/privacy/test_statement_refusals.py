"""Every statement of ε refuses what it does not know: it never takes it for something else."""

import math

import pytest

from privest.errors import InvalidInput
from privest.ledger import cost_of
from privest.privacy import StreamLevel, grid_statement, rows_statement
from privest.privacy.statement import (
    coin_epsilon,
    coin_of,
    pure_epsilon,
    pure_level,
)

NAN, INF = math.nan, math.inf
WRONG = {
    "law in capitals": lambda: rows_statement([[1.0]], sensitivity=2.0, law="Gaussian"),
    "no law": lambda: rows_statement([[1.0]], sensitivity=2.0, law=None),
    "law in a list": lambda: rows_statement([[1.0]], sensitivity=2.0, law=["laplace"]),
    "negative rows": lambda: rows_statement([-1.0], sensitivity=2.0, law="gaussian"),
    "a negative row": lambda: rows_statement([[1.0, -1.0]], sensitivity=2.0, law="laplace"),
    "no rows": lambda: rows_statement([], sensitivity=2.0, law="gaussian"),
    "delta 5": lambda: rows_statement([1.0], sensitivity=2.0, law="gaussian", delta=5.0),
    "delta 2, laplace": lambda: rows_statement([1.0], sensitivity=2.0, law="laplace", delta=2.0),
    "delta -1, laplace": lambda: rows_statement([1.0], sensitivity=2.0, law="laplace", delta=-1.0),
    "delta nan, laplace": lambda: rows_statement([1.0], sensitivity=2.0, law="laplace", delta=NAN),
    "delta a text, laplace": lambda: rows_statement(
        [1.0], sensitivity=2.0, law="laplace", delta="x"
    ),
    "pure, at delta 1": lambda: rows_statement([1.0], sensitivity=2.0, law="laplace", delta=1.0),
    "negative widths": lambda: grid_statement(1.0, range=(0.0, 1.0), widths=[-4.0]),
    "no widths": lambda: grid_statement(1.0, range=(0.0, 1.0), widths=[]),
    "no coin": lambda: coin_epsilon("x"),
    "pure law gaussian": lambda: pure_epsilon("gaussian", 1.0, 1.0),
    "pure law in capitals": lambda: pure_epsilon("Laplace", 1.0, 1.0),
    "level of a law not known": lambda: pure_level("gaussian", 1.0, 1.0),
    "level -1, laplace": lambda: pure_epsilon("laplace", -1.0, 1.0),
    "level nan, coin": lambda: pure_epsilon("coin", NAN, 1.0),
    "level inf, coin": lambda: coin_of(INF, (0.0, 1.0)),
    "level as a text": lambda: coin_of("x"),
    "cost of a law in capitals": lambda: cost_of(1.0, sensitivity=1.0, law="Laplace"),
    "cost of a coin for a stream": lambda: cost_of(
        StreamLevel.constant(1.0), sensitivity=1.0, law=coin_of(1.0)
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_statement_refuses_what_it_does_not_know(wrong):
    with pytest.raises(InvalidInput):
        wrong()


def test_a_pure_statement_holds_at_every_delta():
    said = [
        rows_statement([1.0], sensitivity=2.0, law="laplace", delta=delta) for delta in (0.0, 0.5)
    ]
    assert said[0] == said[1]
