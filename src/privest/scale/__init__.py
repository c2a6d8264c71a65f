"""Data larger than one machine: one pass over the partitions of a Dask frame; clusters."""

from privest.scale._cluster import cluster_executor
from privest.scale._fitting import Fit, fit
from privest.scale._sums import fit_sums

__all__ = ["Fit", "cluster_executor", "fit", "fit_sums"]
