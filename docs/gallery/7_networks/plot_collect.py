"""
Many devices, one estimate
==========================

Five hundred devices release one measurement each day, at one of two levels. A collector adds their
reports up. The estimate after each day, reports that came late included, attains the bound.
"""

import matplotlib.pyplot as plt
import numpy as np

from privest.collect import CollectionPlan, Report, estimate, open_store, running_sums

rng, theta = np.random.default_rng(0), np.array([0.4, 0.8])
plan = CollectionPlan(
    name="meters", features=("cold",), range=(0.0, 2.0), residual_variance=0.04,
    levels={"low": 0.5, "high": 4.0}, steps=30,
)  # fmt: skip
reports = []
for device in range(500):
    level = "high" if device % 5 == 0 else "low"
    cold = np.round(rng.random(30) * 65536)
    y = theta[0] + theta[1] * cold / 65536 + 0.2 * rng.standard_normal(30)
    z = np.rint(plan.mechanism(level).simulate(y, rng).values * 1024).astype(int)
    reports += [
        Report(f"{device:016x}{day:016x}", f"d{device}", day, level, (int(cold[day]),), int(z[day]))
        for day in range(30)
    ]
with open_store(":memory:", plan) as store:
    store.add([reports[k] for k in rng.permutation(len(reports))])  # in any order
    course = [estimate(plan, sums).estimate for _, sums in running_sums(store)]

figure, axes = plt.subplots()
value, low, high = np.array([[one.value[1], *one.interval()[1]] for one in course]).T
axes.fill_between(range(1, 31), low, high, alpha=0.3, label="95% interval")
axes.plot(range(1, 31), value, label="estimate of the slope")
axes.axhline(theta[1], color="black", linewidth=0.8, label="truth")
axes.set(xlabel="day", ylabel="slope")
axes.legend()
plt.show()
