"""Private estimation at the Cramér-Rao limit.

import privest as pv
model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04))
level = pv.PrivacyLevel(1.0)
pv.bound(model, level).ppcrlb
"""

from typing import TYPE_CHECKING

from privest import bounds, errors, linalg, model, noise, privacy
from privest.bounds import Bound, Identifiability, bound, identifiability
from privest.model import LinearModel, NonlinearModel
from privest.privacy import EndlessLevel, PrivacyLevel, StreamLevel
from privest.release import StreamRelease

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
        data,
        design,
        dynamics,
        estimator,
        ledger,
        mechanism,
        network,
        pipeline,
        report,
        scale,
        workflow,
    )
    from privest.checkpoint import Checkpoint
    from privest.estimator import PrivateRLS
    from privest.estimator._regression import PrivateLinearRegression
    from privest.ledger import Ledger
    from privest.mechanism import StreamMechanism
    from privest.workflow.calls import estimate, plan
    from privest.workflow.verify import verify
else:
    _HOME = {
        "Checkpoint": "checkpoint",
        "Ledger": "ledger",
        "PrivateLinearRegression": "estimator._regression",  # needs scikit-learn
        "PrivateRLS": "estimator",
        "StreamMechanism": "mechanism",
        "estimate": "workflow",
        "plan": "workflow",
        "verify": "workflow",
    }

    def __getattr__(name: str) -> object:
        """Rooms that a bound does not need are loaded when first asked for: `import` stays quick.

        The import itself makes a room an attribute of the package, so it comes here once.
        """
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = import_module(f"{__name__}.{_HOME.get(name, name)}")
        return getattr(home, name) if name in _HOME else home

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
