"""What a density shows of I_z(y) next to a level: channels by a search, Gaussian noise in full."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.audit._floors import AGREE, relative
from privest.audit._gaussian import checked_precision
from privest.audit._sampled import FisherInformation
from privest.audit._search import Found, worst_input
from privest.linalg import PSD
from privest.mechanism import Additive, Channel, Componentwise, GaussianMechanism, Mechanism
from privest.mechanism._numerics import information_by_numbers

CLOSED_FORM = "closed form supremum"
OUT_OF_REACH = "Its supremum exceeds the level, and the search does not reach that far."
UNSURE = 1e-3  # an error of the margin beyond which numbers do not support a "holds"


@dataclass(frozen=True, eq=False)
class Finding:
    """What was found about I_z(y) ≤ S, before anybody judges.

    margin      the largest information that was found, in units of the level; its `error`.
    least       what the margin surely is: the level is broken if this exceeds 1.
    claimed     the same from the mechanism's own supremum; NaN: it says nothing.
    worst_y     where; None: everywhere.
    method      how, where the mechanism's own supremum does not settle it.
    refuted     something that the mechanism says of itself is wrong.
    unsure      the numbers are too uncertain for a "holds".
    reasons     sentences for people.
    undecided   one more of them if there is no verdict.
    """

    margin: float
    error: float
    least: float
    claimed: float
    worst_y: Array | None
    method: str
    reasons: tuple[str, ...]
    confidence: float | None = None
    refuted: bool = False
    unsure: bool = False
    undecided: tuple[str, ...] = ()


def by_density(mechanism: Mechanism, S: PSD, places: Array) -> Finding | None:
    """What needs no random numbers, also at the places (k, m); None where that is not enough."""
    if isinstance(mechanism, Componentwise):
        return by_search(mechanism, S, mechanism.inputs(places) if places.size else None)
    if isinstance(mechanism, GaussianMechanism):
        return by_curvature(mechanism, S, places if places.size else np.zeros((0, S.size)))
    return None


def by_search(mechanism: Componentwise, S: PSD, inputs: Array | None) -> Finding:
    """Independent channels: the worst input of each, and what they show together.

    `inputs` (k, q): inputs to look at besides those of the search.
    """
    found: dict[Channel, Found] = {}
    for channel in dict.fromkeys(mechanism.channels):
        same = [j for j, other in enumerate(mechanism.channels) if other == channel]
        own = None if inputs is None else inputs[:, same]
        found[channel] = worst_input(channel, inputs=own)
    each = [found[channel] for channel in mechanism.channels]
    margin, error, y = _together(mechanism, S, each)
    claimed = math.nan
    if not any(math.isnan(channel.worst.information) for channel in found):
        claimed = relative(S, mechanism.worst_information())
    lies, unsure = _lies(found), error > UNSURE
    return Finding(
        margin,
        error,
        margin - error,
        claimed,
        None if _constant(found) else y,
        "search by quadrature",
        (*lies, *_explained(found, unsure), *_agreement(found, claimed, bool(lies))),
        refuted=bool(lies),
        unsure=unsure,
        undecided=() if lies or math.isnan(claimed) else (OUT_OF_REACH,),
    )


def _together(mechanism: Componentwise, S: PSD, each: list[Found]) -> tuple[float, float, Array]:
    """The margin, its error and a y at which it is found or approached."""
    every = relative(S, mechanism.spread(np.array([f.information for f in each])))
    error = 0.0
    if math.isfinite(every):
        error = relative(S, mechanism.spread(np.array([f.error for f in each])))
    y, reached = _reachable(mechanism, np.array([f.at for f in each]))
    if reached:
        return every, error, y
    # Inputs that no y reaches together: the sum is a bound; what some y shows is looked at apart.
    shown = (relative(S, of_channels(mechanism, at).matrix) for at in (y, 0 * y))
    return max(shown), error, y


def _reachable(mechanism: Componentwise, u: Array) -> tuple[Array, bool]:
    """The y with Ay + b = u, and whether there is one."""
    if mechanism.matrix is None:
        return u - mechanism.offset, True
    y = np.linalg.lstsq(mechanism.matrix, u - mechanism.offset, rcond=None)[0]
    off = np.abs(mechanism.inputs(y) - u).max()
    return y, bool(off <= 1e-9 * (1 + np.abs(u).max()))


def _lies(found: dict[Channel, Found]) -> list[str]:
    """What the channels say of themselves, and is wrong."""
    suprema = [
        f"The supremum it claims, {c.worst.information:.6g}, is wrong: at input {f.at:.6g} the "
        f"information is {f.information:.6g}."
        for c, f in found.items()
        if f.information - 4 * f.error > c.worst.information * (1 + AGREE)
    ]
    formulas = [
        f"Its own formula for the information is wrong at input {f.disagrees_at:.6g}."
        for f in found.values()
        if f.disagrees_at is not None
    ]
    return suprema + formulas


def _constant(found: dict[Channel, Found]) -> bool:
    return all(f.constant for f in found.values())


def _explained(found: dict[Channel, Found], unsure: bool) -> list[str]:
    """Sentences on what the channels are like."""
    reasons = []
    if _constant(found) and all(isinstance(channel, Additive) for channel in found):
        reasons.append("The same at every input.")
    elif _constant(found):
        reasons.append("The same at every input that was tried: a shift, as far as can be seen.")
    if unsure:
        reasons.append("The numbers are too uncertain for a verdict: see the error.")
    return reasons


def _agreement(found: dict[Channel, Found], claimed: float, lies: bool) -> list[str]:
    """A sentence on the search, next to what the channels say themselves."""
    looked = sum(f.evaluations for f in found.values())
    inputs = "1 input" if looked == 1 else f"{looked} inputs"
    if math.isnan(claimed):
        return [f"It states no supremum; {inputs} were looked at by numbers."]
    return [] if lies else [f"A search over {inputs} found nothing above what it says itself."]


def of_channels(mechanism: Componentwise, y: Array) -> FisherInformation:
    """I_z(y) of independent channels: one integral or sum each."""
    u = mechanism.inputs(y)
    found = [information_by_numbers(c, float(v)) for c, v in zip(mechanism.channels, u)]
    matrix = mechanism.spread(np.array([estimate.value for estimate in found]))
    A = np.eye(mechanism.readings) if mechanism.matrix is None else np.abs(mechanism.matrix)
    error = (A.T * np.array([estimate.error for estimate in found])) @ A
    kind = "summation" if mechanism.discrete else "quadrature"
    return FisherInformation(matrix=matrix, error=error, method=kind)


def by_curvature(mechanism: GaussianMechanism, S: PSD, places: Array) -> Finding | None:
    """Gaussian noise: its closed form, if the log-density at the places bears it out."""
    checked = checked_precision(mechanism, places)
    if checked is None:
        return None
    margin = relative(S, checked[0])
    error = checked[1] * margin if math.isfinite(margin) else 0.0
    reasons = (
        "The same at every y.",
        "Second differences of its log-density in y are those of its supremum.",
    )
    return Finding(margin, error, margin, margin, None, CLOSED_FORM, reasons)
