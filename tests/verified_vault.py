"""Documents of the vault, made on one processor and verified on others.

verified_vault.py make FOLDER COUNT    releases with real noise: sums and squares, and rows
verified_vault.py check FOLDER         prints as JSON what was refused: [] is right
"""

import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

from privest import vault
from privest.errors import PrivestError
from privest.vault.cost import Budget, Cost, delta_of

DELTA = Fraction(1, 10**6)
BITS = 20
SOURCE = {"table": "people", "column": "ldl"}


def mu2_of(epsilon):
    """The largest μ² with δ(ε; μ) ≤ δ·(1 − 1e-9), to 1e-12 of it."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        fits = delta_of(epsilon, Fraction(middle)) <= DELTA * (1 - Fraction(1, 10**9))
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low)


def planned(k):
    """Weights, a range and values of one table, through the BLAS of this processor."""
    rng = np.random.default_rng(k)
    rows, n = int(rng.integers(20, 400)), int(rng.integers(2, 6))
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, n - 1))])
    root = np.linalg.cholesky(np.linalg.inv(X.T @ X))
    L = X @ root
    L /= np.linalg.norm(L, axis=1).max()
    W = np.rint(L * 2**BITS).astype(np.int64)
    y = X @ rng.normal(size=n) + rng.normal(size=rows)
    return rng, W, y


def sums_and_squares(book, k, epsilon):
    """A document of one table: sums, and squares of residuals about what they predict."""
    rng, W, y = planned(k)
    n = W.shape[1]
    span = vault.Range.around(Fraction(-4), Fraction(6), -13)
    map = vault.Sums(W, norm2=(2**BITS + n) ** 2)
    mu2, share = mu2_of(epsilon), Fraction(int(rng.integers(5, 40)), 100)
    whole = map.facts.norm2 * span.steps**2
    law = vault.RoundedNormal((math.isqrt(math.ceil(whole / (mu2 * (1 - share)))) + 1,))
    own = vault.cost_of(map.facts, law, span)
    reserve = Cost({u: a * share / (1 - share) for u, a in own.amounts.items()})
    more = {"range": span, "book": book, "subject": "people", "asked": f"{k}"}
    private = vault.sealed(y, source=SOURCE)
    left = vault.leave(private, map=map, law=law, line=f"sums {k}", reserve=reserve, **more)
    estimate = np.linalg.solve(W.T @ W / 2.0**BITS, np.array(left.integers, dtype=float))
    middles = np.rint(np.clip(W @ estimate / 2.0**BITS, span.low, span.high)).astype(np.int64)
    squares = vault.Squares(np.rint(np.abs(W) / 2).astype(np.int64), middles, map)
    charged = Cost.read(left.body["cost"]).amounts
    sigma = 2**40
    while not holds(squares.pair(law, vault.RoundedNormal((sigma,)), span, span.steps), charged):
        sigma *= 2
    second = vault.leave(
        private, map=squares, law=vault.RoundedNormal((sigma,)), line=f"squares {k}",
        after=left.seq, **more,
    )  # fmt: skip
    return [left.seq, second.seq]


def holds(pair, charged):
    """The planner leaves 2⁻³⁰, so that every processor decides alike."""
    most = 1 - Fraction(1, 2**30)
    return all(amount <= charged[unit] * most for unit, amount in pair.amounts.items())


def rows(book, k, epsilon):
    _, _, y = planned(k)
    sigma = 1024 + k % 1024
    # The step that makes μ² of the range fit: σ = N/μ.
    steps = math.isqrt(math.floor(mu2_of(epsilon) * sigma**2))
    exponent = math.ceil(math.log2(10 / steps)) + 1
    span = vault.Range.around(Fraction(-4), Fraction(6), exponent)
    left = vault.leave(
        vault.sealed(y, source=SOURCE), map=vault.Rows(np.ones(len(y), dtype=int)),
        law=vault.RoundedNormal((sigma,)), range=span, book=book, subject="people",
        line=f"rows {k}", asked=f"{k}",
    )  # fmt: skip
    return [left.seq]


def opened(folder):
    return vault.Book(folder / "ledger.db", marks=folder / "marks")


def make(folder, count):
    folder.mkdir(parents=True)
    with opened(folder) as book:
        with book.writing():
            book.set_budget("people", Budget({}))
        book.advance()
        for k in range(count):
            epsilon = Fraction(f"{0.1 * 125 ** (k / max(count - 1, 1)):.3g}")  # 0.1 to 12.5
            seqs = (sums_and_squares if k % 2 else rows)(book, k, epsilon)
            promise = {
                "epsilon": f"{float(epsilon):.3g}", "delta": "1e-6",
                "neighbours": {"kind": "one value"},
            }  # fmt: skip
            data = vault.seal(book, seqs, {"promise": promise})
            vault.publish(book, data, folder / f"{k}.json")


def refused(folder):
    faults = []
    with opened(folder) as book:
        for path in sorted(folder.glob("*.json")):
            data = path.read_bytes()
            try:
                if not vault.verify(data, book).charged or vault.verify(data).charged:
                    faults.append(path.name)
            except PrivestError as error:
                faults.append(f"{path.name}: {error}")
    return faults


if __name__ == "__main__":
    task, place = sys.argv[1], Path(sys.argv[2])
    if task == "make":
        make(place, int(sys.argv[3]))
    else:
        print(json.dumps(refused(place)))
