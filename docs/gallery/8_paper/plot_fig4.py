"""
Figure 4: the ML-based algorithm
================================

Errors fall at the rate of the bound as measurements come in (``fig:ml``).
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import privest as pv

found = pv.paper.fig4(trials=200)
print(found.summary())

picture = Path(tempfile.mkdtemp()) / "fig4.png"
found.save(picture)
image = plt.imread(picture)
size = image.shape[1] / 130, image.shape[0] / 130
plt.figure(figsize=size, layout="none").add_axes((0, 0, 1, 1)).imshow(image)
plt.axis("off")
plt.show()
