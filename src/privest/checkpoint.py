"""Save and resume a stream at any moment: both sides in one file.

Write ahead, then send. `save` puts the state *after* a step, and the release of that step, into
the file before the release leaves; a process killed before `save` has revealed nothing of the
measurement, one killed after it resumes with `pending` and sends the same numbers again. So no
measurement is ever released with two different noises.

The file is a NumPy archive (plain arrays and JSON, no pickle), written beside the old one, forced
to disk, and put in its place in one move. It is as sensitive as the measurements: it holds the last
ones where the level looks back, and of a simulation the state of its generator, which removes the
noise of earlier releases. Only its owner may read it. For real noise only the release itself is
stored: no key, no state, no draw.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import AnyArray
from privest.errors import CheckpointError, InvalidInput
from privest.estimator import PrivateRLS
from privest.files import OWNER_ONLY, atomic_file, claimed
from privest.mechanism import StreamMechanism
from privest.mechanism.source import Protected, Source, as_source
from privest.reading import (
    as_text,
    chosen,
    counted,
    optional,
    parse_json,
    read_arrays,
    read_fields,
    read_number,
    read_text,
)
from privest.release import Release

FORMAT = "privest stream checkpoint"
VERSION = 3  # 2: before real releases, which have a grid and a range


def _as_given(given: object, name: str) -> object:
    return given


# What the other side of a comparison checks (fingerprints, a generator's state) is taken as it is.
HEADER: dict[str, Callable[[object, str], Any]] = {
    "format": chosen(FORMAT),
    "version": counted(),
    "mechanism": optional(read_text),
    "estimator": optional(read_text),
    "noise": optional(read_text),
    "grid": optional(read_number),
    **dict.fromkeys(("range", "source", "pending", "notes"), _as_given),
}
KINDS = chosen("uint8", "uint32", "uint64", "int32", "int64")  # arrays of numpy's generators


class Checkpoint:
    """Keeps a mechanism, an estimator, or both, in the file `path`.

    Make the objects as at the first start, then `resume()`: False when there is no file yet;
    else their states are those of the last `save`. `pending` is the release that was saved last:
    send it again if it may not have arrived. `notes` holds what the caller saved (JSON).

    `source` is what `release` or `simulate` is given: left out, real noise, of which nothing is
    stored; every `save` then needs the releases since the last one as `pending`. For a simulation
    (a numpy generator or a `Source`) the state is stored too, and the stream goes on bit by bit as
    if nothing had happened.

    A file from a backup is behind what was sent, and does not know it: `pv.StreamMechanism` would
    draw new noise for measurements that were released. Compare with what was received before you
    go on, and hand in NaN for steps that were sent since (`privest stream` does both).

    Raises CheckpointError if the file is damaged, of another version, level, model or noise, in use
    by another process, or would be overwritten without `resume`.

    >>> import tempfile, privest as pv
    >>> path = tempfile.mkdtemp() + "/stream.ckpt"
    >>> mechanism = pv.StreamMechanism(pv.StreamLevel.constant(1.0))
    >>> with Checkpoint(path, mechanism=mechanism) as kept:
    ...     if not kept.resume():
    ...         kept.save(pending=mechanism.release(0.5))
    >>> again = pv.StreamMechanism(pv.StreamLevel.constant(1.0))
    >>> with Checkpoint(path, mechanism=again) as kept:
    ...     kept.resume(), again.steps, kept.pending
    (True, 1, Release(step 0, 1 value))
    """

    mechanism: StreamMechanism | None
    estimator: PrivateRLS | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mechanism: StreamMechanism | None = None,
        estimator: PrivateRLS | None = None,
        source: np.random.Generator | Source | None = None,
    ) -> None:
        self.path: Path = Path(path).resolve()  # one file and one lock, whatever links lead to it
        self.mechanism, self.estimator = mechanism, estimator
        self.source: Source | None = None
        if source is not None:
            self.source = source if isinstance(source, Source) else as_source(source)
        elif mechanism is not None:
            self.source = Protected()
        self.pending: Release | None = None
        self.notes: dict[str, Any] = {}
        self._started = False
        self._steps = 0  # of the mechanism, in the file
        self._lock: int | None = _locked(self.path.with_name(self.path.name + ".lock"))
        self._owner, self._open = os.getpid(), True

    # --- the two moves ----------------------------------------------------------------------

    def resume(self) -> bool:
        """Restore the saved states; False if nothing was saved yet."""
        self._require_lock()
        if not self.path.exists():
            self._started = True
            return False
        header, arrays = _read(self.path)
        self._require_same(header)
        try:
            if self.mechanism is not None:
                self.mechanism.restore(_side(arrays, "mechanism."))
            if self.estimator is not None:
                self.estimator.restore(_side(arrays, "estimator."))
            if self.source is not None:
                self.source.restore(_with_arrays(header["source"]))
            self.pending = self._pending(header["pending"])
        except (TypeError, ValueError, OverflowError) as error:  # numpy's own: of a generator
            raise CheckpointError(
                f"{self.path} is damaged ({_reason(error)}). What was made for this stream so far "
                "must not be used: make the objects anew."
            ) from None
        self.notes = header["notes"]
        self._steps = 0 if self.mechanism is None else self.mechanism.steps
        self._started = True
        return True

    def _pending(self, record: Any) -> Release | None:  # noqa: ANN401 - whatever JSON holds
        """The release that was saved last; it belongs to the states that were saved with it."""
        if record is None:
            return None
        pending = Release.from_dict(record)
        side = self.mechanism or self.estimator
        if side is not None:
            pending.require(side.level.fingerprint)
            stop, level = pending.start + pending.steps, side.level
            count = level.measurements_before(stop) - level.measurements_before(pending.start)
            if stop > side.steps or count != len(pending.values):
                raise InvalidInput("the pending release is not of the steps so far.")
        return pending

    def _require_lock(self) -> None:
        if not self._open or os.getpid() != self._owner:
            raise CheckpointError(
                f"{self.path} is closed, or this is a copy of the process that opened it. Two of "
                "them would release measurements twice."
            )

    def save(self, pending: Release | None = None, notes: Mapping[str, Any] | None = None) -> None:
        """Save the states as they are now, before `pending` is sent. Atomic and durable."""
        self._require_lock()
        if not self._started and self.path.exists():
            raise CheckpointError(
                f"{self.path} exists: call resume() first. Deleting it starts the stream anew, "
                "which would release its measurements a second time."
            )
        self._require_whole(pending)
        self._started = True
        arrays: dict[str, AnyArray] = {}
        for name, side in (("mechanism.", self.mechanism), ("estimator.", self.estimator)):
            if side is not None:
                arrays |= {name + key: array for key, array in side.state().items()}
        header = self._identity() | {
            "source": None if self.source is None else _without_arrays(self.source.state()),
            "pending": None if pending is None else pending.to_dict(),
            "notes": _as_json(dict(notes or {})),
        }
        _write(self.path, header, arrays)
        self.pending, self.notes = pending, header["notes"]
        self._steps = 0 if self.mechanism is None else self.mechanism.steps

    def _require_whole(self, pending: Release | None) -> None:
        """Refuse to save without the numbers of all steps since the last save."""
        if self.mechanism is None or self.source is None:
            return
        if pending is not None and pending.simulated != self.source.simulated:
            raise InvalidInput(
                "a mechanism is kept together with its source of noise: pass source, what its "
                "simulate is given. One that started again could put the same noise on "
                "other measurements."
                if pending.simulated
                else "this release is real, and the source of the checkpoint is a simulation."
            )
        steps = self.mechanism.steps
        if self.source.simulated or steps == self._steps:
            return
        given = None if pending is None else (pending.start, pending.start + pending.steps)
        if given != (self._steps, steps):
            raise InvalidInput(
                f"steps {self._steps} to {steps - 1} were released since the last save: pass their "
                "release as pending. Real noise cannot be drawn again, and what is not in the file "
                "would be lost in a crash."
            )

    def close(self) -> None:
        """Let another process use the file."""
        self._open = False
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what belongs together ----------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """The public facts that must be the same when the stream is resumed."""
        estimator, mechanism = self.estimator, self.mechanism
        return {
            "format": FORMAT,
            "version": VERSION,
            "mechanism": None if mechanism is None else mechanism.level.fingerprint,
            "estimator": None if estimator is None else estimator.fingerprint,
            "noise": None if self.source is None else self.source.kind,
            "grid": None if self.source is None else self.source.grid,
            "range": None if mechanism is None or mechanism.range is None else [*mechanism.range],
        }

    def _require_same(self, header: Mapping[str, Any]) -> None:
        mine = self._identity()
        reasons = {
            "mechanism": "another level, or without a mechanism",
            "estimator": "another level, number of parameters or noise, or without an estimator",
            "noise": "another kind of random generator",
            "grid": "noise on another grid",
            "range": "another range",
        }
        for key, reason in reasons.items():
            if header.get(key) != mine[key]:
                raise CheckpointError(
                    f"{self.path} was saved with {reason}: it cannot continue this stream."
                )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    arrays = read_arrays(path, "a stream checkpoint", error=CheckpointError)
    try:
        text = as_text(arrays.pop("header", np.zeros(0)).tobytes(), "its header")
        header = read_fields(parse_json(text, "its header"), HEADER, "its header", others=True)
        if not isinstance(header["notes"], dict):
            raise InvalidInput("its notes must be names with values.")
    except InvalidInput as error:
        raise CheckpointError(f"{path} is not a stream checkpoint: {error}") from None
    if header["version"] != VERSION:
        raise CheckpointError(
            f"{path} has version {header['version']}; this privest reads version {VERSION}. "
            f"Use {'a newer' if header['version'] > VERSION else 'the older'} privest."
        )
    return header, arrays


def _as_json(notes: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON holds
    """The notes as `resume` will give them: refused now if it could not."""
    try:
        text = json.dumps(notes, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the notes of a checkpoint must be JSON ({error}).") from None
    return parse_json(text, "the notes of a checkpoint")


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") if isinstance(error, InvalidInput) else type(error).__name__


def _write(path: Path, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Beside the old file, to the disk, then in its place: there is always one whole file."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    # Without allow_pickle=False: NumPy 2.0 keeps that as one more array, and readers refuse it.
    np.savez(buffer, header=text, **arrays)  # type: ignore[arg-type]
    beside = path.with_name(path.name + ".new")  # ours by the lock
    with atomic_file(path, permissions=OWNER_ONLY, beside=beside) as file:
        file.write(buffer.getbuffer())


def _locked(path: Path) -> int:
    """A lock that the system lets go of when the process ends, however it ends."""
    try:
        return claimed(path)
    except InvalidInput as error:
        raise CheckpointError(f"{error} Two processes would release measurements twice.") from None
    except OSError as error:
        raise CheckpointError(f"cannot write beside {path}: {error.strerror}.") from None


def _side(arrays: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


def _without_arrays(value: Any) -> Any:  # noqa: ANN401 - whatever a generator's state holds
    if isinstance(value, dict):
        return {key: _without_arrays(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    return int(value) if isinstance(value, np.integer) else value


def _with_arrays(value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, dict):
        return value
    if set(value) == {"array", "dtype"}:
        return np.array(value["array"], dtype=KINDS(value["dtype"], "the type of an array"))
    return {key: _with_arrays(part) for key, part in value.items()}
