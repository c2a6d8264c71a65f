"""Privacy levels, and what they mean in the language of differential privacy."""

from privest.privacy import gdp as gdp
from privest.privacy._grid import largest_level as largest_level
from privest.privacy.adjacency import Adjacency
from privest.privacy.adjacency import Range as Range
from privest.privacy.adjacency import as_adjacency as as_adjacency
from privest.privacy.adjacency import as_range as as_range
from privest.privacy.exposures import Exposure, exposure
from privest.privacy.gdp import epsilon_of, metric_trace, mu_of
from privest.privacy.level import PrivacyLevel as PrivacyLevel
from privest.privacy.level import as_level as as_level
from privest.privacy.statement import Statement
from privest.privacy.statement import grid_statement as grid_statement
from privest.privacy.statement import rows_statement as rows_statement
from privest.privacy.stream import StreamLevel as StreamLevel
from privest.privacy.stream import as_stream_level as as_stream_level

__all__ = [
    "Adjacency", "Exposure", "Statement", "epsilon_of", "exposure", "metric_trace", "mu_of",
]  # fmt: skip
