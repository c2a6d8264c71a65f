"""Data to try things on: blood fat of survey participants (NHANES), and an embedded example."""

from privest.data.boxcox import BoxCox
from privest.data.diabetes import load_diabetes
from privest.data.nhanes import CYCLES, load_nhanes
from privest.data.table import Table

__all__ = ["CYCLES", "BoxCox", "Table", "load_diabetes", "load_nhanes"]
