"""Numbers for a law of which only the log-density is known: one idea a file.

landscape    where the law lives: its peaks, the edges of its mass, its widths
panels       adaptive quadrature on panels that shrink towards special points and grow to infinity
differences  derivatives by extrapolated central differences, with an error
jumps        where a function jumps, by bisecting many cells at once
cdf_table    the distribution function and its inverse
density      all of it together: mass, moments, Fisher information
"""
