"""What a bound takes: a model, local where it is nonlinear, and a level that fits it."""

from __future__ import annotations

from numpy.typing import ArrayLike

from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel, as_level


def local_model(model: LinearModel | NonlinearModel, theta: ArrayLike | None = None) -> LinearModel:
    """The linear model that the bounds use: the model itself, or y = F(θ) + w near `theta`.

    Remark after `thm:crbound`: the proof treats Hθ as one quantity, so the bound of a nonlinear
    model is that of H = F'(θ); it speaks of unbiased estimates at that θ.
    """
    if isinstance(model, LinearModel):
        if theta is not None:
            raise InvalidInput("A linear model has the same bound at every theta: leave theta out.")
        return model
    if isinstance(model, NonlinearModel):
        if theta is None:
            raise InvalidInput(
                "The bound of a nonlinear model is local: pass theta=..., or model.at(theta)."
            )
        return model.at(theta)
    raise InvalidInput(
        f"model must be a LinearModel or a NonlinearModel; received {type(model).__name__}."
    )


def level_for(level: PrivacyLevel | ArrayLike, model: LinearModel) -> PSD:
    """S for the readings of the model."""
    return as_level(level).for_size(model.readings)
