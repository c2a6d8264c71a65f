"""
Releases that look back
=======================

A release of step k may also carry something about earlier measurements. ``StreamLevel`` states how
much; the bound says what that gives to the estimate.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

H = np.random.default_rng(1).normal(size=(60, 2))
model = pv.LinearModel(H, noise=0.1)

figure, axes = plt.subplots()
for lags in ([], [0.5], [0.5, 0.5]):
    level = pv.StreamLevel.constant(1.0, lags=lags, steps=60)
    found = pv.bound(model, level)
    epsilon = level.to_epsilon(delta=1e-6, sensitivity=1.0)
    errors = [found[k].standard_error[0] for k in range(5, 60)]
    axes.plot(range(5, 60), errors, label=f"weights of earlier steps {lags}: ε = {epsilon:.1f}")
axes.set(xlabel="step", ylabel="least standard error")
axes.legend()
plt.show()
