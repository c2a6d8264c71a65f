"""Several private columns of one record: one budget for all of them, and what it promises.

    Σ_j u_j²S_jj = b ,   S_jj = b/(q u_j²) ,

u_j what counts as one unit in column j: as stated, or the width of its range. Errors then cost the
same in these units, which is the best split (`bounds.split_budget`). With u_j the width of the
range, b is μ² of differential privacy for a record that is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privest.arrays import Array
from privest.bounds import split_budget
from privest.errors import InvalidInput
from privest.privacy import (
    GridStatement,
    OneRecord,
    PrivacyLevel,
    Range,
    grid_statement,
    level_for_attacker,
    level_on_grid,
)
from privest.workflow._modelled import counted_move
from privest.workflow._sections import Privacy

if TYPE_CHECKING:
    from privest.workflow._column import Column
    from privest.workflow._spec import Spec


def require_record(spec: Spec) -> None:
    """Refuse what several private columns cannot have, with what to do instead."""
    several, privacy = f"{len(spec.targets)} targets", spec.privacy
    wrong = {
        f"{several} of persons with several rows are not offered: release one target at a time, "
        "each with its part of the budget, or one row a person": spec.person is not None,
        f"{several} must all be numbers (family gaussian): release yes/no and counts on their "
        "own": spec.family != "gaussian",
        f"{several} have Gaussian noise: laws are not mixed, and the budget of a record is shared "
        "as Gaussian noise shares it. Leave the law out, or release one target at a "
        "time": privacy.law not in (None, "gaussian"),
        f"{several} have a noise variance each: one number cannot be all of them. Give a "
        "reference set, or nothing (the release shows it)": spec.noise.variance is not None,
        f"{several} share one budget, which no single coefficient decides: state --level (the "
        "budget in units), --epsilon or --tolerance, or release one target at a "
        "time": privacy.standard_error is not None,
        f"one range for {several}: give each its own, NAME=LOW,HIGH": privacy.range is not None
        and not isinstance(privacy.range, Mapping),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidInput(f"{what}.")


class Share(NamedTuple):
    """The part of a column in the budget of its record.

    level  s of it. scale: what counts as one unit of it, u; None where it is alone.
    move   how far it moves at most, as stated; None: its range limits it.
    """

    level: float
    scale: float | None
    move: float | None


def record_shares(
    privacy: Privacy, targets: Sequence[str], limits: Sequence[Range | None]
) -> list[Share]:
    """The part of each column; limits: their ranges, in the units of the modelled targets."""
    units = _units(privacy, targets, limits)
    moves = [None if privacy.move is None else privacy.move * unit for unit in units.tolist()]
    if privacy.delta is not None:
        _require_moves(targets, moves, limits)
    levels = _levels(privacy, units, [counted_move(*pair) for pair in zip(moves, limits)])
    return [Share(*part) for part in zip(levels.tolist(), units.tolist(), moves)]


def _levels(privacy: Privacy, units: Array, moves: Sequence[float | None]) -> Array:
    """S_jj: of the budget that is stated, or the largest in this proportion that keep (ε, δ) for a
    record that is replaced, or tell two records `tolerance` units apart no better than stated.
    """
    if privacy.level is not None:
        return split_budget(privacy.level, units).level
    shape = PrivacyLevel(split_budget(1.0, units).level)
    if privacy.epsilon is not None:
        assert privacy.delta is not None
        record = OneRecord([move or 0.0 for move in moves])
        found = level_on_grid(privacy.epsilon, delta=privacy.delta, move=record, shape=shape)
    else:
        assert privacy.attacker is not None
        assert privacy.tolerance is not None
        apart = OneRecord((privacy.tolerance * units).tolist())
        found = level_for_attacker(apart, privacy.attacker, shape)
    return found.for_size(len(units)).diagonal()


def _units(privacy: Privacy, targets: Sequence[str], limits: Sequence[Range | None]) -> Array:
    found = []
    for target, range_ in zip(targets, limits):
        unit = privacy.units.get(target, None if range_ is None else range_.width)
        if unit is None:
            raise InvalidInput(
                f"several targets share one budget, in units of each: {target!r} has neither a "
                f"range (--range {target}=LOW,HIGH) nor a unit (--unit {target}=U, what would be a "
                "large difference in it)."
            )
        found.append(unit)
    return np.array(found)


def _require_moves(
    targets: Sequence[str], moves: Sequence[float | None], limits: Sequence[Range | None]
) -> None:
    for target, move, range_ in zip(targets, moves, limits):
        if move is None and range_ is None:
            raise InvalidInput(
                f"privacy: ε of a whole record needs to know how far each column moves: give "
                f"{target!r} a range (--range {target}=LOW,HIGH), or --move M, by how many units "
                "each column moves at most."
            )


def record_information(columns: Sequence[Column]) -> Fraction:
    """What a release shows of a record, in units of its columns: Σ_j u_j²S_jj, the budget b.

    Of one column its level. Noise on the grid shows less by 7.6e-14 of it (lattice/PROOF.md), which
    is more than the rounding of the split.
    """
    if len(columns) == 1:
        return Fraction(columns[0].level)
    parts = [Fraction(c.level) * Fraction(c.scale or 0.0) ** 2 for c in columns]
    return sum(parts, Fraction(0)) * (1 - Fraction(1, 2**44))


def record_statement(columns: Sequence[Column], delta: float | None = None) -> GridStatement | None:
    """What the release of a record promises where all its columns may change at once.

    None where δ is not stated, or nobody said how far a column moves.
    """
    moves = [column.counted_move for column in columns]
    given = columns[0].delta if delta is None else delta
    if given is None or None in moves:
        return None
    levels = [column.level for column in columns]
    return grid_statement(PrivacyLevel(levels), move=record_move(columns), delta=given)


def record_move(columns: Sequence[Column]) -> OneRecord:
    """How far all columns of a record move at most; every one of them must have said so."""
    return OneRecord([column.counted_move or 0.0 for column in columns])
