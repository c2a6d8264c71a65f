"""
Estimate first, then release
============================

Where the measurement noise is not Gaussian, noise on a score of all measurements beats noise on
each of them. ``OutputPerturbation`` finds the best score for any density (``algo:mult``).
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
model = pv.LinearModel(rng.normal(size=(500, 2)), noise=pv.noise.Laplace(1.0))
y = model.sample([1.0, -0.5], rng)
budgets = np.geomspace(50, 5000, 8)

figure, axes = plt.subplots()
for score in ("optimal", "least_squares"):
    mechanisms = [pv.mechanism.OutputPerturbation(model, b, score=score) for b in budgets]
    errors = [pv.estimate(m.simulate(y, rng)).standard_error[0] for m in mechanisms]
    axes.loglog(budgets, errors, "o-", label=score)
floors = [(pv.bounds.trace_bound(model, budget=b).total / 2) ** 0.5 for b in budgets]
axes.loglog(budgets, floors, "k:", label="floor")
axes.set(xlabel="budget: trace of the information", ylabel="standard error")
axes.legend()
plt.show()
