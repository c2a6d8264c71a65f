"""
A nonlinear system
==================

A pendulum seen through sin(angle), released with privacy noise: extended and unscented filters, and
the local bound along the true path.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv


def swing(x):
    return np.array([x[0] + 0.1 * x[1], x[1] - 0.5 * np.sin(x[0])])


system = pv.dynamics.NonlinearStateSpace(
    swing, lambda x: np.array([np.sin(x[0])]), Q=1e-4 * np.eye(2), R=0.01,
    mean0=[1.0, 0.0], cov0=0.01 * np.eye(2),
)  # fmt: skip
rng = np.random.default_rng(0)
states = [rng.normal([1.0, 0.0], 0.1)]
for _ in range(119):
    states.append(rng.normal(swing(states[-1]), 0.01))
angle = np.array(states)[:, 0]
release = pv.StreamMechanism(20.0).simulate(rng.normal(np.sin(angle), 0.1), rng)

figure, axes = plt.subplots()
axes.plot(angle, "k", linewidth=0.8, label="true angle")
for method in ("extended", "unscented"):
    found = pv.dynamics.filter(system, release, method=method)
    axes.plot(found.filtered.value[:, 0], label=method)
axes.set(xlabel="step", ylabel="angle")
axes.legend()
plt.show()
