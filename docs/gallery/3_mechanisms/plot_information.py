"""
Where does a mechanism reveal most?
===================================

The Fisher information of a mechanism can depend on the value itself. A level must hold at the
worst value: quantisers reveal most between grid points, a threshold reveals most near itself.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

values = np.linspace(-2, 2, 121)
figure, axes = plt.subplots()
for name in ("gaussian", "triangular-quantiser", "binary-gaussian", "privacy-weights"):
    mechanism = pv.mechanism.calibrate(name, 1.0, model=1)
    found = [pv.audit.fisher_information(mechanism, [y]).matrix[0, 0] for y in values]
    axes.plot(values, found, label=name)
axes.set(xlabel="value y", ylabel="Fisher information about y", title="Calibrated to level 1")
axes.legend()
plt.show()
