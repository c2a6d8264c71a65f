"""The trusted core: how a private value leaves, what that costs, and how it is recorded.

    sealed → leave → Left → seal → verify

PROOF.md proves each map and each distribution of noise. Sums of tables draw their noise here; every
other release has the source of noise and the ledger of before until it comes through this door.
"""

from privest.vault.door import Left, leave, left, left_before, publish, seal
from privest.vault.ledger import Book
from privest.vault.maps import (
    DiscreteLaplace,
    Lagged,
    Levels,
    PersonSquares,
    Range,
    RoundedNormal,
    Rows,
    Squares,
    Sums,
    WrongLevel,
    cost_of,
    on_grid,
)
from privest.vault.private import Private, sealed
from privest.vault.verify import Verification, verify

__all__ = [
    "Book", "DiscreteLaplace", "Lagged", "Left", "Levels", "PersonSquares", "Private", "Range",
    "RoundedNormal", "Rows", "Squares", "Sums", "Verification", "WrongLevel",
    "cost_of", "leave", "left", "left_before", "on_grid", "publish", "seal", "sealed",
    "verify",
]  # fmt: skip
