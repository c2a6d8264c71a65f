"""
How well can a state be known?
==============================

The bound of prediction, filter and smoother in the steady state, by privacy level. At a small level
the past helps more.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

system = pv.dynamics.StateSpace(A=0.9, C=1.0, Q=0.19, R=0.1, cov0=1.0)
levels = np.geomspace(0.01, 100, 40)
found = [pv.bound(system, s, steps=60) for s in levels]

figure, axes = plt.subplots()
for name in ("predicted", "filtered", "smoothed"):
    axes.semilogx(levels, [getattr(one, name)[30, 0, 0] ** 0.5 for one in found], label=name)
axes.set(xlabel="privacy level s", ylabel="least sd of the state's error", title="step 30 of 60")
axes.legend()
plt.show()
