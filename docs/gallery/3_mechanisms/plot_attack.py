"""
What an attacker learns
=======================

Two attackers guess one value from its release: the most likely value, and the posterior mean of an
attacker who knows the population (sd 1). The level bounds the first, not the second.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

levels = np.geomspace(0.05, 20, 9)
likely, informed = [], []
for s in levels:
    mechanism = pv.mechanism.calibrate("laplace", s, model=1)
    (found,) = pv.audit.attack(mechanism, [0.5], rng=0, prior=(0.0, 1.0))
    likely.append(found.likelihood.mse**0.5)
    informed.append(found.averaged.mse**0.5)

figure, axes = plt.subplots()
axes.loglog(levels, levels**-0.5, "k:", label="floor of unbiased guesses, 1/√s")
axes.loglog(levels, likely, "o-", label="most likely value")
axes.loglog(levels, informed, "s-", label="posterior mean, population sd 1")
axes.set(xlabel="privacy level s", ylabel="root mean square error of the guess")
axes.legend()
plt.show()
