"""
A private Kalman filter
=======================

A vehicle's position and speed, from positions that were released with privacy noise. Filter and
smoother attain the Bayesian bound at every step.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
system = pv.dynamics.StateSpace(
    A=[[1, 1], [0, 0.98]], C=[[1, 0]], Q=np.diag([0.01, 0.05]), R=0.1, cov0=np.eye(2)
)
states, y = system.sample(100, rng)
release = pv.StreamMechanism(0.5).simulate(y, rng)  # √s·y + unit noise
found = pv.dynamics.filter(system, release)

figure, axes = plt.subplots()
axes.plot(release.values / 0.5**0.5, ".", color="0.7", label="releases, as positions")
axes.plot(states[:, 0], "k", linewidth=0.8, label="true position")
low, high = found.smoothed.interval()[:, 0].T
axes.fill_between(range(100), low, high, alpha=0.4, label="95% interval of the smoother")
axes.set(xlabel="step")
axes.legend()
plt.show()
