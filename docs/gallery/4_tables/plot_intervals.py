"""
Estimates with intervals
========================

Thirty simulated releases of the same table at ε = 1: about 95% of the intervals contain the truth.
A simulation has a seed and protects nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import privest as pv

rng = np.random.default_rng(0)
table = pd.DataFrame({"age": rng.uniform(-1, 1, 5000)})
table["ldl"] = 3.0 + 0.5 * table["age"] + rng.normal(0, 0.6, 5000)
plan = pv.plan(table, "ldl ~ age", epsilon=1.0, range=(0, 10))

figure, axes = plt.subplots()
for number in range(30):
    found = pv.estimate(plan.simulate(rng=number))
    low, high = found.interval()[1]
    axes.plot([low, high], [number, number], color="C0" if low < 0.5 < high else "C3")
axes.axvline(0.5, color="k", linestyle=":")
axes.set(xlabel="95% interval of the slope", ylabel="simulated release")
plt.show()
