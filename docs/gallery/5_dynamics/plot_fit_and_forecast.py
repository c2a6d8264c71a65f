"""
Identify a system, then forecast
================================

An AR(2) model is fitted to releases by exact maximum likelihood. The forecast's interval includes
the uncertainty of the parameters.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(3)
truth = pv.dynamics.AR(2, mean=False).system({"phi1": 1.5, "phi2": -0.8, "q": 0.2})
_, y = truth.sample(300, rng)
release = pv.StreamMechanism(4.0).simulate(5.0 + y, rng)  # 2y + unit noise
found = pv.dynamics.fit("ar2", release)
print(found.summary())
ahead = found.forecast(24)

figure, axes = plt.subplots()
axes.plot(range(240, 300), release.values[240:] / 2, ".-", color="0.6", label="releases")
low, high = np.squeeze(ahead.interval()).T
axes.fill_between(range(300, 324), low, high, alpha=0.3, label="95% forecast interval")
axes.plot(range(300, 324), np.squeeze(ahead.value))
axes.set(xlabel="step")
axes.legend()
plt.show()
