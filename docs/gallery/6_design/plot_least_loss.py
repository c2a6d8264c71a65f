"""
The least privacy loss for a wanted accuracy
============================================

The analyst asks for a standard error of the slope. The least total loss falls on few people; the
least largest loss treats all people alike where it can.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

x = np.sort(np.random.default_rng(0).normal(size=60))
H = np.column_stack([np.ones(60), x])
model = pv.LinearModel(H, noise=0.25, names=["mean", "slope"])

figure, axes = plt.subplots()
for loss in ("total", "largest"):
    found = pv.design.least_loss(model, {"slope": 0.2}, loss=loss)
    label = f"least {loss}: sum {found.levels.sum():.1f}, largest {found.levels.max():.2f}"
    axes.plot(x, found.levels, "o", markersize=4, label=label)
axes.set(xlabel="x of the person", ylabel="privacy level")
axes.legend()
plt.show()
