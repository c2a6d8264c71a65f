"""
What does privacy cost?
=======================

The privacy level s caps the Fisher information about each measurement. The bound says how small the
standard error of an unbiased estimate can be at each s, under any mechanism that keeps the level.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
H = np.column_stack([np.ones(200), rng.uniform(20, 80, 200) / 10])
model = pv.LinearModel(H, noise=0.25, names=["intercept", "age"])

levels = np.geomspace(0.01, 100, 60)
sweep = pv.bounds.sweep(model, levels)  # one factorisation for all levels

figure, axes = plt.subplots()
errors = np.sqrt(np.diagonal(sweep.covariance, axis1=1, axis2=2))
for name, error, without in zip(model.names, errors.T, np.sqrt(np.diag(sweep.classical))):
    (line,) = axes.loglog(levels, error, label=name)
    axes.axhline(without, color=line.get_color(), linestyle=":")
axes.set(xlabel="privacy level s", ylabel="least standard error", title="Dotted: without privacy")
axes.legend()
plt.show()
