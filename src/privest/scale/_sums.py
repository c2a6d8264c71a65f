"""`fit_sums`: the aggregate release of a Dask frame, in passes over its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

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
        self.count = sum(self.map(len))

    def map(self, made: Callable[..., Any], beside: Iterable[Any] | None = None) -> Iterator[Any]:
        """made(X) of every block; where values are wanted made(X, y), y of the partition."""
        import dask

        begin = dask.delayed(_mapped, pure=False)
        private = beside is not None
        tasks = [begin(one, k, self._read, made, private) for k, one in enumerate(self._parts)]
        for found in computed(dask.delayed(list)(tasks), self._client):
            yield from found


def _mapped(
    part: Any,  # noqa: ANN401 - a pandas frame
    number: int,
    read: Read,
    made: Callable[..., Any],
    private: bool,
) -> list[Any]:
    if not len(part):
        return []
    blocks = read(PandasSource(part, f"partition {number}"))
    return [made(one.H, one.y) if private else made(one.H) for one in blocks]


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
    about ten passes (`frame.persist()` where it fits in memory), in which the frame must have the
    same rows, on workers of one kind. The result has the bits of one table where partitions have
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
