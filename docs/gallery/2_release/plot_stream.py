"""
A stream, step by step
======================

The mechanism sees each measurement once; the estimator sees releases only. After every step its
standard error equals the bound (``algo:PP_RLS``).
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
H = np.column_stack([np.ones(300), rng.normal(size=300)])
model = pv.LinearModel(H, noise=0.25, names=["mean", "slope"])
y = model.sample([2.0, 0.5], rng)

level = pv.StreamLevel.constant(4.0)
owner, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, parameters=2, noise=0.25)
slopes, errors = [], []
for h, value in zip(H, y):
    rls.update(owner.simulate(value, rng), h)
    slopes.append(rls.estimate.value[1] if rls.identifiable else np.nan)
    errors.append(rls.estimate.standard_error[1] if rls.identifiable else np.nan)
slopes, errors = np.array(slopes), np.array(errors)

figure, axes = plt.subplots()
axes.fill_between(range(300), slopes - 1.96 * errors, slopes + 1.96 * errors, alpha=0.3)
axes.plot(slopes, label="slope and its 95% interval")
axes.axhline(0.5, color="k", linestyle=":", label="truth")
axes.set(xlabel="step", ylim=(0, 1))
axes.legend()
plt.show()
