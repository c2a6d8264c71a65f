"""The NHANES tables that tests use where they are: ../shared/data, never committed."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "data"
RAW = FOLDER / "nhanes_raw"

needs_nhanes = pytest.mark.skipif(
    not RAW.is_dir(), reason="the NHANES tables are not here (../shared/data/nhanes_raw)"
)
