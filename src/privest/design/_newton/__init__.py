"""The primal-dual Newton engine: every criterion, limit and direction."""

from privest.design._newton._solving import features, solve_budget, solve_target

__all__ = ["features", "solve_budget", "solve_target"]
