"""
Yes or no
=========

A private yes/no column, by the share of yes in two groups: noisy sums (a trusted owner) and
randomised response, where every person's answer is flipped with a known probability.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import privest as pv

rng = np.random.default_rng(0)
table = pd.DataFrame({"group": np.repeat(["a", "b"], 1000)})
table["smoker"] = (rng.random(2000) < np.where(table["group"] == "a", 0.2, 0.35)).astype(int)
epsilons = np.geomspace(0.2, 5, 8)

figure, axes = plt.subplots()
for form in ("aggregate", "rows"):
    errors = []
    for e in epsilons:
        plan = pv.plan(table, "smoker ~ C(group)", categories={"group": ["a", "b"]}, epsilon=e,
                       family="binomial", form=form)  # fmt: skip
        errors.append(pv.estimate(plan.simulate(rng=1)).standard_error[1])
    axes.loglog(epsilons, errors, "o-", label=form)
axes.set(xlabel="ε", ylabel="standard error of the difference")
axes.set_xticks([0.2, 0.5, 1, 2, 5], labels=["0.2", "0.5", "1", "2", "5"])
axes.tick_params(axis="x", which="minor", labelbottom=False)
axes.legend()
plt.show()
