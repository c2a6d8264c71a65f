"""Estimate from raw measurements, then release: the inside of `mechanism.OutputPerturbation`."""

from privest.pipeline._perturbation import OutputPerturbation as OutputPerturbation
