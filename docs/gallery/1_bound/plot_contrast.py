"""
A difference of two effects
===========================

Two effects may be hidden while their difference is not. ``contrast`` gives the bound of any linear
combination, also where θ as a whole cannot be estimated.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

group = np.repeat([0, 1], 30)
H = np.column_stack([group == 0, group == 1, np.ones(60)]).astype(float)  # rank 2 of 3
model = pv.LinearModel(H, noise=0.5, names=["treated", "control", "mean"])
levels = np.geomspace(0.05, 20, 40)
difference = {"treated": 1.0, "control": -1.0}

print(pv.bound(model, 1.0).identifiable)
errors = [pv.bound(model, s).contrast(difference).standard_error for s in levels]

figure, axes = plt.subplots()
axes.loglog(levels, errors)
axes.set(xlabel="privacy level s", ylabel="least standard error", title="treated − control")
plt.show()
