"""
Which family fits?
==================

Three families are fitted to the same releases; AIC and the autocorrelation of the innovations tell
which of them fits.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(5)
_, y = pv.dynamics.AR(2, mean=False).system([1.2, -0.6, 0.3]).sample(400, rng)
release = pv.StreamMechanism(5.0).simulate(y, rng)

figure, axes = plt.subplots()
for name in ("ar1", "ar2", "level"):
    found = pv.dynamics.fit(name, release)
    diagnosis = found.diagnose()
    lags = np.arange(1, diagnosis.lags + 1)
    axes.plot(lags, diagnosis.autocorrelations.ravel(), "o-", label=f"{name}: AIC {found.aic:.0f}")
axes.axhspan(*(diagnosis.band.ravel()[0] * np.array([-1, 1])), alpha=0.2, color="grey")
axes.set(xlabel="lag", ylabel="autocorrelation of innovations")
axes.legend()
plt.show()
