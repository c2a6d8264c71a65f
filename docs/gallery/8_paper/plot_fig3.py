"""
Figure 3: a stream of people, symmetric levels
==============================================

The same with levels that are the same for everyone (``fig:pprls-syms``).
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import privest as pv

found = pv.paper.fig3(trials=50)
print(found.summary())

picture = Path(tempfile.mkdtemp()) / "fig3.png"
found.save(picture)
image = plt.imread(picture)
size = image.shape[1] / 130, image.shape[0] / 130
plt.figure(figsize=size, layout="none").add_axes((0, 0, 1, 1)).imshow(image)
plt.axis("off")
plt.show()
