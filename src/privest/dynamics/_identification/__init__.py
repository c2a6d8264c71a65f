"""Identification: the parameters of a state-space family from releases alone (post-processing)."""
