"""
A level as differential privacy
===============================

The same level as (ε, δ): one value replaced anywhere in a range of width R, which clipping
enforces. ε depends on s·R² alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

levels = np.geomspace(1e-3, 10, 60)
figure, axes = plt.subplots()
for delta in (1e-3, 1e-6, 1e-9):
    found = [pv.PrivacyLevel(s).to_epsilon(delta=delta, sensitivity=1.0) for s in levels]
    axes.loglog(levels, found, label=f"δ = {delta:g}")
axes.set(xlabel="s·R²: level times the squared width of the range", ylabel="ε")
axes.legend()
plt.show()
