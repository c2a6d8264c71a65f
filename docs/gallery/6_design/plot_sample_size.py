"""
How many people, at which level?
================================

More people need a smaller level each. ``sample_size`` gives the level that reaches a wanted
standard error for every number of people.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

H = np.column_stack([np.ones(100), np.random.default_rng(0).normal(size=100)])
model = pv.LinearModel(H, noise=0.25, names=["mean", "slope"])
sizes = np.unique(np.geomspace(200, 20_000, 25).astype(int))

figure, axes = plt.subplots()
for target in (0.05, 0.1):
    found = pv.design.sample_size(model, {"slope": target}, sizes=sizes)
    axes.loglog(found.measurements, found.level, label=f"standard error {target:g}")
axes.set(xlabel="people", ylabel="privacy level of each")
axes.legend()
plt.show()
