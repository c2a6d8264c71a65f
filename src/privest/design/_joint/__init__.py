"""Levels that are full matrices: noise drawn jointly, by one trusted curator."""
