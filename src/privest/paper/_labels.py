"""The name in privest of every label of the paper."""

from __future__ import annotations

# Dotted names under `privest`. Steps of proofs, which nothing computes, have None.
LABELS: dict[str, str | None] = {
    # 2: the problem
    "sys": "LinearModel",
    "def:admissible": "mechanism.Mechanism",
    "obj:id": "bound",
    "obj:adv": "audit.attack",
    "thm:Ocrbound": "audit.attack",
    "def:Fisher": "audit.fisher_information",
    "def:RS": "bound",
    "def:DP": "privacy.metric_trace",
    "ineq:def_DP": "privacy.metric_trace",
    "prop:DP2Fisher": "privacy.metric_trace",
    # 3.1: identifiability
    "assum:w0": "LinearModel",
    "def:identifiable": "identifiability",
    "thm:identifiable": "identifiability",
    "eq:mech": "GaussianMechanism",
    # 3.2: the bound
    "thm:crbound": "bound",
    "concl:PPCRB": "bound",
    "ineq:pre/ppcr": None,
    "eq:lnp=Ew": None,
    "eq:lnp=Ey": None,
    "ineq:ES": "bound",
    "coro:PPCR": "Bound.cost_floor",
    "eq:PPCR-CR": None,
    "coro:DP": "bounds.trace_bound",
    # 3.3: streams
    "sys:mult": "LinearModel",
    "def:YH": "bound",
    "eq:barS": "StreamLevel",
    "algo:recursive_PI": "bound",
    "thm:PPF_recur": "bound",
    "eq:recur_barS": None,
    "algo:recursive_PPCR": "bound",
    "coro:PPCR_recur": "bound",
    # 3.4: attained by Gaussian noise
    "optM": "GaussianMechanism",
    "optEst": "estimate",
    "algo:PP_RLS": "PrivateRLS",
    "thm:opt": "GaussianMechanism",
    "eq:mean_zeta": None,
    # 3.5: noise that is not Gaussian
    "algo:mult": "mechanism.OutputPerturbation",
    "assum:mult": "mechanism.OutputPerturbation",
    "thm:rate_attainablility": "mechanism.OutputPerturbation",
    "concl:ML": "mechanism.OutputPerturbation",
    "eq:ML_2nd": None,
    "eq:traceS": None,
    "eq:lim_Fisher/K": None,
    # 4: applications
    "ex:affine": "mechanism.Componentwise",
    "mech:trigonometry": "noise.CosSquared",
    "remark:truncation": "mechanism.Inverse",
    "eq:state_space": "dynamics.StateSpace",
    "sys:dynamic_re": "bound",
    "def:prior": "bounds.prior_information",
    "sys:multi/k=1": "network.Sensor",
    "algo:average/priv": "network.Sensor",
    "algo:average/eff": "network.fuse",
    "algo:average": "network.consensus",
    "thm:eff/fusion": "network.consensus",
    "coro:consensus": "bounds.consensus_bound",
    # 5: simulations
    "fig:ppcr": "paper.fig1",
    "fig:pprls-non-syms": "paper.fig2",
    "fig:pprls-syms": "paper.fig3",
    "fig:ml": "paper.fig4",
    # appendix
    "lemma:halfFisher=0": None,
    "lemma:PPCR_S": "bound",
}
