"""
Privacy noise at one level
==========================

Four noise densities with the same Fisher information 1. The Gaussian one has the least variance;
that is the Cramér-Rao inequality.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

kinds = {
    "Gaussian": pv.noise.Gaussian(1.0),
    "Laplace": pv.noise.Laplace(),
    "logistic": pv.noise.Logistic(),
    "cos²": pv.noise.CosSquared(),
}
x = np.linspace(-4, 4, 801)
figure, axes = plt.subplots()
for name, kind in kinds.items():
    noise = kind.with_fisher_information(1.0)
    axes.plot(x, noise.pdf(x), label=f"{name}, variance {noise.variance:.3g}")
axes.set(xlabel="noise", ylabel="density", title="Fisher information 1")
axes.legend()
plt.show()
