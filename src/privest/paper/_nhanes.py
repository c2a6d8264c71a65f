"""Serum triglyceride of the participants of NHANES, with the features of the paper.

National Health and Nutrition Examination Survey, public-use files of the US National Center for
Health Statistics; for statistical reporting only, no attempt to identify a participant.

Without a folder the tables come from the network, checked and kept: 2011-2012 from a public copy at
a fixed commit, with checksums known in advance; other cycles from the CDC, whose files have no
published checksum and may be revised: the checksum of the first download is kept beside the files,
and they are held to it afterwards.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.data import Table, open_source
from privest.errors import InvalidInput, MissingDependency
from privest.reading import parse_json, read_document

# The letter that ends the names of a cycle's files. Earlier cycles name the tables otherwise.
CYCLES = {
    "2005-2006": "D", "2007-2008": "E", "2009-2010": "F", "2011-2012": "G", "2013-2014": "H",
    "2015-2016": "I", "2017-2018": "J",
}  # fmt: skip
KEY = "SEQN"
WANTED = {"DEMO": ("RIDAGEYR", "RIAGENDR", "INDFMPIR"), "BMX": ("BMXBMI",), "TRIGLY": ("LBXTR",)}
FEMALE = 2.0
ENDINGS = (".xpt", ".csv", ".csv.xz")

COPY = (
    "https://raw.githubusercontent.com/ccb-hms/nhanes-data/"
    "72658eb15dc186d383c6be17fbba3b028ae24123/Data"
)
CDC = "https://wwwn.cdc.gov/Nchs/Data/Nhanes/Public"
CHECKSUMS = {
    "DEMO_G.csv.xz": "e3db1ea99c62138d442927789ef40618649f9fd4be8cb407a6ff9b5d139934e0",
    "BMX_G.csv.xz": "a5ad6463302842d1a8c4405a9abc746445e0924d7468fef6eaddaca32a910e4d",
    "TRIGLY_G.csv.xz": "3ddc2f9def5897b1a702426b62a356eca2ab9f9f2f0d82b79cda86aca046d3a8",
}
KEPT = "checksums.json"


def load_nhanes(folder: str | os.PathLike[str] | None = None, cycle: str = "2011-2012") -> Table:
    """Triglycerides on age, body mass index, sex and income, complete cases of one cycle.

    `folder` has the CDC's tables DEMO, BMX and TRIGLY of the cycle, as SAS transport files
    (DEMO_G.XPT) or as .csv or .csv.xz with the CDC's column names. Without one they are fetched
    into a cache (`fetch_tables`).
    Merged on SEQN, in its order, rows with no missing value; nothing else is left out. 2011-2012
    gives 2704 people, the number of the paper. Age 80 means 80 or more and income 5 means 5 times
    the poverty guideline or more, as in the files.
    """
    if cycle not in CYCLES:
        raise InvalidInput(f"cycle must be one of {', '.join(CYCLES)}; received {cycle!r}.")
    stems = {table: f"{table}_{CYCLES[cycle]}" for table in WANTED}
    place = fetch_tables(cycle, list(stems.values())) if folder is None else Path(folder)
    columns = _merged(_files(place, stems))
    female, income = columns["RIAGENDR"] == FEMALE, columns["INDFMPIR"]
    return Table(
        response=columns["LBXTR"],
        features=np.column_stack([columns["RIDAGEYR"], columns["BMXBMI"], female, income]),
        response_name="serum triglyceride, mg/dL",
        feature_names=("age, years", "body mass index, kg/m²", "female", "income/poverty line"),
        source=f"NHANES {cycle}",
    )


def _files(folder: Path, stems: dict[str, str]) -> dict[str, Path]:
    """The file of each table, whatever the case of its name; .xpt before .csv."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder; name one with the tables of NHANES.")
    present = {path.name.lower(): path for path in folder.iterdir() if path.is_file()}
    found, absent = {}, []
    for table, stem in stems.items():
        paths = [present.get((stem + ending).lower()) for ending in ENDINGS]
        if first := next(filter(None, paths), None):
            found[table] = first
        else:
            absent.append(stem)
    if absent:
        raise InvalidInput(
            f"{folder} has no table {', '.join(absent)} (each as {' or '.join(ENDINGS)})."
        )
    return found


def _merged(files: dict[str, Path]) -> dict[str, Array]:
    """All wanted columns of the people who are in every table and miss nothing, by SEQN."""
    tables = {table: open_source(path).read((KEY, *WANTED[table])) for table, path in files.items()}
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


def fetch_tables(cycle: str, stems: Sequence[str], cache: Path | None = None) -> Path:
    """The folder that holds these tables, after downloading those that are not there yet.

    `cache` defaults to the user's cache folder. Raises InvalidInput with the addresses, so that
    the files can be brought by hand, where there is no network or a file is not the known one.
    """
    try:
        import pooch
    except ImportError as missing:
        raise MissingDependency(
            "Downloads need pooch: install the extra 'data', for example with "
            'pip install ".[data]" in the source folder; or name a folder with the tables.'
        ) from missing
    folder = (Path(pooch.os_cache("privest")) if cache is None else cache) / f"nhanes-{cycle}"
    record = folder / KEPT
    known: dict[str, str] = CHECKSUMS | _first_seen(record)
    addresses = [address(cycle, stem) for stem in stems]
    for url in addresses:
        name = url.rsplit("/", 1)[1]
        try:
            with _quiet(pooch.get_logger()):
                pooch.retrieve(url, known_hash=known.get(name), fname=name, path=folder)
        except (OSError, ValueError) as failed:  # no network or no such page; another checksum
            raise InvalidInput(_remedy(url, failed, addresses)) from None
        if name not in known:
            known[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            first_seen = {one: digest for one, digest in known.items() if one not in CHECKSUMS}
            record.write_text(json.dumps(first_seen, indent=1) + "\n", encoding="utf-8")
    return folder


def _first_seen(record: Path) -> dict[str, str]:
    """Checksums of what was downloaded before; a damaged list must not let another file pass."""
    if not record.is_file():
        return {}
    found = parse_json(read_document(record), str(record))
    if not isinstance(found, dict) or not all(
        isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
        for digest in found.values()
    ):
        raise InvalidInput(f"{record} is damaged: remove its folder to download everything anew.")
    return found


def address(cycle: str, stem: str) -> str:
    """Where a table is."""
    if f"{stem}.csv.xz" in CHECKSUMS:
        return f"{COPY}/{stem}.csv.xz"
    return f"{CDC}/{cycle[:4]}/DataFiles/{stem}.XPT"


def _remedy(url: str, failed: Exception, addresses: Sequence[str]) -> str:
    reason = (
        "its checksum is not the known one (a revised file, or a broken download)"
        if isinstance(failed, ValueError) and "hash" in str(failed)
        else f"no network, or no such file ({type(failed).__name__})"
    )
    listed = "\n  ".join(addresses)
    return (
        f"{url} could not be fetched: {reason}. Bring these files into a folder and name it, "
        f"or use the embedded diabetes data, which need no file:\n  {listed}"
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Without pooch's messages about every file."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
