"""
A mechanism of your own
=======================

A class with four methods: ``certify`` examines it, ``estimate`` uses its likelihood.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

import privest as pv


@dataclass(frozen=True)
class Sech(pv.mechanism.Channel):
    b: float  # z = u + b·x, x of density sech(x)/π

    def sample(self, u, rng):
        return u + self.b * np.log(np.tan(np.pi / 2 * rng.random(np.shape(u))))

    def log_density(self, z, u):
        x = (np.asarray(z) - u) / self.b
        return np.log(2 / (np.pi * self.b)) - np.logaddexp(x, -x)

    @property
    def worst(self):
        return 0.5 / self.b**2

    @classmethod
    def calibrated(cls, level):
        return cls((0.5 / level) ** 0.5)


mine = pv.mechanism.calibrate(Sech, 1.0, model=1)
print(pv.audit.certify(mine, 1.0, rng=0).verdict)
plt.hist(mine.simulate(np.zeros((20_000, 1)), np.random.default_rng(0))[:, 0], 200)
plt.gca().set(xlabel="releases of the value 0", ylabel="how many")
plt.show()
