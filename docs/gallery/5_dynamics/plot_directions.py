"""
Which combination of sensors should be released?
================================================

Two sensors follow two random walks of different speed. For one budget on the information per step,
``best_directions`` finds the matrix S that makes the filter's error least.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

walks = pv.dynamics.StateSpace(np.eye(2), np.eye(2), Q=np.diag([1.0, 0.01]), R=0.1, cov0=1.0)
budgets = np.geomspace(0.05, 20, 15)
equal = [pv.dynamics.steady_state(walks, b / 2 * np.eye(2)).filtered for b in budgets]
best = [pv.dynamics.best_directions(walks, b) for b in budgets]

figure, axes = plt.subplots()
axes.loglog(budgets, [np.trace(np.squeeze(one)) for one in equal], label="the same for both")
axes.loglog(budgets, [one.value for one in best], label="best directions")
axes.set(xlabel="budget tr S per step", ylabel="trace of the filter's error")
axes.legend()
plt.show()
