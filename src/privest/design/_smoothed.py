"""The information of Gaussian noise plus noise of a mechanism: what maximum likelihood can use."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privest.arrays import Array
from privest.mechanism import Additive
from privest.noise import Cauchy, Laplace, ScalarLaw
from privest.noise.quadrature import gauss, on_panels

NODES = 16  # of a panel
LITTLE = 1e-6  # a product vs below which w is too narrow for panels of its width
FAR = 1e5  # widths: Cauchy noise, the widest, leaves 1e-15 of f'²/f beyond


def efficiency(law: ScalarLaw, product: float) -> float:
    """I(w + d)(1 + vs)/s for w ~ N(0, v), d of the law with I_d = s = 1, v = `product` = v·s.

    Below `LITTLE` the information at it, which is less (more w never adds any) by 1e-3 at most.
    """
    closed = isinstance(law, Laplace | Cauchy)
    least = product if closed else max(product, LITTLE)
    return information_of_sum(law, least) * (1.0 + product)


def information_of_sum(law: ScalarLaw, variance: float) -> float:
    """∫ f'²/f for the density f of w + d, w ~ N(0, v): how well its place is known.

    Gauss-Legendre panels that double away from everything sharp in the law of d, which w smears by
    √v, out to where f'²/f has no part above 1e-14.
    """
    width = math.sqrt(variance)
    sharp = {*law.landmarks, *law.kinks, *law.support, 0.0}
    points = np.array(sorted(p for p in sharp if math.isfinite(p)))
    bounded = all(map(math.isfinite, law.support))
    unit = max(width, 1.0)
    reach = float(np.abs(points).max()) + (9.0 * width if bounded else FAR * unit)
    away = width * 0.25 * 2.0 ** np.arange(math.ceil(math.log2(4.0 * reach / width)) + 1)
    cuts = np.concatenate([points, *(points + sign * step for step in away for sign in (-1, 1)),
                           np.arange(-20.0, 20.5, 0.5) * unit])  # fmt: skip
    cuts = np.unique(np.concatenate([np.clip(cuts, -reach, reach), [-reach, reach]]))
    nodes, weights = gauss(NODES)
    x, half = on_panels(cuts[:-1], cuts[1:], nodes)
    value, slope = _log_density(law, variance)(x)
    return float(np.sum(np.exp(value) * slope**2 * weights * half))


def _log_density(law: ScalarLaw, variance: float) -> Callable[[Array], tuple[Array, Array]]:
    """ln f and its slope on panels (k, nodes); Laplace and Cauchy noise in closed form."""
    from privest.estimator.likelihood import likelihood_of
    from privest.estimator.likelihood._smear import Smear

    if isinstance(law, Laplace | Cauchy):
        likelihood = likelihood_of(Additive(law), variance)

        def closed(x: Array) -> tuple[Array, Array]:
            terms = likelihood(x, np.zeros(x.shape))
            return terms.value, terms.slope

        return closed
    smear = Smear(law.logpdf, math.sqrt(variance), law.support, (*law.landmarks, *law.kinks))

    def by_numbers(x: Array) -> tuple[Array, Array]:
        value, slope = np.empty(x.shape), np.empty(x.shape)
        for k, r in enumerate(x):
            inside = (
                np.full(r.shape, True) if smear.bounded else (r >= smear.low) & (r <= smear.high)
            )
            for where, terms in ((inside, smear.at), (~inside, smear.beyond)):
                if where.any():
                    value[k, where], slope[k, where], _ = terms(r[where])
        return value, slope

    return by_numbers
