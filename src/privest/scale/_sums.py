"""`fit_sums`: the aggregate release of a Dask frame, in passes over its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from privest.aggregate import FeatureRows
from privest.arrays import as_choice
from privest.data import Block, Features, PandasSource, Source, read_rows
from privest.errors import InvalidInput
from privest.estimator import Result, estimate_sums
from privest.ledger import Account
from privest.mechanism.source import as_protected, seeded
from privest.scale._fitting import as_features, computed, require_frame

Read = Callable[[Source], Iterable[Block]]


class PartitionRows(FeatureRows):
    """H of a Dask frame: every pass is a map over its partitions, whose results come here."""

    def __init__(self, n: int, parts: Sequence[Any], read: Read, client: Any) -> None:  # noqa: ANN401
        super().__init__(n)
        self._parts, self._read, self._client = parts, read, client
        self._seen: dict[bool, list[bytes]] = {}
        self.count = sum(self.map(len))

    def map(self, made: Callable[..., Any], beside: Iterable[Any] | None = None) -> Iterator[Any]:
        """made(X) of every block; where values are wanted made(X, y), y of the partition.

        Refuses rows that differ from those of an earlier pass: both releases are of one table.
        """
        import dask

        begin = dask.delayed(_mapped, pure=False)
        private = beside is not None
        tasks = [begin(one, k, self._read, made, private) for k, one in enumerate(self._parts)]
        passed = computed(dask.delayed(list)(tasks), self._client)
        seen = [digest for digest, _ in passed]
        if self._seen.setdefault(private, seen) != seen:
            raise InvalidInput("the frame gave other rows in a later pass: persist it first.")
        for _, found in passed:
            yield from found


def _mapped(
    part: Any,  # noqa: ANN401 - a pandas frame
    number: int,
    read: Read,
    made: Callable[..., Any],
    private: bool,
) -> tuple[bytes, list[Any]]:
    """A digest of the rows, and what was made of them."""
    digest, found = blake2b(digest_size=16), []
    for one in read(PandasSource(part, f"partition {number}")) if len(part) else ():
        digest.update(one.H.tobytes())
        if private:
            digest.update(np.asarray(one.y).tobytes())
        found.append(made(one.H, one.y) if private else made(one.H))
    return digest.digest(), found


def fit_sums(
    frame: Any,  # noqa: ANN401 - dask is optional
    features: Features | Sequence[str],
    target: str,
    *,
    range: tuple[float, float],
    epsilon: float | None = None,
    delta: float = 1e-6,
    level: float | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    account: Account | None = None,
    simulate: int | None = None,
    client: Any = None,  # noqa: ANN401
) -> Result:
    """θ̂ from noisy sums of a private column of a Dask frame (docs/aggregate.md).

    frame, features, missing, client   as in `fit`; only the columns named here are read.
    target, range    the private column, and the public range that its values are clipped to.
    epsilon, delta   promised for one value replaced anywhere in the range; or level, the most
                     Fisher information about one value.
    account          is charged before anything is drawn; or simulate, the seed of an experiment.

    Values stay with their partitions: partial sums of at most 4096 rows come to this process, which
    adds them exactly and draws the noise, once. A task that runs again draws nothing. There are
    about ten passes (`frame.persist()` where it fits in memory); a frame that changes between them
    is refused. Workers are of one kind. The result has the bits of one table where partitions have
    multiples of 8192 rows; else the public weights differ by rounding.
    """
    as_choice(missing, ("refuse", "drop"), "missing")
    design = as_features(features)
    if (account is None) == (simulate is None):
        raise InvalidInput("give an account, which is charged, or simulate=seed: one of them.")
    columns = tuple(dict.fromkeys([*design.columns, target]))
    require_frame(frame, columns, design.text)
    source = seeded(simulate, "sums", *design.names) if account is None else as_protected(None)
    read = partial(
        read_rows, features=design, target=target, missing=missing, infinite=account is not None,
        size=FeatureRows.block,
    )  # fmt: skip
    rows = PartitionRows(len(design.names), frame[list(columns)].to_delayed(), read, client)
    return estimate_sums(
        rows, (), design.names, range, source, epsilon=epsilon, delta=delta, level=level,
        account=account,
    )  # fmt: skip
