"""Sources of release noise. No other module on a release path draws numbers.

A source is handed Lᵀy in units of its noise, and returns it with independent noise of unit
information on every entry (`add_noise`).

    Protected     exact discrete noise of `privest.lattice`: what `release` uses
    Kept          a release that is on disk before anybody sees it
    Generated     a numpy generator, Seeded  a seed bound to the release: simulations
"""

from privest.mechanism.inputs import LARGEST as LARGEST
from privest.mechanism.inputs import require_room as require_room
from privest.mechanism.source._base import (
    Added,
    Clip,
    Law,
    Protected,
    Shown,
    Source,
    as_integers,
    as_protected,
)
from privest.mechanism.source._base import Payer as Payer
from privest.mechanism.source._base import clip_fact as clip_fact
from privest.mechanism.source._base import law_fact as law_fact
from privest.mechanism.source._base import numbers as numbers
from privest.mechanism.source._base import paid as paid
from privest.mechanism.source._base import shape_of as shape_of
from privest.mechanism.source._kept import Kept
from privest.mechanism.source._simulated import Generated, Seeded, as_source, seeded

__all__ = [
    "LARGEST", "Added", "Clip", "Generated", "Kept", "Law", "Protected", "Seeded",
    "Shown", "Source", "as_integers", "as_protected", "as_source", "require_room", "seeded",
]  # fmt: skip
