"""
Figure 1: mechanisms against the bound
======================================

Mean-square errors of the paper's mechanisms by privacy level, above the bound (``fig:ppcr``).
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import privest as pv

found = pv.paper.fig1([0.25, 1, 4, 16], trials=300)
print(found.summary())

picture = Path(tempfile.mkdtemp()) / "fig1.png"
found.save(picture)
image = plt.imread(picture)
size = image.shape[1] / 130, image.shape[0] / 130
plt.figure(figsize=size, layout="none").add_axes((0, 0, 1, 1)).imshow(image)
plt.axis("off")
plt.show()
