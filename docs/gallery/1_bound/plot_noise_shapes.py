"""
Measurement noise that is not Gaussian
======================================

The bound needs the Fisher information of the measurement noise, for any density. At the same
variance, Laplace and Student-t noise carry more information than Gaussian noise; at a small privacy
level the difference vanishes.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

H = np.random.default_rng(2).normal(size=(50, 3))
noises = {
    "Gaussian": pv.noise.Gaussian(1.0),
    "Laplace": pv.noise.Laplace(np.sqrt(0.5)),
    "Student-t, 5 df": pv.noise.StudentT(5, np.sqrt(0.6)),
    "logistic": pv.noise.Logistic(np.sqrt(3) / np.pi),
}
levels = np.geomspace(0.05, 100, 50)

figure, axes = plt.subplots()
for name, noise in noises.items():
    axes.loglog(levels, pv.bounds.sweep(pv.LinearModel(H, noise), levels).trace, label=name)
axes.set(xlabel="privacy level s", ylabel="trace of the bound")
axes.legend()
plt.show()
