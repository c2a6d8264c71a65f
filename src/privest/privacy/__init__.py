"""Privacy levels, and what they mean in the language of differential privacy."""

from privest.privacy import attacker, gdp, metric
from privest.privacy._adjacency import AdjacentSteps, Along, Move, OneBlock, OneReading, OneRecord
from privest.privacy._adjacency import as_move as as_move
from privest.privacy._endless import EndlessLevel, as_stream_level, load_level
from privest.privacy._grid_level import level_for_attacker, level_on_grid
from privest.privacy._level import PrivacyLevel, as_level
from privest.privacy._people import person_level, person_statement
from privest.privacy._people import person_root as person_root
from privest.privacy._pure import (
    coin_epsilon,
    coin_of,
    pure_epsilon,
    pure_level,
    relative_variance,
)
from privest.privacy._range import Range
from privest.privacy._sequential import SequentialLevel
from privest.privacy._statement import GridStatement, grid_statement, rows_statement
from privest.privacy._stream import StreamLevel
from privest.privacy.reader import Exposure, exposure

__all__ = [
    "AdjacentSteps", "Along", "EndlessLevel", "Exposure", "GridStatement", "Move", "OneBlock",
    "OneReading", "OneRecord", "PrivacyLevel", "Range", "SequentialLevel", "StreamLevel",
    "as_level",
    "as_stream_level", "attacker", "coin_epsilon", "coin_of", "exposure", "gdp", "grid_statement",
    "level_for_attacker", "level_on_grid", "load_level", "metric", "person_level",
    "person_statement", "pure_epsilon", "pure_level", "relative_variance", "rows_statement",
]  # fmt: skip
