"""What a receiver concludes from a release: standard errors, intervals and tests.

Everything here is done to what was released, and costs no privacy.
"""

from privest.estimator.inference._cluster import (
    ClusterErrors,
    ClusterSums,
    cluster_errors,
    group_sums,
)

__all__ = ["ClusterErrors", "ClusterSums", "cluster_errors", "group_sums"]
