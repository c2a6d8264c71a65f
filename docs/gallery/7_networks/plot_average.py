"""
The price of a private average
==============================

Agents agree on the mean of their values. If all messages together carry at most diag(S_i), the
error is at least ``consensus_bound`` (``coro:consensus``); release, then average, attains it.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

counts = np.array([5, 10, 20, 50, 100])
rng = np.random.default_rng(0)
figure, axes = plt.subplots()
for level in (0.5, 4.0):
    floors = [pv.bounds.consensus_bound(level, agents=int(n)) ** 0.5 for n in counts]
    (line,) = axes.loglog(counts, floors, label=f"bound, s = {level:g}")
    z = [
        pv.GaussianMechanism(level, n).simulate(np.zeros((2000, n)), rng) for n in counts
    ]  # √s·y + e
    axes.loglog(
        counts, [one.mean(axis=1).std() / level**0.5 for one in z], "o", color=line.get_color()
    )
axes.set(xlabel="agents", ylabel="sd of the average's error", title="Dots: simulated releases")
axes.legend()
plt.show()
