"""Measurement models: linear y = Hθ + w and nonlinear y = F(θ) + w."""

from privest.model._linear import LinearModel
from privest.model._nonlinear import NonlinearModel

__all__ = ["LinearModel", "NonlinearModel"]
