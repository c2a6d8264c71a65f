"""Data larger than one machine: one pass over the partitions of a Dask frame; clusters."""

from privest.scale.cluster import cluster_executor
from privest.scale.fitting import fit
from privest.scale.result import Fit

__all__ = ["Fit", "cluster_executor", "fit"]
