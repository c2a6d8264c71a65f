"""Serum triglyceride of the participants of NHANES 2011-2012, with the features of the paper.

Public-use files of the US National Center for Health Statistics; for statistical reporting only,
no attempt to identify a participant.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.data.frames import Table
from privest.data.source import open_source
from privest.errors import InvalidInput
from privest.lazy import needed

KEY = "SEQN"
WANTED: dict[str, tuple[str, ...]] = {
    "DEMO_G": ("RIDAGEYR", "RIAGENDR", "INDFMPIR"), "BMX_G": ("BMXBMI",), "TRIGLY_G": ("LBXTR",)
}  # fmt: skip
FEMALE = 2.0
ENDINGS = (".xpt", ".csv", ".csv.xz")
COPY = (
    "https://raw.githubusercontent.com/ccb-hms/nhanes-data/"
    "72658eb15dc186d383c6be17fbba3b028ae24123/Data"
)
CHECKSUMS = {
    "DEMO_G.csv.xz": "e3db1ea99c62138d442927789ef40618649f9fd4be8cb407a6ff9b5d139934e0",
    "BMX_G.csv.xz": "a5ad6463302842d1a8c4405a9abc746445e0924d7468fef6eaddaca32a910e4d",
    "TRIGLY_G.csv.xz": "3ddc2f9def5897b1a702426b62a356eca2ab9f9f2f0d82b79cda86aca046d3a8",
}


def load_nhanes(folder: str | os.PathLike[str] | None = None) -> Table:
    """Triglycerides on age, body mass index, sex and income of the paper's 2704 people.

    `folder` has the CDC's tables DEMO_G, BMX_G and TRIGLY_G as .xpt, .csv or .csv.xz; without one
    they are downloaded from a public copy and checked. Age 80 means 80 or more, income 5 means 5
    times the poverty guideline or more.

    >>> load_nhanes("cdc").features.shape  # doctest: +SKIP
    (2704, 4)
    """
    columns = _merged(_files(fetch_tables() if folder is None else Path(folder)))
    female, income = columns["RIAGENDR"] == FEMALE, columns["INDFMPIR"]
    return Table(
        response=columns["LBXTR"],
        features=np.column_stack([columns["RIDAGEYR"], columns["BMXBMI"], female, income]),
        response_name="serum triglyceride, mg/dL",
        feature_names=("age, years", "body mass index, kg/m²", "female", "income/poverty line"),
        source="NHANES 2011-2012",
    )


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder; name one with the tables of NHANES.")
    present = {path.name.lower(): path for path in folder.iterdir() if path.is_file()}
    found = {}
    for table in WANTED:
        paths = [present.get((table + ending).lower()) for ending in ENDINGS]
        if first := next(filter(None, paths), None):
            found[table] = first
    absent = [table for table in WANTED if table not in found]
    if absent:
        raise InvalidInput(
            f"{folder} has no table {', '.join(absent)} (each as {' or '.join(ENDINGS)})."
        )
    return found


def _merged(files: dict[str, Path]) -> dict[str, Array]:
    """All wanted columns of the people who are in every table and miss nothing, by SEQN."""
    tables = {table: _read(path, (KEY, *WANTED[table])) for table, path in files.items()}
    for table, columns in tables.items():
        key = columns[KEY]
        if np.isnan(key).any() or len(np.unique(key)) != len(key):
            raise InvalidInput(f"{files[table]}: {KEY} is missing or repeated in some rows.")
    people = reduce(np.intersect1d, (columns[KEY] for columns in tables.values()))
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


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, Array]:
    """These columns of a table; a SAS transport file is one whose name ends in .xpt.

    By pyreadstat: pandas' reader turns 0.0 into 5.4e-79.
    """
    if path.suffix.lower() != ".xpt":
        return open_source(path).read(columns)
    why = "SAS transport files need pyreadstat"
    pyreadstat = needed("pyreadstat", why, "data", "; or convert the table to .csv")
    try:
        found, _ = pyreadstat.read_xport(str(path), output_format="dict")
        return {name: np.asarray(found[name], dtype=np.float64) for name in columns}
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path.name} is damaged, or not a SAS transport file with {', '.join(columns)}."
        ) from None


def fetch_tables(cache: Path | None = None) -> Path:
    """The folder of the tables, after downloading those that are not there yet."""
    pooch = needed("pooch", "Downloads need pooch", "data", "; or name a folder with the tables")
    folder = (Path(pooch.os_cache("privest")) if cache is None else cache) / "nhanes-2011-2012"
    for name, known in CHECKSUMS.items():
        try:
            with _quiet(pooch.get_logger()):
                pooch.retrieve(f"{COPY}/{name}", known_hash=known, fname=name, path=folder)
        except (OSError, ValueError) as failed:  # no network or no such page; another checksum
            raise InvalidInput(_remedy(name, failed)) from None
    return folder


def _remedy(name: str, failed: Exception) -> str:
    reason = (
        "its checksum is not the known one (a broken download)"
        if isinstance(failed, ValueError) and "hash" in str(failed)
        else f"no network, or no such file ({type(failed).__name__})"
    )
    listed = "\n  ".join(f"{COPY}/{one}" for one in CHECKSUMS)
    return (
        f"{name} could not be fetched: {reason}. Bring these files into a folder and name it, "
        f"or use the embedded diabetes data, which need no file:\n  {listed}"
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
