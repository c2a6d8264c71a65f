"""
With prior knowledge
====================

A prior on θ lowers the floor most where the release says least. The level still bounds the release
alone: I_z(y) ≤ s.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(1)
model = pv.LinearModel(rng.normal(size=(30, 2)), noise=0.2)
levels = np.geomspace(0.01, 100, 50)

figure, axes = plt.subplots()
for sd in (0.3, 1.0, 3.0):
    prior = sd**2 * np.eye(2)  # a covariance
    errors = [pv.bound(model, s, prior=prior).standard_error[0] for s in levels]
    axes.loglog(levels, errors, label=f"prior sd {sd:g}")
axes.loglog(levels, [pv.bound(model, s).standard_error[0] for s in levels], "k:", label="no prior")
axes.set(xlabel="privacy level s", ylabel="least standard error")
axes.legend()
plt.show()
