"""NHANES tables from the network, checked and kept.

2011-2012 comes from a public copy of the CDC's tables at a fixed commit, with checksums known in
advance. Other cycles come from the CDC, whose files have no published checksum and may be revised:
the checksum of the first download is kept beside the files, and they are held to it afterwards.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from privest.errors import InvalidInput, MissingDependency

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
    known: dict[str, str] = CHECKSUMS | (
        json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    )
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
