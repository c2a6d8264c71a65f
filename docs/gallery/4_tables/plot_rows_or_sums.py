"""
Noisy rows or noisy sums
========================

A data owner who is trusted with the table publishes a few noisy sums. Without trust, every row gets
its own noise, and the same ε costs far more.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import privest as pv

rng = np.random.default_rng(0)
table = pd.DataFrame({"age": rng.uniform(20, 80, 5000), "ldl": rng.normal(3, 0.6, 5000)})
epsilons = np.geomspace(0.3, 30, 9)

figure, axes = plt.subplots()
for form in ("rows", "aggregate"):
    plans = [
        pv.plan(table, "ldl ~ age", epsilon=e, delta=1e-6, range=(0, 10), residual_variance=0.36,
                form=form)
        for e in epsilons
    ]  # fmt: skip
    axes.loglog(epsilons, [plan.standard_error[1] for plan in plans], "o-", label=form)
axes.axhline(plans[0].classical_error[1], color="k", linestyle=":", label="without privacy")
axes.set(xlabel="ε (δ = 1e-6, one value replaced)", ylabel="standard error of age")
axes.legend()
plt.show()
