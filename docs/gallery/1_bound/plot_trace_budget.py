"""
A budget on the total information
=================================

Metric differential privacy bounds the trace of the Fisher information (``prop:DP2Fisher``). The
paper's floor (``coro:DP``) can be tightened: ``trace_bound`` gives both, and the best release.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

H = np.random.default_rng(3).normal(size=(30, 4)) * [1, 2, 4, 8]
model = pv.LinearModel(H, noise=0.1)
epsilons = np.geomspace(0.05, 20, 40)
found = [pv.bounds.trace_bound(model, epsilon=e) for e in epsilons]

figure, axes = plt.subplots()
axes.loglog(epsilons, [one.total for one in found], label="attained by the best release")
axes.loglog(epsilons, [one.simple_floor for one in found], "--", label="simple floor")
axes.loglog(epsilons, [one.paper_release for one in found], ":", label="the paper's noise shape")
axes.axhline(np.trace(found[0].classical), color="grey", linewidth=0.8)
axes.set(xlabel="ε of metric privacy", ylabel="trace of the error covariance")
axes.legend()
plt.show()
