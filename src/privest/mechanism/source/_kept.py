"""A release that is on disk before anybody sees it, and is used again when asked for again."""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array
from privest.errors import InvalidInput
from privest.files import OWNER_ONLY, atomic_file
from privest.lattice import Coin
from privest.mechanism.source._noise import (
    Clip,
    Law,
    Protected,
    Shown,
    Source,
    clip_fact,
    in_doubles,
    law_fact,
    numbers,
    require_room,
    shape_of,
)
from privest.reading import read_arrays, read_bytes, state_array, state_flag

KEY_BYTES = 32
KEPT = "privest kept release 3"
SPENT = "To release these too is to show more: choose another file, and count both."


class Kept(Source):
    """One release that is on disk before anybody sees it, and is used again when asked for again.

    The first run writes what it releases to `path`, for its owner alone to read, before it returns
    it; every later run at the same level gets these numbers, and logs a warning ("privest").
    `source` (protected if None) gives the noise of the first run. `facts` (texts and numbers, such
    as level=4.0) are public, written down, and compared one by one. A tag, HMAC-SHA256 under a
    random key in the file `path`.key, refuses a changed file. Nothing in the two files is made of
    the measurements, which are never compared.
    """

    def __init__(
        self, path: str | os.PathLike[str], source: Source | None = None, **facts: str | float
    ) -> None:
        self.path: Path = Path(path)
        self.source: Protected | Source = Protected() if source is None else source
        self.facts: str = json.dumps(facts, sort_keys=True)

    @property
    def simulated(self) -> bool:  # type: ignore[override]  # of the source, whichever it is now
        return self.source.simulated

    @property
    def grid(self) -> float:  # type: ignore[override]
        return self.source.grid

    @property
    def key_path(self) -> Path:
        """The key, which never goes where the release goes."""
        return self.path.with_name(f"{self.path.name}.key")

    def add_noise(
        self,
        shown: Shown,
        *,
        shape: tuple[int, ...] | None = None,
        at: int = 0,
        sizes: Sequence[int] | None = None,
        law: Law = "gaussian",
        clip: Clip | None = None,
        fingerprint: str | None = None,
    ) -> Array:
        """The release of before, else a new one that is now on disk."""
        if sizes is not None:
            raise InvalidInput("one whole release is kept; a stream is kept by a Checkpoint.")
        if self.simulated and not isinstance(law, Coin):  # a real release refuses no value
            require_room(in_doubles(shown))
        how = {"shape": shape, "at": at, "law": law, "clip": clip, "fingerprint": fingerprint}
        made = json.dumps(
            {"fingerprint": fingerprint, "law": law_fact(law), "clip": clip_fact(clip)}
        )
        self.resent = self.path.exists()
        if not self.resent:
            try:
                return self._new(shown, how, made)
            except FileExistsError:  # another process was quicker
                self.resent: bool = True
        released = self._read(shape_of(numbers(shown)), made)
        logging.getLogger("privest").warning(
            "privest: the release in %s is used again: nothing new is shown.", self.path
        )
        return released

    def _new(self, shown: Shown, how: dict[str, Any], made: str) -> Array:
        """A new release, on disk. The first of several processes to end has made it.

        The others get FileExistsError; what they drew is gone, and nobody has seen it.
        """
        with atomic_file(self.path, permissions=OWNER_ONLY, first=True) as file:
            if self.path.exists():
                raise FileExistsError
            if not self.key_path.exists():
                with (
                    suppress(FileExistsError),  # one key for all
                    atomic_file(self.key_path, permissions=OWNER_ONLY, first=True) as key,
                ):
                    key.write(secrets.token_bytes(KEY_BYTES))
            released = self.source.add_noise(shown, **how)
            np.savez(
                file, format=np.array(KEPT), facts=np.array(self.facts), made=np.array(made),
                values=released, simulated=np.array(self.simulated),
                tag=_bytes(self._release_tag(released, made)),
                readings=_bytes(self._tag("readings", b"")),  # was once of a simulation's
            )  # fmt: skip
        return released

    def _read(self, shape: tuple[int, ...], made: str) -> Array:
        arrays = read_arrays(self.path, "a kept release")
        if set(arrays) != {"format", "facts", "made", "values", "simulated", "tag", "readings"}:
            raise InvalidInput(f"{self.path} is not a kept release.")
        if str(arrays["format"]) != KEPT or arrays["values"].dtype != np.float64:
            raise InvalidInput(f"{self.path} is not a kept release.")
        simulated, values = state_flag(arrays, "simulated"), np.asarray(arrays["values"])
        self._require_same(str(arrays["facts"]), values, simulated, shape)
        if str(arrays["made"]) != made:
            raise InvalidInput(
                f"the release in {self.path} was made at another level, distribution or range: "
                f"{arrays['made']}; now it is {made}. {SPENT}"
            )
        stated = state_array(arrays, "tag", (32,), "u").tobytes()
        if not hmac.compare_digest(self._release_tag(values, made), stated):
            raise InvalidInput(
                f"the file {self.path} was changed after the release was made, or its key was."
            )
        return values

    def _require_same(
        self, facts: str, values: Array, simulated: bool, shape: tuple[int, ...]
    ) -> None:
        if facts != self.facts:
            raise InvalidInput(
                f"the release in {self.path} was made with {facts}; now it is {self.facts}. {SPENT}"
            )
        if simulated != self.simulated:
            kind, now = ("a simulation", "a real") if simulated else ("a real one", "a simulated")
            raise InvalidInput(f"the release in {self.path} is {kind}; {now} release is wanted.")
        if values.shape != shape:
            raise InvalidInput(
                f"the release in {self.path} has shape {values.shape}; the measurements now make "
                f"one of shape {shape}. {SPENT}"
            )

    def _release_tag(self, released: Array, made: str) -> bytes:
        plain = np.add(released, 0.0, dtype="<f8", order="C")  # −0 is 0
        return self._tag("release", made.encode() + plain.tobytes())

    def _tag(self, what: str, content: bytes) -> bytes:
        if not self.key_path.is_file():
            raise InvalidInput(
                f"the key {self.key_path} is gone: whether the release in {self.path} is of these "
                "measurements cannot be told without it."
            )
        key = read_bytes(self.key_path, KEY_BYTES)
        if len(key) < KEY_BYTES:
            raise InvalidInput(f"{self.key_path} is not a key of privest: it is too short.")
        head = json.dumps([KEPT, what, self.facts, self.simulated]).encode()
        return hmac.digest(key, head + content, "sha256")


def _bytes(tag: bytes) -> AnyArray:
    return np.frombuffer(tag, dtype=np.uint8)
