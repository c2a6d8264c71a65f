"""The paper's reproduction in one room: figures, what they are said to show, literal algorithms.

    label in the paper         file            it has
    fig:ppcr                   fig1.py         figure_one, claims, save_figure; your own method
    fig:pprls-non-syms         fig2.py         figure_two, claims, save_figure
    fig:pprls-syms             fig3.py         figure_three, claims, save_figure
    fig:ml                     fig4.py         figure_four, claims, save_figure
    algo:recursive_PI          reference.py    recursive_information
    algo:recursive_PPCR        reference.py    recursive_bound
    algo:PP_RLS                reference.py    sequential_gaussian, private_rls
    wang2024asymptotically     _quantised.py   QuasiNewton, the one-bit rival of fig:pprls-syms

fig1's set-up is _first.py, its mechanisms and estimators _methods.py.
fig2 and fig3 have one set-up: people (_people.py, _nhanes.py), their streams (_streams.py) and what
chance may do (_band.py). Trials, seeds and claims are in _engine.py, `privest reproduce` is in
commands/. `algo:mult` and the mechanisms of fig1 are the library's own: `privest.pipeline` and
`privest.mechanism`. Nothing in the library depends on this room; only the command line imports it.
"""

from privest.paper import fig1, fig2, fig3, fig4, reference
from privest.paper._engine import Claim
from privest.paper._nhanes import CYCLES, load_nhanes
from privest.paper._people import PLANS, Plan, load
from privest.paper._quantised import QuasiNewton

__all__ = [
    "CYCLES", "PLANS", "Claim", "Plan", "QuasiNewton", "fig1", "fig2", "fig3", "fig4",
    "load", "load_nhanes", "reference",
]  # fmt: skip
