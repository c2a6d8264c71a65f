"""Private estimation at the Cramér-Rao limit.

import privest as pv
model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04))
level = pv.PrivacyLevel(1.0)
pv.bound(model, level).covariance
"""

from typing import TYPE_CHECKING

__version__ = "1.0.0rc1"

__all__ = [
    "Bound", "Checkpoint", "Estimate", "GaussianMechanism", "Identifiability", "Ledger",
    "LinearModel", "NonlinearModel", "PrivacyLevel", "PrivateLinearRegression", "PrivateRLS",
    "Release", "StreamLevel", "StreamMechanism", "__version__", "audit", "bound", "bounds",
    "data", "design", "dynamics", "errors", "estimate", "estimator", "identifiability", "ledger",
    "mechanism", "network", "noise", "paper", "plan", "privacy", "verify", "workflow",
]  # fmt: skip

if TYPE_CHECKING:
    from privest import (
        audit,
        bounds,
        data,
        design,
        dynamics,
        errors,
        estimator,
        ledger,
        mechanism,
        network,
        noise,
        paper,
        privacy,
        workflow,
    )
    from privest.bounds import Bound, Identifiability, bound, identifiability
    from privest.checkpoint import Checkpoint
    from privest.estimator import Estimate, PrivateRLS
    from privest.estimator.regression import PrivateLinearRegression
    from privest.ledger import Ledger
    from privest.mechanism import GaussianMechanism, StreamMechanism
    from privest.model import LinearModel, NonlinearModel
    from privest.privacy import PrivacyLevel, StreamLevel
    from privest.release import Release
    from privest.workflow.estimate import estimate
    from privest.workflow.plan import plan
    from privest.workflow.verify import verify
else:
    _HOME = {
        **dict.fromkeys(("Bound", "Identifiability", "bound", "identifiability"), "bounds"),
        **dict.fromkeys(("LinearModel", "NonlinearModel"), "model"),
        **dict.fromkeys(("PrivacyLevel", "StreamLevel"), "privacy"),
        "estimate": "workflow.estimate",
        "plan": "workflow.plan",
        "verify": "workflow.verify",
        "Checkpoint": "checkpoint",
        "Estimate": "estimator",
        "Ledger": "ledger",
        "PrivateLinearRegression": "estimator.regression",  # needs scikit-learn
        "PrivateRLS": "estimator",
        **dict.fromkeys(("GaussianMechanism", "StreamMechanism"), "mechanism"),
        "Release": "release",
    }

    def __getattr__(name: str) -> object:
        """Packages and names are loaded when they are first asked for: `import` stays quick."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = import_module(f"{__name__}.{_HOME.get(name, name)}")
        found = getattr(home, name) if name in _HOME else home
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
