"""Private estimation at the Cramér-Rao limit.

import privest as pv
model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04))
level = pv.PrivacyLevel(1.0)
pv.bound(model, level).covariance
"""

from typing import TYPE_CHECKING

__version__ = "0.2.0"

__all__ = [
    "Bound", "Checkpoint", "EndlessLevel", "Identifiability", "Ledger", "LinearModel",
    "NonlinearModel", "PrivacyLevel", "PrivateLinearRegression", "PrivateRLS", "StreamLevel",
    "StreamMechanism", "StreamRelease", "__version__", "audit", "bound", "bounds", "data", "design",
    "dynamics", "errors", "estimate", "estimator", "identifiability", "ledger", "linalg",
    "mechanism", "model", "network", "noise", "pipeline", "plan", "privacy", "report", "scale",
    "verify", "workflow",
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
        linalg,
        mechanism,
        model,
        network,
        noise,
        pipeline,
        privacy,
        report,
        scale,
        workflow,
    )
    from privest.bounds import Bound, Identifiability, bound, identifiability
    from privest.checkpoint import Checkpoint
    from privest.estimator import PrivateRLS
    from privest.estimator.regression import PrivateLinearRegression
    from privest.ledger import Ledger
    from privest.mechanism import StreamMechanism
    from privest.model import LinearModel, NonlinearModel
    from privest.privacy import EndlessLevel, PrivacyLevel, StreamLevel
    from privest.release import StreamRelease
    from privest.workflow.calls import plan
    from privest.workflow.estimate import estimate
    from privest.workflow.verify import verify
else:
    _HOME = {
        **dict.fromkeys(("Bound", "Identifiability", "bound", "identifiability"), "bounds"),
        **dict.fromkeys(("LinearModel", "NonlinearModel"), "model"),
        **dict.fromkeys(("EndlessLevel", "PrivacyLevel", "StreamLevel"), "privacy"),
        **dict.fromkeys(("estimate", "plan", "verify"), "workflow"),
        "Checkpoint": "checkpoint",
        "Ledger": "ledger",
        "PrivateLinearRegression": "estimator.regression",  # needs scikit-learn
        "PrivateRLS": "estimator",
        "StreamMechanism": "mechanism",
        "StreamRelease": "release",
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
