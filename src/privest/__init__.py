"""Private estimation at the Cramér-Rao limit.

import privest as pv
model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04))
level = pv.PrivacyLevel(1.0)
pv.bound(model, level).ppcrlb
"""

from typing import TYPE_CHECKING

from privest import (
    audit,
    bounds,
    data,
    dynamics,
    errors,
    linalg,
    mechanism,
    network,
    noise,
    pipeline,
    privacy,
    scale,
)
from privest.bounds import Bound, Identifiability, bound, identifiability
from privest.checkpoint import Checkpoint
from privest.estimator import PrivateRLS
from privest.mechanism import StreamMechanism
from privest.model import LinearModel, NonlinearModel
from privest.privacy import EndlessLevel, PrivacyLevel, StreamLevel
from privest.release import StreamRelease

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "Checkpoint",
    "EndlessLevel",
    "Identifiability",
    "LinearModel",
    "NonlinearModel",
    "PrivacyLevel",
    "PrivateLinearRegression",
    "PrivateRLS",
    "StreamLevel",
    "StreamMechanism",
    "StreamRelease",
    "__version__",
    "audit",
    "bound",
    "bounds",
    "data",
    "dynamics",
    "errors",
    "identifiability",
    "linalg",
    "mechanism",
    "network",
    "noise",
    "pipeline",
    "privacy",
    "scale",
]

if TYPE_CHECKING:
    from privest.estimator._regression import PrivateLinearRegression
else:

    def __getattr__(name: str) -> object:
        """PrivateLinearRegression is loaded when first asked for: it needs scikit-learn."""
        if name == "PrivateLinearRegression":
            from privest.estimator._regression import PrivateLinearRegression

            return PrivateLinearRegression
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
