"""A density known only by its logarithm, numerically."""
