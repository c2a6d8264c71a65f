"""
What does a level hide?
=======================

Three of six people reveal nothing (level 0). The level then hides a parameter, and
``identifiability`` names it, with the measurements that would bring it back.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

age = np.array([0.2, 0.4, 0.5, 0.7, 0.9, 1.0])
dose = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
H = np.column_stack([np.ones(6), age, dose])
model = pv.LinearModel(H, noise=0.04, names=["intercept", "age", "dose"])

print(pv.identifiability(model, [0, 1, 0, 1, 0, 1]).explain())

# How much must one of them reveal? The error of "dose" as measurement 0 gets its level back.
levels = np.geomspace(1e-3, 10, 50)
errors = [pv.bound(model, [s, 1, 0, 1, 0, 1]).standard_error[2] for s in levels]

figure, axes = plt.subplots()
axes.loglog(levels, errors)
axes.set(xlabel="level of measurement 0", ylabel="least standard error of dose")
plt.show()
