"""
Levels over time
================

Estimates are wanted after every step, from one total budget. ``schedule`` spends more at the
beginning than an equal share.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

H = np.column_stack([np.ones(40), np.random.default_rng(0).normal(size=40)])
model = pv.LinearModel(H, noise=0.1)
found = pv.design.schedule(model, 40.0)

figure, axes = plt.subplots()
axes.bar(range(40), found.levels)
axes.axhline(1.0, color="k", linestyle=":", label="equal share")
axes.set(xlabel="step", ylabel="privacy level")
axes.legend()
plt.show()
