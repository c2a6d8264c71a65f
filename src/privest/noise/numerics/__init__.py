"""A density known only by its logarithm, numerically.

landscape    peaks, edges of the mass, widths
differences  derivatives by extrapolated central differences, with an error; where a function jumps
mass         integral, distribution function and its inverse, moments
density      derivatives, jumps, kinks, Fisher information
weighted     the score that weighs E ψ² against E ψ'² best
"""
