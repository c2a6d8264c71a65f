"""Sources of release noise. No other module on a release path draws numbers.

Protected     exact discrete noise of `privest.lattice`: what `release` uses
Kept          a release that is on disk before anybody sees it
Generated     a numpy generator, or a seed (`seeded`): simulations
"""

from privest.mechanism.source._kept import Kept
from privest.mechanism.source._noise import (
    LARGEST,
    Added,
    Clip,
    Generated,
    Law,
    Protected,
    Shown,
    Source,
    as_integers,
    as_protected,
    as_source,
    require_room,
    seeded,
)
from privest.mechanism.source._noise import Payer as Payer
from privest.mechanism.source._noise import clip_fact as clip_fact
from privest.mechanism.source._noise import law_fact as law_fact
from privest.mechanism.source._noise import numbers as numbers
from privest.mechanism.source._noise import paid as paid
from privest.mechanism.source._noise import shape_of as shape_of

__all__ = [
    "LARGEST", "Added", "Clip", "Generated", "Kept", "Law", "Protected",
    "Shown", "Source", "as_integers", "as_protected", "as_source", "require_room", "seeded",
]  # fmt: skip
