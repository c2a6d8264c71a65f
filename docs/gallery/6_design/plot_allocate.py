"""
Who should reveal how much?
===========================

For one total of levels, ``allocate`` gives every measurement the level that makes the estimate
best, and proves how far any other choice can be better.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

x = np.linspace(-1, 1, 41)
model = pv.LinearModel(np.column_stack([np.ones(41), x, x**2]), noise=0.1)

figure, axes = plt.subplots()
for criterion in ("A", "D", "E"):
    found = pv.design.allocate(model, 41.0, criterion=criterion)
    axes.plot(x, found.levels, "o-", markersize=3, label=f"{criterion}: gap {found.gap:.1g}")
axes.axhline(1.0, color="k", linestyle=":", label="the same for all")
axes.set(xlabel="x", ylabel="privacy level")
axes.legend()
plt.show()
