"""
Inside scikit-learn
===================

``PrivateLinearRegression`` is a scikit-learn estimator. A fit needs an account of a ledger, or
``simulate=True``, which protects nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

import privest as pv

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 4))
y = X @ [1.0, -0.5, 0.25, 0.0] + rng.normal(0, 0.5, 2000)
levels = np.geomspace(0.01, 10, 10)
scores = [
    cross_val_score(
        pv.PrivateLinearRegression(level=s, noise=0.25, simulate=True, random_state=0), X, y
    ).mean()
    for s in levels
]

figure, axes = plt.subplots()
axes.semilogx(levels, scores, "o-")
without = cross_val_score(LinearRegression(), X, y).mean()
axes.axhline(without, color="k", linestyle=":", label="without privacy")
axes.set(xlabel="privacy level s", ylabel="R² on the other folds")
axes.legend()
plt.show()
