"""
What privacy costs in an autoregression
=======================================

The least standard error of φ in an AR(1) of 1,000 steps, by level. At small levels it falls with s,
not with √s.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

levels = np.geomspace(0.05, 100, 20)
figure, axes = plt.subplots()
for phi in (0.3, 0.8, 0.95):
    theta = {"phi1": phi, "q": 1 - phi**2, "mean": 0.0}
    found = [pv.dynamics.parameter_bound("ar1", theta, s, steps=1000) for s in levels]
    axes.loglog(levels, [one.standard_error[0] for one in found], label=f"φ = {phi:g}")
axes.set(xlabel="privacy level s (measurements have variance 1)", ylabel="least s.e. of φ")
axes.legend()
plt.show()
