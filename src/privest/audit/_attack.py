"""The report of an attack on one number; and the attacker who learns from simulated pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, as_array, as_positive
from privest.audit._samples import Splines, solved
from privest.errors import InvalidInput
from privest.mechanism import Mechanism
from privest.records import Record

Prior = tuple[float, float]
# (u (n, m), rng) → z (n, q): one release for every row.
Releases = Callable[[Array, np.random.Generator], Array]
# Pairs to learn from; combinations of hats that vary by less than this part are left out.
PAIRS, LEAST = 8000, 1e-10


def as_prior(prior: tuple[float, float] | None) -> Prior | None:
    if prior is None:
        return None
    given = as_array(prior, "the prior", ndim=1)
    if given.size != 2:
        raise InvalidInput(
            f"the prior is (mean, variance), two numbers; received {given.size} of them."
        )
    return float(given[0]), as_positive(given[1], "the prior's variance")


def drawn_from(prior: Prior, rng: np.random.Generator, *size: int) -> Array:
    return rng.normal(prior[0], math.sqrt(prior[1]), size)


@dataclass(frozen=True)
class Errors(Record):
    """The errors of one attacker over the trials: mean error, mean-square error, their errors.

    `typical` is the median absolute error; `unbounded` the share of releases for which the
    likelihood has no maximum in the window searched.
    """

    bias: float
    bias_error: float
    mse: float
    mse_error: float
    typical: float
    unbounded: float = 0.0

    @classmethod
    def of(cls, guess: Array, truth: Array | float, unbounded: float = 0.0) -> Errors:
        off = guess - truth
        root = math.sqrt(off.size)
        bias, mse = ((float(x.mean()), float(x.std(ddof=1)) / root) for x in (off, off**2))
        return cls(*bias, *mse, float(np.median(np.abs(off))), unbounded)


@dataclass(frozen=True)
class Attack(Record):
    """Attackers on one number (`target` and index `output`), and the floors they cannot pass.

    likelihood        without a prior, by `attacker`, releases of the y at hand; None: see `notes`.
    bayesian          E[·|z] under the stated prior, releases of the same y: biased towards the
                      prior, so it can be better or worse than any floor at a single y.
    averaged          the same with y drawn from the prior: what van Trees bounds.
    unbiased_floor    from I_z(y): no unbiased attacker does better. inf: there is none of finite
                      variance; None: not known.
    level_floor       what the level allows an unbiased attacker; inf: none at all.
    van_trees         no attacker does better than this on average over the prior; 0 where the
                      averaged information is infinite (`notes`), None where it is not known.
    """

    output: int
    likelihood: Errors | None
    unbiased_floor: float | None
    level_floor: float | None = None
    prior: Prior | None = None
    bayesian: Errors | None = None
    averaged: Errors | None = None
    van_trees: float | None = None
    target: str = "input"
    attacker: str = "most likely value"
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.target} {self.output}"]
        rows = [
            (self.attacker, self.likelihood),
            ("posterior mean", self.bayesian),
            ("  averaged over prior", self.averaged),
        ]
        for name, e in rows:
            if e is not None:
                lines.append(
                    f"{name:22s} mse {e.mse:.4g} ± {e.mse_error:.2g}, bias {e.bias:+.3g} ± "
                    f"{e.bias_error:.2g}, typical error {e.typical:.4g}"
                    + (f", no maximum in {e.unbounded:.0%}" if e.unbounded else "")
                )
        bounds = [
            ("unbiased floor 1/I", self.unbiased_floor),
            ("level allows 1/S", self.level_floor),
            ("van Trees bound", self.van_trees),
        ]
        lines += [f"{name:22s} {bound:.4g}" for name, bound in bounds if bound is not None]
        if self.van_trees is not None and self.prior is not None:
            lines[-1] += " for the prior N({:.4g}, {:.4g})".format(*self.prior)
        return "\n  ".join([*lines, *self.notes])


NOT_SHOWN = (
    "Not determined: some change of the measurements changes this one and not the distribution of "
    "the release, so no unbiased attacker has a finite variance."
)


class Believer(NamedTuple):
    """The attacker with a prior on one number: errors at y, averaged over the prior; van Trees."""

    here: Errors | None = None
    there: Errors | None = None
    bound: float | None = None

    @classmethod
    def of_each(
        cls, here: Array, truth: Array, there: Array, drawn: Array, bounds: Sequence[float] = ()
    ) -> list[Believer]:
        """From guesses (trials, k) of the truth, and of what was drawn from the prior."""
        every = zip_longest(here.T, truth, there.T, drawn.T, bounds)
        return [cls(Errors.of(a, b), Errors.of(c, d), bound) for a, b, c, d, bound in every]


@dataclass(frozen=True, eq=False)
class Task:
    """The question to every attacker.

    truth     the numbers that are attacked: the measurements y, or the inputs of channels.
    floors    what the level allows an unbiased attacker on each of them.
    prior     of each of them, independently; None: no attacker with a prior.
    """

    truth: Array
    floors: Array | None
    prior: Prior | None
    trials: int
    rng: np.random.Generator
    target: str = "measurement"
    attacker: str = "most likely value"

    def releases(self, mechanism: Mechanism) -> Array:
        """z (trials, q) of the y at hand."""
        return mechanism.simulate(self.truth, self.rng, trials=self.trials)

    def report(
        self, i: int, best: Errors | None, floor: float | None, believer: Believer, *notes: str
    ) -> Attack:
        allowed = None if self.floors is None else float(self.floors[i])
        said = self.target, self.attacker, tuple(filter(None, notes))
        return Attack(i, best, floor, allowed, self.prior, *believer, *said)

    def measurements(
        self, guess: Array | None, floors: Array | None, believers: list[Believer], *notes: str
    ) -> list[Attack]:
        """One attack per measurement; `guess` (trials, m): without a prior."""
        attacks = []
        for i, believer in enumerate(believers):
            floor = None if floors is None else float(floors[i])
            best, said = None, notes
            if floor == math.inf:
                said = (NOT_SHOWN, *notes)
            elif guess is not None:
                best = Errors.of(guess[:, i], self.truth[i])
            attacks.append(self.report(i, best, floor, believer, *said))
        return attacks


# --- without a density: learnt by simulation ------------------------------------------------------


def learnt(release: Releases, task: Task) -> list[Believer]:
    """E[y|z], learnt from simulated pairs (y drawn from the prior, z), for each number attacked.

    Least squares of y on hat functions of each output and of the length of z (`Splines`). Its
    error on fresh pairs is that of a real attacker, never below that of the true posterior mean.
    Cost: 8000·K² flops, K at most a few hundred.
    """
    if task.prior is None:
        raise InvalidInput(
            "without a density the attacker learns from simulated pairs: state its prior, "
            "prior=(mean, variance)."
        )
    rng, size = task.rng, task.truth.size
    y = drawn_from(task.prior, rng, PAIRS, size)
    guess = _regression(y, release(y, rng), task.prior[0])
    drawn = drawn_from(task.prior, rng, task.trials, size)
    here = guess(release(np.tile(task.truth, (task.trials, 1)), rng))
    return Believer.of_each(here, task.truth, guess(release(drawn, rng)), drawn)


def _regression(y: Array, z: Array, mean: float) -> Callable[[Array], Array]:
    basis = Splines.through(z, len(z))
    centre, covariance = basis.moments(z)
    both = basis.features(z).T @ (y - mean) / len(z) - np.outer(centre, y.mean(axis=0) - mean)
    weights = solved(covariance, both, LEAST)
    start = y.mean(axis=0)
    return lambda seen: start + (basis.features(seen) - centre) @ weights
