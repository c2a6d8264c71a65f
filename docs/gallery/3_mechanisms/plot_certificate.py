"""
Does a mechanism keep its level?
================================

``certify`` compares a stated level with the worst information of the mechanism. The same Laplace
mechanism is claimed to keep smaller and smaller levels.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

mechanism = pv.mechanism.calibrate("laplace", 1.0, model=1)
levels = np.linspace(0.5, 1.5, 11)
found = [pv.audit.certify(mechanism, s, rng=0) for s in levels]
holds = np.array([one.verdict == "holds" for one in found])
margins = np.array([one.margin for one in found])

figure, axes = plt.subplots()
axes.plot(levels[holds], margins[holds], "o", label="holds")
axes.plot(levels[~holds], margins[~holds], "x", label="refuted")
axes.axhline(1.0, color="grey", linewidth=0.8)
axes.set(xlabel="claimed level", ylabel="worst information / claimed level")
axes.legend()
plt.show()
