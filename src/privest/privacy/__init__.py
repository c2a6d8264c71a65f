"""Privacy levels, and what they mean in the language of differential privacy."""

from privest.privacy import gdp, metric
from privest.privacy.adjacency import Along, Move, OneBlock, OneReading
from privest.privacy.endless import EndlessLevel
from privest.privacy.level import PrivacyLevel
from privest.privacy.level_file import load_level
from privest.privacy.stream import SequentialLevel, StreamLevel

__all__ = [
    "Along",
    "EndlessLevel",
    "Move",
    "OneBlock",
    "OneReading",
    "PrivacyLevel",
    "SequentialLevel",
    "StreamLevel",
    "gdp",
    "load_level",
    "metric",
]
