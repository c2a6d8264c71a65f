"""What attackers make of a release of one reading vector: a report for the data holder."""

from __future__ import annotations

import numpy as np

from privest.arrays import ArrayLike, as_count
from privest.audit._attack import Attack, Task, as_prior
from privest.audit._attackers import attack_channels, attack_sampler
from privest.audit._door import Audited, Stated, as_audited, one_vector, stated_level
from privest.audit._floors import unbiased_floors
from privest.audit._vectors import attack_linear, attack_rotation, attack_vector, linear_information
from privest.mechanism import Componentwise, Mechanism, Rotation


def adversary(
    mechanism: Audited,
    y: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Stated | None = None,
    prior: tuple[float, float] | None = None,
    steps: int | None = None,
    trials: int = 2000,
) -> list[Attack]:
    """Release y `trials` times and attack every release.

    `prior` = (mean, variance): what the attacker believes of each number attacked, independently.

    Independent channels (`Componentwise`, or one `Channel`): z_i tells about u_i = (Ay + b)_i
      alone, so each *input* u_i is attacked by itself, with the most likely u_i and E[u_i|z_i].
    Linear with Gaussian noise, as is what users really run (`steps` as in `certify`): each
      *reading* y_i, by the best unbiased estimate and the posterior mean, both in closed form; S
      may be dense or singular. An attacker that beats the release's own floor is noted.
    Other mechanisms with a density: each reading, by its likelihood and by importance sampling; a
      rotation also its *length*.
    Samplers, and channels without a density: E[·|z] learnt by regression; needs a prior. There is
      no likelihood, no floor of its own and no van Trees bound.

    `level_floor` is aᵀ S⁺ a for a (a row of A, or e_i) in the range of S, 1/s for data perturbation
    at level s. Outside the range some direction that must stay hidden is mixed in: the level allows
    no unbiased attacker at all, and the floor is inf.
    The report shows the private readings' errors: it is for the data holder only.
    Cost: per input about 2000 log-densities a trial, and up to 10⁴ more with a prior.

    >>> import privest.noise
    >>> from privest.mechanism._additive import Additive
    >>> channel = Additive(privest.noise.GaussianLaw(variance=1.0))
    >>> rng = np.random.default_rng(1)
    >>> attack = adversary(channel, [3.0], rng=rng, level=1.0, prior=(3.0, 1.0))[0]
    >>> round(attack.unbiased_floor, 9), attack.level_floor, round(attack.van_trees, 9)
    (1.0, 1.0, 0.5)
    >>> abs(attack.averaged.mse - 0.5) < 5 * attack.averaged.mse_error
    True
    """
    audited = as_audited(mechanism, "attack", steps)
    given, floors = one_vector(y, audited), None
    if level is not None:
        rows = audited.matrix if isinstance(audited, Componentwise) else None
        S = stated_level(level, steps).dense(given.size)
        floors = unbiased_floors(np.eye(given.size) if rows is None else rows, S)
    task = Task(given, floors, as_prior(prior), as_count(trials, "trials", least=2), rng)
    if isinstance(audited, Componentwise):
        return attack_channels(audited, task)
    if not isinstance(audited, Mechanism):
        return attack_sampler(audited, task)
    linear = linear_information(audited, given)
    if linear is not None:
        return attack_linear(audited, linear, task)
    if isinstance(audited, Rotation):
        return attack_rotation(audited, task)
    return attack_vector(audited, task)
