"""
Agreement without a centre
==========================

Each agent talks to its neighbours only, and all of them reach the efficient estimate
(``algo:average``). Chebyshev averaging needs about the square root of the rounds.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
sensors = [pv.network.Sensor(rng.normal(size=(3, 2)), noise=1.0, level=1.0) for _ in range(30)]
releases = [one.simulate(one.model.sample([1.0, -1.0], rng), rng) for one in sensors]
parts = [one.contribution(z) for one, z in zip(sensors, releases)]
centre = pv.network.fuse(sensors, releases).value
graph = pv.network.Graph.ring(30)

figure, axes = plt.subplots()
for method in ("plain", "chebyshev"):
    found = pv.network.consensus(parts, graph, method=method, tolerance=1e-6, trace=True)
    distance = np.abs(found.trace - centre).max(axis=(1, 2))
    axes.semilogy(distance, label=f"{method}: {found.rounds} rounds")
axes.set(xlabel="round", ylabel="farthest agent from the fused estimate")
axes.legend()
plt.show()
