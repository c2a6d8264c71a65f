"""What a release needs to know before it begins: level, noise variance, names, transform."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.data import BoxCox, Features, Source, open_source, read_rows
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.privacy import PrivacyLevel
from privest.workflow._spec import Spec


@dataclass(frozen=True, eq=False, kw_only=True)
class Terms:
    """The terms of a release: all public, none from the data that are to be protected.

    names           of the coefficients.
    variance        σ², given or from the reference set; `reference_rows` says from how many.
    level           s, as stated or as it follows from (ε, δ) or from the accuracy wanted.
    exponent        of the Box-Cox transform; None without one.
    """

    spec: Spec
    names: tuple[str, ...]
    variance: float
    level: float
    exponent: float | None = None
    reference_rows: int | None = None

    @property
    def epsilon(self) -> float | None:
        """ε of this level at the stated δ and move; None where they are not stated."""
        stated = self.spec.privacy
        if stated.delta is None or stated.move is None:
            return None
        return PrivacyLevel(self.level).to_epsilon(delta=stated.delta, move=stated.move)


def stated_terms(spec: Spec) -> Terms | None:
    """The terms where they follow from the spec and its reference alone.

    None where the level is that of a wanted accuracy: it depends on the features, and a plan is
    needed.
    """
    if spec.privacy.standard_error is not None:
        return None
    design = spec.design
    variance, exponent, reference_rows = noise_of(spec, design)
    return Terms(
        spec=spec,
        names=design.names,
        variance=variance,
        level=level_of(spec, design.names, None, variance),
        exponent=exponent,
        reference_rows=reference_rows,
    )


def require_target(spec: Spec, source: Source) -> None:
    """Refuse a table without the private column."""
    if spec.target not in source.columns:
        raise InvalidInput(f"{source.name} has no column {spec.target!r} (the target).")


def new_sums(design: Features) -> RunningLeastSquares:
    """Sums for the coefficients of a design."""
    return RunningLeastSquares(len(design.names), rounding(len(design.names)))


def add_rows(sums: RunningLeastSquares, H: Array, right: Array) -> None:
    if len(H):
        sums.add(np.asfortranarray(np.column_stack([H, right])), np.abs(H))


def require_full(sums: RunningLeastSquares, design: Features, where: str, rows: int) -> None:
    """Raise NotIdentifiable, naming the columns, where the features do not determine θ."""
    if sums.full:
        return
    hidden = sums.root().hidden
    if rows < len(design.names):
        raise NotIdentifiable(
            f"{where}: {rows} rows do not determine {len(design.names)} coefficients. More rows "
            "are needed, or fewer features.",
            hidden,
        )
    zero = [name for name, s in zip(design.names, sums.natural) if s == 0]
    size = np.linalg.norm(hidden * np.maximum(sums.natural, 1e-300)[:, None], axis=1)
    tied = [name for name, s in zip(design.names, size) if s > 1e-6 * size.max()]
    if zero and "=" in zero[0]:
        raise NotIdentifiable(
            f"{where}: no row has {', '.join(map(repr, zero))}: its coefficient cannot be told. "
            "Take the category off the list; that nobody has it is then public.",
            hidden,
        )
    if zero:
        reason = f"{', '.join(map(repr, zero))} {'is' if len(zero) == 1 else 'are'} 0 in every row"
    elif "intercept" in tied and len(tied) == 2:
        reason = f"{next(n for n in tied if n != 'intercept')!r} is constant"
    else:
        listed = ", ".join(repr(name) for name in tied)
        reason = f"{listed} are tied: a combination of them is zero in every row"
    raise NotIdentifiable(
        f"{where}: {reason}. The coefficients cannot be told apart: leave one of the columns out.",
        hidden,
    )


def noise_of(spec: Spec, design: Features) -> tuple[float, float | None, int | None]:
    """σ², the exponent, and the rows of the reference."""
    noise = spec.noise
    if noise.reference is None:
        assert noise.variance is not None
        return noise.variance, noise.exponent, None
    source = open_source(noise.reference)
    blocks = list(read_rows(source, design, spec.target, missing=spec.missing))
    H = np.concatenate([block.H for block in blocks])
    y = np.concatenate([block.y for block in blocks if block.y is not None])
    if len(H) <= len(design.names):
        raise InvalidInput(
            f"{source.name}: a reference of {len(H)} rows says nothing about the noise of "
            f"{len(design.names)} coefficients."
        )
    exponent = noise.exponent
    if spec.transform == "box-cox" and exponent is None:
        require_positive(y, source.name, spec.target)
        exponent = BoxCox.fit(y).exponent
    y = transformed(spec, exponent, y, source.name)
    sums = new_sums(design)
    add_rows(sums, H, y)
    require_full(sums, design, source.name, len(H))
    variance = sums.misfit / (len(H) - len(design.names))
    if not variance > 0:
        raise InvalidInput(f"{source.name}: the reference fits exactly: it shows no noise.")
    return variance, exponent, len(H)


def transformed(spec: Spec, exponent: float | None, y: Array, where: str) -> Array:
    """The target as it is modelled."""
    if spec.transform == "none":
        return y
    require_positive(y, where, spec.target)
    return np.log(y) if spec.transform == "log" else BoxCox(exponent or 0.0)(y)


def require_positive(y: Array, where: str, target: str) -> None:
    """A logarithm or a power needs values > 0; the message does not say which are not."""
    if not (y > 0).all():
        raise InvalidInput(
            f"{where}: {target!r} has values that are 0 or negative: a logarithm or a Box-Cox "
            "transform does not exist for them. Correct them, or choose transform none."
        )


def level_of(spec: Spec, names: tuple[str, ...], unit: Array | None, variance: float) -> float:
    """s; for a wanted accuracy it needs `unit`, (HᵀH)⁻¹."""
    privacy = spec.privacy
    if privacy.level is not None:
        return privacy.level
    if privacy.epsilon is not None:
        assert privacy.delta is not None
        assert privacy.move is not None
        found = PrivacyLevel.from_epsilon(privacy.epsilon, delta=privacy.delta, move=privacy.move)
        assert found.number is not None
        return found.number
    assert privacy.standard_error is not None
    assert privacy.of is not None
    assert unit is not None
    place = index_of(names, privacy.of)
    own = float(unit[place, place])
    room = privacy.standard_error**2 / own - variance
    if room <= 0:
        raise InvalidInput(
            f"privacy: {privacy.of!r} cannot have the standard error {privacy.standard_error:g}: "
            f"without any privacy it is {math.sqrt(variance * own):.4g}. More rows are needed."
        )
    return 1 / room


def index_of(names: tuple[str, ...], name: str) -> int:
    """Which coefficient has this name."""
    if name not in names:
        raise InvalidInput(f"there is no coefficient {name!r}; there are {', '.join(names)}.")
    return names.index(name)
