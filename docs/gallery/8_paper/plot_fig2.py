"""
Figure 2: a stream of people, without symmetry
==============================================

Private recursive least squares on the diabetes data reaches the bound (``fig:pprls-non-syms``).
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import privest as pv

found = pv.paper.fig2(trials=50)
print(found.summary())

picture = Path(tempfile.mkdtemp()) / "fig2.png"
found.save(picture)
image = plt.imread(picture)
size = image.shape[1] / 130, image.shape[0] / 130
plt.figure(figsize=size, layout="none").add_axes((0, 0, 1, 1)).imshow(image)
plt.axis("off")
plt.show()
