"""Which 0/1 columns each term of a formula brings, so that none repeats what others say.

A category within a term is coded in full (a column each) or against its baseline. Terms with the
same numbers in them share a space: a term over the categories {a, b} spans the parts {}, {a}, {b}
and {a, b}, each coded against baselines. The parts that terms before it have brought are left out,
and what remains is put together in as few pieces as possible: {a, b} and {a} are one piece, a
against its baseline times b in full. This is the rule of R, patsy and formulaic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from privest.data._formula_factors import Category, Factor, Number

Part = frozenset[Category]


@dataclass(frozen=True)
class Piece:
    """Columns of H: the product of the factors, those in `full` with a column for each category."""

    factors: tuple[Factor, ...]
    full: Part

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns; the first factor goes slowest."""
        found: tuple[str, ...] = ("",)
        for factor in self.factors:
            own = (
                (factor.label,) if isinstance(factor, Number) else factor.names(factor in self.full)
            )
            found = tuple(f"{before}:{one}" if before else one for before in found for one in own)
        return found


def pieces_of(terms: Iterable[Sequence[Factor]]) -> list[Piece]:
    """The pieces of all terms, in their order; the intercept is a term without factors."""
    brought: dict[frozenset[str], set[Part]] = {}
    found = []
    for factors in terms:
        numbers = frozenset(one.label for one in factors if isinstance(one, Number))
        listed = [one for one in factors if isinstance(one, Category)]
        known = brought.setdefault(numbers, set())
        parts = [part for part in _subsets(listed) if part not in known]
        known.update(parts)
        for present, full in _together(parts):
            kept = tuple(one for one in factors if isinstance(one, Number) or one in present)
            found.append(Piece(kept, full))
    return found


def _subsets(listed: Sequence[Category]) -> list[Part]:
    return [
        frozenset(chosen)
        for size in range(len(listed) + 1)
        for chosen in combinations(listed, size)
    ]


def _together(parts: Sequence[Part]) -> list[tuple[Part, Part]]:
    """(categories present, those in full): a part takes in one that lacks one of its own."""
    open_: list[tuple[Part, Part]] = [(part, frozenset()) for part in parts]
    merged = True
    while merged:
        merged = False
        for (k, (short, coded)), (j, (long, full)) in combinations(enumerate(open_), 2):
            more = long - short
            if short < long and len(more) == 1 and coded == full:
                open_[j] = (long, full | more)
                del open_[k]
                merged = True
                break
    return open_
