"""
The cost before anything is spent
=================================

A plan reads public columns only. It says how large each standard error will be, at any ε.
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

diabetes = pv.data.load_diabetes()
epsilons = np.geomspace(0.3, 30, 12)
errors = []
for epsilon in epsilons:
    plan = pv.plan("diabetes", "s5 ~ age + bmi + bp", epsilon=epsilon, residual_variance=0.2,
                   range=(3, 6.5))  # fmt: skip
    errors.append(plan.standard_error)

figure, axes = plt.subplots()
for name, own, without in zip(plan.names[1:], np.transpose(errors)[1:], plan.classical_error[1:]):
    (line,) = axes.loglog(epsilons, own, label=name)
    axes.axhline(without, color=line.get_color(), linestyle=":")
axes.set(xlabel="ε (δ = 1e-6, one value replaced)", ylabel="standard error",
         title="442 people; dotted: without privacy")  # fmt: skip
axes.legend()
plt.show()
