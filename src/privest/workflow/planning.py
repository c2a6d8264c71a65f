"""What a release would cost, before anything is spent: the private readings are not even read.

For S = sI, y = Hθ + w, cov w = σ²I, A = (HᵀH)⁻¹ (`thm:crbound`):

    standard error of θ̂_j:  σ√A_jj without privacy,  √((σ² + 1/s)A_jj) with it .
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privest.arrays import Array, as_positive
from privest.data import BoxCox, Features, open_source, read_rows
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg.running import RunningLeastSquares
from privest.linalg.stacked import rounding
from privest.privacy import PrivacyLevel
from privest.workflow.spec import Spec

CURVE = (1e-2, 1e2, 41)  # levels of the curve: around the chosen one


@dataclass(frozen=True, eq=False)
class Plan:
    """What is known before a release.

    rows, dropped   rows of H used, and left out because something was missing in the features.
    names           of the coefficients.
    unit            (n, n): A = (HᵀH)⁻¹.
    variance        σ², given or from the reference set; `reference_rows` says from how many.
    level           s, as stated or as it follows from (ε, δ) or from the accuracy wanted.
    exponent        of the Box-Cox transform; None without one.
    """

    spec: Spec
    names: tuple[str, ...]
    rows: int
    dropped: int
    unit: Array
    variance: float
    level: float
    exponent: float | None = None
    reference_rows: int | None = None

    # --- accuracy ---------------------------------------------------------------------------------

    @property
    def without_privacy(self) -> Array:
        """Standard errors σ√A_jj."""
        return np.asarray(np.sqrt(self.variance * np.diagonal(self.unit)))

    @property
    def with_privacy(self) -> Array:
        """Standard errors √((σ² + 1/s)A_jj)."""
        return self.errors_at(self.level)

    @property
    def privacy_share(self) -> float:
        """The part of the variance that privacy costs, the same for all coefficients."""
        return 1 / (1 + self.level * self.variance)

    def errors_at(self, level: float) -> Array:
        """Standard errors at another level."""
        return np.asarray(np.sqrt((self.variance + 1 / level) * np.diagonal(self.unit)))

    def curve(self) -> tuple[Array, Array]:
        """Levels around the chosen one, and the standard errors (levels, n) there."""
        low, high, count = CURVE
        levels = self.level * np.geomspace(low, high, int(count))
        return levels, np.array([self.errors_at(s) for s in levels])

    def rows_for(self, standard_error: float, of: str) -> int:
        """How many rows like these the coefficient needs for this error at this level.

        Variances go down as 1/rows. Rounded up, but for the rounding of the error itself: to ask
        for the error that these rows give must return their number.
        """
        wanted = as_positive(standard_error, "standard_error")
        now = float(self.with_privacy[self.index(of)])
        return math.ceil(self.rows * (now / wanted) ** 2 * (1 - 1e-12))

    def index(self, name: str) -> int:
        """Which coefficient."""
        return _index(self.names, name)

    # --- privacy ----------------------------------------------------------------------------------

    @property
    def reading_error(self) -> float:
        """1/√s: no unbiased adversary knows one reading better, in its units."""
        return 1 / math.sqrt(self.level)

    @property
    def informed_error(self) -> float:
        """1/√(s + 1/σ²): of one who knows θ and the features, and so each reading to ±σ."""
        return 1 / math.sqrt(self.level + 1 / self.variance)

    @property
    def epsilon(self) -> float | None:
        """ε of this level at the stated δ and move; None where they are not stated."""
        stated = self.spec.privacy
        if stated.delta is None or stated.move is None:
            return None
        return PrivacyLevel(self.level).to_epsilon(delta=stated.delta, move=stated.move)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        levels, errors = self.curve()
        return {
            "plan": self.spec.to_dict(),
            "rows": self.rows,
            "dropped": self.dropped,
            "names": list(self.names),
            "noise_variance": self.variance,
            "reference_rows": self.reference_rows,
            "box_cox_exponent": self.exponent,
            "level": self.level,
            "epsilon": self.epsilon,
            "standard_error_without_privacy": self.without_privacy.tolist(),
            "standard_error_with_privacy": self.with_privacy.tolist(),
            "privacy_share_of_variance": self.privacy_share,
            "adversary_error_on_one_reading": self.reading_error,
            "informed_adversary_error_on_one_reading": self.informed_error,
            "curve": {"level": levels.tolist(), "standard_error": errors.tolist()},
        }


def make_plan(spec: Spec, data: object = None) -> Plan:
    """The plan for a spec; `data` (a frame, a file) replaces the one that the spec names.

    Reads the features only, in blocks; the noise comes from the spec or from its reference set.
    (Without any feature, for a mean, rows are counted by the target: whether it is there.)
    Raises InvalidInput for bad files, NotIdentifiable for constant or collinear features.
    """
    design = spec.design
    source = open_source(spec.data if data is None else data)
    if spec.target not in source.columns:
        raise InvalidInput(f"{source.name} has no column {spec.target!r} (the target).")
    sums = RunningLeastSquares(len(design.names), rounding(len(design.names)))
    rows = dropped = 0
    counted_by = None if design.columns else spec.target
    for block in read_rows(source, design, counted_by, missing=spec.missing):
        _add(sums, block.H, np.zeros(len(block.H)))
        rows, dropped = rows + len(block.H), dropped + block.dropped
    require_full(sums, design, source.name, rows)
    variance, exponent, reference_rows = _noise(spec, design)
    unit = sums.inverse()
    return Plan(
        spec=spec,
        names=design.names,
        rows=rows,
        dropped=dropped,
        unit=unit,
        variance=variance,
        level=_level(spec, design.names, unit, variance),
        exponent=exponent,
        reference_rows=reference_rows,
    )


def _add(sums: RunningLeastSquares, H: Array, right: Array) -> None:
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


def _noise(spec: Spec, design: Features) -> tuple[float, float | None, int | None]:
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
    sums = RunningLeastSquares(len(design.names), rounding(len(design.names)))
    _add(sums, H, y)
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


def _level(spec: Spec, names: tuple[str, ...], unit: Array, variance: float) -> float:
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
    place = _index(names, privacy.of)
    own = float(unit[place, place])
    room = privacy.standard_error**2 / own - variance
    if room <= 0:
        raise InvalidInput(
            f"privacy: {privacy.of!r} cannot have the standard error {privacy.standard_error:g}: "
            f"without any privacy it is {math.sqrt(variance * own):.4g}. More rows are needed."
        )
    return 1 / room


def _index(names: tuple[str, ...], name: str) -> int:
    if name not in names:
        raise InvalidInput(f"there is no coefficient {name!r}; there are {', '.join(names)}.")
    return names.index(name)
