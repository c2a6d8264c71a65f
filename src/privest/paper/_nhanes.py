"""Serum triglyceride of the participants of NHANES, with the features of the paper.

National Health and Nutrition Examination Survey, public-use files of the US National Center for
Health Statistics; for statistical reporting only, no attempt to identify a participant.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.data._columns import ENDINGS, find_table, read_columns
from privest.data._table import Table
from privest.errors import InvalidInput
from privest.paper._download import fetch_tables

# The letter that ends the names of a cycle's files. Earlier cycles name the tables otherwise.
CYCLES = {
    "2005-2006": "D", "2007-2008": "E", "2009-2010": "F", "2011-2012": "G", "2013-2014": "H",
    "2015-2016": "I", "2017-2018": "J",
}  # fmt: skip
KEY = "SEQN"
WANTED = {"DEMO": ("RIDAGEYR", "RIAGENDR", "INDFMPIR"), "BMX": ("BMXBMI",), "TRIGLY": ("LBXTR",)}
FEMALE = 2.0


def load_nhanes(folder: str | os.PathLike[str] | None = None, cycle: str = "2011-2012") -> Table:
    """Triglycerides on age, body mass index, sex and income, complete cases of one cycle.

    `folder` has the CDC's tables DEMO, BMX and TRIGLY of the cycle, as SAS transport files
    (DEMO_G.XPT) or as .csv or .csv.xz with the CDC's column names. Without one they are fetched
    into a cache (`data/download.py`).
    Merged on SEQN, in its order, rows with no missing value; nothing else is left out. 2011-2012
    gives 2704 people, the number of the paper. Age 80 means 80 or more and income 5 means 5 times
    the poverty guideline or more, as in the files.
    """
    if cycle not in CYCLES:
        raise InvalidInput(f"cycle must be one of {', '.join(CYCLES)}; received {cycle!r}.")
    stems = {table: f"{table}_{CYCLES[cycle]}" for table in WANTED}
    place = fetch_tables(cycle, list(stems.values())) if folder is None else Path(folder)
    columns = _merged(_files(place, stems))
    return Table(
        response=columns["LBXTR"],
        features=np.column_stack(
            [
                columns["RIDAGEYR"],
                columns["BMXBMI"],
                (columns["RIAGENDR"] == FEMALE).astype(float),
                columns["INDFMPIR"],
            ]
        ),
        response_name="serum triglyceride, mg/dL",
        feature_names=("age, years", "body mass index, kg/m²", "female", "income/poverty line"),
        source=f"NHANES {cycle}",
    )


def _files(folder: Path, stems: dict[str, str]) -> dict[str, Path]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder; name one with the tables of NHANES.")
    found = {table: find_table(folder, stem) for table, stem in stems.items()}
    absent = [stems[table] for table, path in found.items() if path is None]
    if absent:
        raise InvalidInput(
            f"{folder} has no table {', '.join(absent)} (each as {' or '.join(ENDINGS)})."
        )
    return {table: path for table, path in found.items() if path is not None}


def _merged(files: dict[str, Path]) -> dict[str, Array]:
    """All wanted columns of the people who are in every table and miss nothing, by SEQN."""
    tables = {table: read_columns(path, (KEY, *WANTED[table])) for table, path in files.items()}
    people: Array | None = None
    for table, columns in tables.items():
        key = columns[KEY]
        if np.isnan(key).any() or len(np.unique(key)) != len(key):
            raise InvalidInput(f"{files[table]}: {KEY} is missing or repeated in some rows.")
        people = key if people is None else np.intersect1d(people, key)
    assert people is not None
    merged: dict[str, Array] = {}
    for table, columns in tables.items():
        order = np.argsort(columns[KEY])
        rows = order[np.searchsorted(columns[KEY], people, sorter=order)]
        merged |= {name: columns[name][rows] for name in WANTED[table]}
    complete = ~np.isnan(np.stack(list(merged.values()))).any(axis=0)
    if not complete.any():
        raise InvalidInput("no person is in all three tables with all values: another cycle's?")
    sex = merged["RIAGENDR"][complete]
    if not np.isin(sex, (1.0, FEMALE)).all():
        raise InvalidInput("RIAGENDR must be 1 (male) or 2 (female) in every row.")
    return {name: column[complete] for name, column in merged.items()}
