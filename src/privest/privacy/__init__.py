"""Privacy levels, and what they mean in the language of differential privacy."""

from privest.privacy import gdp, metric
from privest.privacy.adjacency import Along, Move, OneBlock, OneReading
from privest.privacy.level import PrivacyLevel
from privest.privacy.stream import StreamLevel

__all__ = [
    "Along",
    "Move",
    "OneBlock",
    "OneReading",
    "PrivacyLevel",
    "StreamLevel",
    "gdp",
    "metric",
]
