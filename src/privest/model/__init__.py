"""Measurement models: linear y = Hθ + w and nonlinear y = F(θ) + w."""

from privest.model.linear import LinearModel
from privest.model.nonlinear import NonlinearModel

__all__ = ["LinearModel", "NonlinearModel"]
