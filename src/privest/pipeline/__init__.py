"""Output perturbation: estimate from the raw measurements, then release the estimate with noise."""

from privest.pipeline._perturbation import OutputPerturbation, PrivateEstimate
from privest.pipeline._report import FiniteLoss, OwnerReport

__all__ = ["FiniteLoss", "OutputPerturbation", "OwnerReport", "PrivateEstimate"]
