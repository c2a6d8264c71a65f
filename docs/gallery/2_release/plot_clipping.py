"""
What a range costs
==================

Differential privacy needs a range; values beyond it are clipped. ``clipping_cost`` gives the error
of an estimator that knows of the clipping, and the bias of one that does not.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
H = np.column_stack([np.ones(400), rng.normal(size=400)])
model = pv.LinearModel(H, noise=1.0)
widths = np.linspace(1.5, 8, 20)
found = [pv.estimator.clipping_cost(model, 1.0, (-w / 2, w / 2), theta=[0.5, 1.0]) for w in widths]

figure, axes = plt.subplots()
axes.plot(widths, [one.standard_error[1] for one in found], label="standard error, likelihood")
axes.plot(widths, [abs(one.bias[1]) for one in found], label="bias of least squares")
axes.set(xlabel="width of the range", ylabel="slope", yscale="log")
axes.legend()
plt.show()
