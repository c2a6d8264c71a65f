"""Sums of a level, a slope and a season that move by random steps: nothing is known of x_0."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import Array, as_choice, as_flag
from privest.dynamics._identification._affine import AffineFamily, Group, Parameter, as_order
from privest.dynamics._identification._scales import Positive
from privest.dynamics._identification._seen import Seen, differences

SPANS = (1, 2, 4, 8, 16, 32, 64)
LEAST = 0.02  # of what a variance can be at most, for those that moments make nothing of
SHARES = (0.3, 0.03)  # of it, for starts that no moment chose: rough and smooth


class Structural(AffineFamily):
    """y_k = level_k + season_k + v_k; all parts start diffuse.

    level_{k+1} = level_k + slope_k + N(0, q_level) ,   slope_{k+1} = slope_k + N(0, q_slope)
    season_{k+1} = −(season_k + … + season_{k−S+2}) + N(0, q_season)
    """

    def __init__(self, *, slope: bool, period: int, noise: bool) -> None:
        self.slope, self.period, self.noise = slope, period, as_flag(noise, "noise")
        n, first = 1 + slope + max(period - 1, 0), 1 + slope
        A, C = np.zeros((n, n)), np.zeros((1, n))
        A[0, :first], C[0, 0] = 1.0, 1.0
        groups = [Group(Positive(), [_variance("q_level", 0)], depth=1)]
        if slope:
            A[1, 1] = 1.0
            groups.append(Group(Positive(), [_variance("q_slope", 1)], depth=2))
        if period:
            A[first, first:], C[0, first] = -1.0, 1.0
            A[first + 1 :, first:-1] = np.eye(period - 2)
            groups.append(Group(Positive(), [_variance("q_season", first)], depth=1))
        if noise:
            groups.append(Group(Positive(), [Parameter("r", (("R", 0, 0),))], depth=0))
        super().__init__(n, groups, {"A": A, "C": C}, diffuse=True)

    def _begin(self, seen: Seen) -> list[Array]:
        """Variances whose filtered readings are as large as those seen, by least squares.

        E (f·ŷ)² = Σ_j θ_j‖f·h_j‖² + ‖f‖²/s for every filter f that takes the unknown x_0 away;
        h_j is the response of a reading to a step of variance θ_j. Release noise is known.
        """
        rows, sizes, weights = [], [], []
        for taps in self._filters(seen.steps):
            mean, noise, count = seen.filtered_square(taps)
            if count and mean > 0:
                rows.append(self._squares(taps))
                sizes.append((mean, mean - noise))
                weights.append(np.sqrt(count / len(taps)) / mean)
        if not rows:
            return [np.full(self.size, share * seen.variance) for share in SHARES]
        M, (whole, own), w = np.array(rows), np.array(sizes).T, np.array(weights)
        # What each variance would be if it made everything of some moment: it is not more.
        most = np.array([min(whole[M[:, j] > 0] / M[M[:, j] > 0, j]) for j in range(self.size)])
        found, _ = scipy.optimize.nnls(M * most * w[:, None], own * w)
        neutral = [share * most for share in SHARES]
        if self.noise:
            for start in neutral:
                start[-1] = SHARES[0] * most[-1]
        return [np.maximum(found, LEAST) * most, *neutral]

    def _filters(self, steps: int) -> Iterator[Array]:
        """Filters that leave nothing of x_0, of at most half the steps.

        Sums over a season (1 without one) of differences over longer and longer spans see level and
        slope; differences of neighbours over longer and longer spans of seasons see the season.
        """
        order, once = 1 + self.slope, np.ones(max(self.period, 1))
        first, seasons = np.convolve(once, differences(order)), []
        if self.period:
            seasons = [
                np.convolve(differences(order), differences(1, span * self.period))
                for span in SPANS
            ]
        yield first
        levels = [np.convolve(once, differences(order, span)) for span in SPANS[1:]]
        for taps in (*levels, *seasons):
            if len(taps) <= max(steps // 2, len(first) + 1):
                yield taps

    def _squares(self, taps: Array) -> Array:
        """‖f·h_j‖² of every parameter."""
        unit = np.exp(np.zeros(self.size)) @ self._by + self._base
        A, C, Q = (unit[own].reshape(shape) for own, shape in self._cuts[:3])
        drives = np.eye(self.states)[:, np.diagonal(Q) > 0]
        response = np.empty((len(taps), drives.shape[1]))
        for lag in range(len(taps)):
            response[lag] = C[0] @ drives
            drives = A @ drives
        passed = [np.convolve(taps, column)[: len(taps)] for column in response.T]
        squares = [float(one @ one) for one in passed]
        return np.array([*squares, float(taps @ taps)] if self.noise else squares)


def _variance(name: str, place: int) -> Parameter:
    return Parameter(name, (("Q", place, place),))


class LocalLevel(Structural):
    """y_k = level_k + v_k ,   level_{k+1} = level_k + w_k ,   var w = q_level ,   var v = r.

    Without noise (noise=False) a random walk is seen through release noise alone.

    >>> LocalLevel().names
    ('q_level', 'r')
    """

    def __init__(self, *, noise: bool = True) -> None:
        super().__init__(slope=False, period=0, noise=noise)

    def __repr__(self) -> str:
        return f"LocalLevel({'' if self.noise else 'noise=False'})"


class LocalTrend(Structural):
    """A level whose slope moves too: the local linear trend.

        y_k = level_k + v_k , level_{k+1} = level_k + slope_k + w_k , slope_{k+1} = slope_k + u_k

    with variances q_level of w, q_slope of u and r of v.

    >>> LocalTrend().names
    ('q_level', 'q_slope', 'r')
    """

    def __init__(self, *, noise: bool = True) -> None:
        super().__init__(slope=True, period=0, noise=noise)

    def __repr__(self) -> str:
        return f"LocalTrend({'' if self.noise else 'noise=False'})"


class Seasonal(Structural):
    """A level, or a trend, and a season of `period` steps whose sum over a period is noise.

        y_k = level_k + season_k + v_k ,   season_k + … + season_{k−S+1} = N(0, q_season)

    trend   "level" (default) or "trend", for the level as in LocalLevel or LocalTrend.

    >>> Seasonal(12, trend="trend").names
    ('q_level', 'q_slope', 'q_season', 'r')
    """

    def __init__(self, period: int, *, trend: str = "level", noise: bool = True) -> None:
        as_choice(trend, ("level", "trend"), "trend")
        super().__init__(
            slope=trend == "trend", period=as_order(period, "period", least=2), noise=noise
        )

    def __repr__(self) -> str:
        trend = ', trend="trend"' if self.slope else ""
        return f"Seasonal({self.period}{trend}{'' if self.noise else ', noise=False'})"
