"""The dual Newton engine: few unknowns, readings that are only priced; for many readings."""

from privest.design._dual._search import Search, solve_budget
from privest.design._dual._target import solve_target

__all__ = ["Search", "solve_budget", "solve_target"]
