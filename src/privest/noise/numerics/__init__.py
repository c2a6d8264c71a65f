"""Numbers for a law of which only the log-density is known: one idea a file.

landscape    where the law lives: its peaks, the edges of its mass, its widths
differences  derivatives by extrapolated central differences, with an error; where a function jumps
cdf_table    the distribution function and its inverse
mass         integral, distribution function, moments, by `noise.quadrature`
density      all of it together: derivatives, jumps, kinks, Fisher information
weighted     the score that weighs E ψ² against E ψ'² best
"""
