"""The releases of partitions, kept in a folder that all workers see.

A task of a cluster can run twice: its worker died, its result was lost, a second one was started
because the first was slow. With noise drawn anew, the rows would be shown twice. Here the release
of a partition is on disk before it is used (`mechanism.source.Kept`), and whoever runs the task
again, at the same time on another machine too, uses those numbers; the first to have written wins.
So does a later `fit`, with other features too: the folder IS the release.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, Flags
from privest.data import Columns, Texts
from privest.errors import InvalidInput
from privest.files import OWNER_ONLY, atomic_file
from privest.mechanism.source import Kept
from privest.reading import parse_json, read_arrays, read_document, read_fields, read_text

FORMAT = "privest releases of partitions 1"
LIST = "release.json"
AGAIN = "To release otherwise is to show more: choose another folder, and count both."


@dataclass(frozen=True)
class ReleaseFolder:
    """A folder of releases, as a task takes it along.

    mark   a random text in its list: a worker that reads another, or none, does not see this
           folder, and must not release.
    """

    path: str
    mark: str

    @classmethod
    def opened(cls, path: str | os.PathLike[str], facts: dict[str, Any]) -> ReleaseFolder:
        """The folder, made if need be; refused where its releases were made with other facts."""
        where, stated = Path(path).resolve(), json.dumps(facts, sort_keys=True)
        if where.exists() and not where.is_dir():
            raise InvalidInput(f"release={path} is a file: name a folder, which all workers see.")
        with suppress(FileExistsError):
            if not (where / LIST).exists():
                with atomic_file(where / LIST, permissions=OWNER_ONLY, first=True) as file:
                    made = {"format": FORMAT, "mark": secrets.token_hex(16), "facts": stated}
                    file.write(json.dumps(made).encode())
        found = _listed(where)
        if found["facts"] != stated:
            raise InvalidInput(
                f"the releases in {path} were made with {found['facts']}; now it is {stated}. "
                f"{AGAIN}"
            )
        return cls(str(where), found["mark"])

    def released(
        self, partition: int, shown: Flags, weight: Array, y: Array, public: dict[str, str]
    ) -> Array:
        """z̃ = c∘y + e of the rows `shown`, NaN in the others: of before, or made and kept now."""
        self._require_here()
        out = np.full(len(y), np.nan)
        count = int(shown.sum())
        if not count:
            return out
        facts: dict[str, Any] = {
            "partition": partition, "rows": len(y), "shown": _digest(np.packbits(shown)), **public
        }  # fmt: skip
        path = Path(self.path) / f"partition-{partition}.npz"
        source = Kept(path, **_as_before(path, facts))
        out[shown] = source.add_noise(
            lambda: lattice.sum_of_products([(weight, y[shown])]), shape=(count,)
        )
        return out

    def _require_here(self) -> None:
        where = Path(self.path)
        if not (where / LIST).is_file() or _listed(where)["mark"] != self.mark:
            raise InvalidInput(
                f"this worker does not see the folder {self.path} that the run began with: a task "
                "that ran again elsewhere would draw new noise for the same rows. Give a folder on "
                "a disk that all workers share. Nothing was released here."
            )


def public_digests(columns: Columns, names: tuple[str, ...]) -> dict[str, str]:
    """A hash of every public column: whether rows are still those that were released."""
    found = {}
    for name in names:
        held = columns[name]
        if isinstance(held, Texts):
            texts = json.dumps([str(one) for one in held.distinct]).encode()
            found[f"column {name}"] = _digest(held.codes, texts)
        else:
            found[f"column {name}"] = _digest(np.asarray(held, dtype="<f8"))
    return found


def _as_before(path: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of the release that is there, where they say nothing else than these.

    Columns that only one of the two has do not matter: other features, the same release.
    """
    if not path.exists():
        return facts
    stated = parse_json(str(read_arrays(path, "a kept release").get("facts", "")), str(path))
    if not isinstance(stated, dict):
        raise InvalidInput(f"{path} is not a kept release.")
    both = set(stated) & set(facts)
    other = sorted(name for name in both if stated[name] != facts[name])
    if other:
        raise InvalidInput(
            f"the rows of partition {facts['partition']} are not those that were released in "
            f"{path}: {', '.join(other)} changed. {AGAIN}"
        )
    return stated


def _listed(where: Path) -> dict[str, str]:
    document = parse_json(read_document(where / LIST), str(where / LIST))
    readers = dict.fromkeys(("format", "mark", "facts"), read_text)
    found: dict[str, str] = read_fields(document, readers, str(where / LIST))
    if found["format"] != FORMAT:
        raise InvalidInput(f"{where / LIST} is not the list of a folder of releases.")
    return found


def _digest(array: AnyArray, more: bytes = b"") -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes() + more).hexdigest()
