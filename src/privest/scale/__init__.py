"""Data larger than one machine: one pass over the partitions of a Dask frame; clusters."""

from privest.scale._cluster import cluster_executor
from privest.scale._fitting import fit
from privest.workflow import Fit

__all__ = ["Fit", "cluster_executor", "fit"]
