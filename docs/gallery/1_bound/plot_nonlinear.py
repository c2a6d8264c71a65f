"""
Nonlinear measurements
======================

A decay curve y = a·exp(−bt) + w: the bound holds at each θ, with the derivatives of the curve in
place of H.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

t = np.linspace(0, 5, 40)
decay = pv.NonlinearModel(lambda p: p[0] * np.exp(-p[1] * t), noise=0.01, names=["a", "b"])

rates = np.linspace(0.2, 3, 40)
figure, axes = plt.subplots()
for level in (0.5, 2.0, 10.0):
    errors = [pv.bound(decay, level, theta=[2.0, b]).standard_error[1] for b in rates]
    axes.plot(rates, errors, label=f"s = {level:g}")
axes.set(xlabel="true rate b", ylabel="least standard error of b")
axes.legend()
plt.show()
