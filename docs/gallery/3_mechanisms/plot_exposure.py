"""
What a level means for one person
=================================

People vary with sd 1. An attacker who knows that, and sees one noisy value, must tell apart two
typical people, or the two ends of a range of width 5.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

levels = np.geomspace(1e-3, 10, 60)
found = [pv.privacy.exposure(s, sd=1.0, range=(0.0, 5.0)) for s in levels]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.semilogx(levels, [one.after for one in found])
left.set(xlabel="privacy level s", ylabel="sd of the attacker's guess", ylim=(0, 1.05))
right.semilogx(levels, [one.pair for one in found], label="two typical people")
right.semilogx(levels, [one.ends for one in found], label="the two ends of the range")
right.set(xlabel="privacy level s", ylabel="right at most this often")
right.legend()
plt.show()
