"""A series to try streams on: two weeks of a household's hourly load in kW. It is made up."""

from pathlib import Path

EXAMPLE = Path(__file__).with_name("meter.csv")
