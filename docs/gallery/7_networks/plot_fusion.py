"""
Sensors with different levels
=============================

Twenty sensors, half of them strict. Their releases are fused into one estimate that attains the
bound of all of them (``thm:eff/fusion``).
"""

import matplotlib.pyplot as plt
import numpy as np

import privest as pv

rng = np.random.default_rng(0)
theta = np.array([14.0, 5.0])
sensors = [
    pv.network.Sensor(np.column_stack([np.ones(4), rng.random(4)]), noise=1.0, level=float(s))
    for s in np.repeat([0.1, 1.0], 10)
]
releases = [one.simulate(one.model.sample(theta, rng), rng) for one in sensors]
errors, floors = [], []
for count in range(1, 21):
    errors.append(pv.network.fuse(sensors[:count], releases[:count]).standard_error[1])
    floors.append(pv.bound(*pv.network.joint_model(sensors[:count])).standard_error[1])

figure, axes = plt.subplots()
axes.plot(range(1, 21), floors, label="bound")
axes.plot(range(1, 21), errors, "o", label="fused estimate")
axes.set(xlabel="sensors heard (the first ten are strict)", ylabel="standard error of the slope")
axes.legend()
plt.show()
