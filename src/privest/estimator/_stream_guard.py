"""What a stream says at its end where some readings may be wild: Huber's estimate, with errors by
blocks of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from privest.arrays import Array, Flags
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._rls import PrivateRLS
from privest.estimator._stream_conclusion import (
    GUARD,
    StreamConclusion,
    conclude,
    noise_added,
    noise_whitened_by,
)
from privest.estimator.inference import SerialErrors, WeightedRows
from privest.estimator.inference._robust import HuberFit, fit_huber
from privest.estimator.inference._robust_serial import huber_serial_errors
from privest.release import StreamRelease

PIECE = 65536  # rows at a time


def conclude_huber(
    rls: PrivateRLS, release: StreamRelease, H: Array, names: Sequence[str], *,
    known: bool = True, reference: int | None = None,
) -> StreamConclusion:  # fmt: skip
    """As `conclude`, of all releases at once, with Huber's estimate in place of least squares.

    `rls` has seen the same releases, one level for all readings, shown one by one. Wild readings
    count for less (`inference._robust`), errors are by blocks of time (`_robust_serial`), and what
    is said of the noise variance stays that of least squares. No interval is shorter than release
    noise alone allows: no estimate that moves with the readings can be better than from it, since
    information does not grow by adding noise.

    Assumes that half of the readings or more are not wild, and that the others lie symmetrically
    about hθ: what is skewed moves the intercept. Where it cannot be found the conclusion is that of
    least squares, and says so.
    """
    if rls.one_level is None:
        raise InvalidInput(
            "Huber's estimate needs readings that are shown one by one, at one level: leave out "
            "lags and shared noise, or take least squares."
        )
    shown = np.ones(len(H), dtype=bool) if release.missing is None else ~release.missing
    count, added = int(shown.sum()), noise_added(rls)
    plain = conclude(rls, count, names, known=known, reference=reference)
    if count <= rls.parameters:
        return _not_found(plain, "there are as many coefficients as readings")
    z = release.values / np.sqrt(rls.one_level)
    inverse = rls.covariance / (noise_whitened_by(rls) + added)
    try:
        fit = fit_huber(lambda: _pieces(H, z, shown), plain.estimate, inverse, added)
    except NumericalFailure as error:
        return _not_found(plain, str(error).rstrip("."))
    own = max(fit.scale**2 - added, 0.0)
    return replace(
        plain, estimate=fit.estimate, by_blocks=_by_blocks(H, z, shown, fit),
        stated_error=fit.errors.covariance.diagonal() ** 0.5,
        stated_by="of Huber's estimate, if readings do not remember",
        floor=np.sqrt(added * inverse.diagonal()),
        noise_variance=plain.noise_variance if known and reference is None else own,
        remark=fit.remark(own, added),
        doubts=tuple(one.replace(GUARD, "") for one in plain.doubts),
    )  # fmt: skip


def _pieces(H: Array, z: Array, shown: Flags) -> Iterator[WeightedRows]:
    for at in range(0, len(H), PIECE):
        part = slice(at, at + PIECE)
        yield WeightedRows(H[part][shown[part]], z[part][shown[part]])


def _by_blocks(H: Array, z: Array, shown: Flags, fit: HuberFit) -> SerialErrors | None:
    try:
        return huber_serial_errors(H, z, shown, fit)
    except NotIdentifiable:  # of the rows that count in full; the estimate stands
        return None


def _not_found(plain: StreamConclusion, why: str) -> StreamConclusion:
    said = f"This is the estimate of least squares, not Huber's: {why}."
    return replace(plain, doubts=(said, *plain.doubts))
