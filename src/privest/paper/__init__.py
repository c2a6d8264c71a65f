"""The paper's reproduction: four figures with their claims, the algorithms as printed, the labels.

fig1 … fig4   `fig:ppcr`, `fig:pprls-non-syms`, `fig:pprls-syms`, `fig:ml`: each returns a `Figure`.
reference     `algo:recursive_PI`, `algo:recursive_PPCR`, `algo:PP_RLS`, literally.
LABELS        the name in privest of every label of the paper.

>>> import numpy as np
>>> LABELS["thm:crbound"]
'bound'
>>> one, none = np.eye(1), np.zeros((0, 1))
>>> steps = [reference.Step(one, one, one, none), reference.Step(one, one, one, 0 * one)]
>>> [step.PI.item() for step in reference.recursive_information(steps)]  # 1/(1 + 1) a measurement
[0.5, 1.0]
"""

from privest.paper import reference
from privest.paper._fig1 import fig1
from privest.paper._fig2 import fig2
from privest.paper._fig3 import fig3
from privest.paper._fig4 import fig4
from privest.paper._figure import Figure
from privest.paper._labels import LABELS
from privest.paper._methods import PAPER as PAPER
from privest.paper._methods import setting_of as setting_of

__all__ = ["LABELS", "Figure", "fig1", "fig2", "fig3", "fig4", "reference"]
