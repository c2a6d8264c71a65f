"""Measurement models: linear y = Hθ + w and nonlinear y = F(θ) + w."""

from privest.model._models import LinearModel, NonlinearModel

__all__ = ["LinearModel", "NonlinearModel"]
