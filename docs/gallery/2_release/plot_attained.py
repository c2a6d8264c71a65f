"""
The bound is attained
=====================

Gaussian privacy noise and least squares reach the bound at every level: the dots are standard
deviations over 2,000 simulated releases.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
model = pv.LinearModel(rng.uniform(-1, 1, (20, 2)), noise=0.04)
levels = np.geomspace(0.1, 100, 8)
spread = []
for s in levels:
    y = model.sample([1.0, -1.0], rng, trials=2000)
    mechanism = pv.GaussianMechanism(s, 20)
    found = pv.estimate(mechanism.simulate(y, rng), model, mechanism=mechanism)
    spread.append(found.value[:, 0].std())

figure, axes = plt.subplots()
fine = np.geomspace(0.1, 100, 60)
axes.loglog(fine, [pv.bound(model, s).standard_error[0] for s in fine], label="bound")
axes.loglog(levels, spread, "o", label="simulated releases")
axes.set(xlabel="privacy level s", ylabel="standard error")
axes.legend()
plt.show()
