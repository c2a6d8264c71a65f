"""What the public calls of `pv.design` answer on small seeded problems, as plain numbers.

    python tests/golden/designs.py      prints how long each problem takes
    GOLDEN=write pytest tests/golden/test_designs.py      rewrites designs.json

A record holds what a method promises (value, floor, spent, gap, certified) and a summary of the
levels, which only are unique where every reading has noise.
"""

import time

import numpy as np

import privest as pv
from privest.errors import PrivestError

design = pv.design


def model_of(seed, m=24, n=3, noise="moderate"):
    """Rows with columns of different units; noise of a kind."""
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-1, 1, n)
    v = {
        "moderate": rng.uniform(0.1, 2, m),
        "small": np.full(m, 1e-4),
        "none": np.zeros(m),
        "mixed": np.where(rng.random(m) < 0.5, 0.0, rng.uniform(0.1, 2, m)),
    }[noise]
    return pv.LinearModel(H, noise=pv.noise.Gaussian(cov=v))


CRITERIA = {
    "A": {},
    "weighted": {"weight": [1.0, 4.0, 0.25]},
    "C": {"criterion": [1.0, -1.0, 2.0]},
    "D": {"criterion": "D"},
    "E": {"criterion": "E"},
    "errors": None,  # several standard errors: a target, no criterion
}
ERRORS = np.array([0.2, 0.3, 0.1])
LABELS = np.arange(24) % 8
LIMITS = {
    "budget": {},
    "costs": {"cost": np.linspace(0.5, 3.0, 24)},
    "caps": {"cap": np.linspace(0.4, 2.5, 24)},
    "groups": {"groups": LABELS},
    "persons": {"persons": LABELS, "person_cap": 3.0},
    "largest": {"groups": LABELS, "cost": 1 / 3, "cap": 1.5},  # one level a person, paid once
}
NOISE = ("moderate", "small", "none", "mixed")


def facts(found, *more):
    """What an allocation promises, and a summary of its levels."""
    order = np.sort(found.levels)[::-1]
    summary = {
        "support": int((found.levels > 1e-4 * found.levels.max()).sum()),
        "largest": order[0],
        "second": float((found.levels**2).sum()),
        "middle": float(np.median(found.levels)),
    }
    names = ("value", "floor", "spent", "gap", "asked", "equal", *more)
    return {name: getattr(found, name) for name in names} | {"levels": summary}


def proof(found):
    return {name: getattr(found, name) for name in ("value", "spent", "floor", "gap")}


def gap_of(*given, **options):
    return proof(design.optimality_gap(*given, **options))


def budgets():
    """Each criterion with each limit; sizes of the noise take turns."""
    for i, (name, criterion) in enumerate(CRITERIA.items()):
        for j, (limit, options) in enumerate(LIMITS.items()):
            if (i + j) % 2 == 0 and criterion is not None:
                noise = NOISE[(i + j // 2) % 4]
                model = model_of(10 * i + j, noise=noise)
                yield (
                    f"budget {name} {limit} {noise}",
                    lambda m=model, c=criterion, o=options: facts(
                        design.allocate(m, 10.0, **c, **o)
                    ),
                )


def targets():
    for i, (name, criterion) in enumerate(CRITERIA.items()):
        for j, (limit, options) in enumerate(LIMITS.items()):
            if (i + j) % 2 == 1:
                noise = NOISE[(i + j // 2) % 4]
                model = model_of(10 * i + j, noise=noise)
                yield (
                    f"target {name} {limit} {noise}",
                    lambda m=model, c=criterion, o=options: target_of(m, c, o),
                )


def target_of(model, criterion, limits):
    """The least loss for the accuracy of equal levels of 0.3."""
    value = value_at(model, criterion, 0.3)
    if criterion is not None:
        return facts(design.least_loss(model, value, **criterion, **limits))
    found = facts(design.least_loss(model, ERRORS * value**0.5, **limits))
    return found | {"value": found["value"] * value, "asked": found["asked"] * value}


def value_at(model, criterion, level):
    """The criterion at equal levels, from the bound."""
    covariance = pv.bound(model, level).covariance
    if criterion is None:
        return float((np.diagonal(covariance) / ERRORS**2).max())
    symbol = criterion.get("criterion", "A")
    if symbol == "D":
        return float(np.linalg.slogdet(covariance)[1])
    if symbol == "E":
        return float(np.linalg.eigvalsh(covariance)[-1])
    if symbol != "A":
        return float(np.array(symbol) @ covariance @ np.array(symbol))
    return float(criterion.get("weight", np.ones(3)) @ np.diagonal(covariance))


def several_errors(model, times):
    """Wanted standard errors: `times` those at equal levels of 0.5."""
    errors = pv.bound(model, 0.5).standard_error
    return {j: float(times * e) for j, e in enumerate(errors)}


def others():
    model, mixed = model_of(70), model_of(71, noise="mixed")
    small = model_of(72, m=12, n=2)
    dense = np.diag(np.linspace(0.5, 1.5, 12)) + 0.2
    correlated = pv.LinearModel(small.matrix, noise=pv.noise.Gaussian(cov=dense))
    people = {"persons": np.arange(12) // 3, "person_cap": 2.0}
    yield (
        "errors by name",
        lambda: facts(design.least_loss(model, several_errors(model, 1.1))),
    )
    yield (
        "errors by name, mixed",
        lambda: facts(design.least_loss(mixed, several_errors(mixed, 0.9))),
    )
    yield (
        "equalised",
        lambda: facts(
            design.least_loss(model, several_errors(model, 1.2), loss="largest", cap=1.0)
        ),
    )
    yield "all at the caps", lambda: facts(design.allocate(model, 1e3, cap=0.5))
    yield (
        "groups of persons",
        lambda: facts(
            design.allocate(
                mixed,
                20.0,
                groups=np.arange(24) // 2,
                persons=np.arange(24) // 6,
                person_cap=4.0,
            )
        ),
    )
    yield (
        "collinear 1e9",
        lambda: facts(design.allocate(collinear(), 16.0, criterion=[1.0, 1.0, 1.0])),
    )
    yield "many readings", lambda: facts(design.allocate(model_of(73, 3000, 5), 3000.0))
    yield (
        "many readings, target",
        lambda: facts(design.least_loss(model_of(74, 3000, 4), 0.05)),
    )
    for shape, options in {
        "full": {"shape": "full"},
        "full caps": {"shape": "full", "cap": np.linspace(0.3, 1.5, 12)},
        "full persons": {"shape": "full", **people},
        "blocks": {"shape": "persons", **people},
    }.items():
        yield f"{shape}, budget", lambda o=options: facts(design.allocate(small, 6.0, **o))
        yield (
            f"{shape}, target",
            lambda o=options: facts(design.least_loss(small, value_at2(small, 0.6), **o)),
        )
    yield (
        "full D caps",
        lambda: facts(design.allocate(small, 6.0, criterion="D", shape="full", cap=0.8)),
    )
    yield (
        "full E",
        lambda: facts(design.allocate(small, 6.0, criterion="E", shape="full")),
    )
    yield "full, cov", lambda: facts(design.allocate(correlated, 6.0, shape="full"))
    yield (
        "correlated",
        lambda: facts(design.allocate(small, np.inf, cap=0.8, shape="full")),
    )
    yield (
        "correlated, cov",
        lambda: facts(
            design.allocate(correlated, np.inf, cap=np.linspace(0.0, 1.0, 12), shape="full")
        ),
    )
    stream = pv.LinearModel(np.random.default_rng(75).standard_normal((40, 2)), noise=0.5)
    for name, given, options in (
        ("every", "every", {}),
        ("final", np.eye(40)[-1], {}),
        ("discount", 0.9, {}),
        ("caps", "every", {"cap": 2.0, "cost": np.linspace(1, 2, 40)}),
        ("weights", np.r_[np.zeros(10), np.arange(30.0)], {}),
    ):
        yield (
            f"spread {name}",
            lambda g=given, o=options: facts(design.schedule(stream, 20.0, estimates=g, **o)),
        )
    yield (
        "size",
        lambda: size(design.sample_size(model, several_errors(model, 0.5), level=0.5)),
    )
    yield (
        "frontier",
        lambda: sizes(
            design.sample_size(model, several_errors(model, 0.7), sizes=[20, 40, 80, 1000])
        ),
    )


def size(found):
    """How many measurements at one level."""
    return {
        "target": found.target,
        "exact": found.needed[0],
        "classical": found.classical,
        "readings": found.measurements[0],
        "standard_error": found.target * np.sqrt(found.needed[0] / found.measurements[0]),
        "total": found.total[0],
        "price": found.price[0],
    }


def sizes(found):
    """Which level for each number of measurements."""
    return {
        "target": found.target,
        "sizes": found.measurements,
        "level": found.level,
        "total": found.total,
        "least": found.classical.max(),
        "total_floor": found.total_floor,
    }


def value_at2(model, level):
    return float(np.trace(pv.bound(model, level).covariance))


def collinear():
    H = np.random.default_rng(76).standard_normal((24, 3))
    H[:, 2] = H[:, 1] + 1e-9 * H[:, 2]
    return pv.LinearModel(H, noise=0.5)


def proofs():
    """Of levels that somebody chose."""
    model, mixed = model_of(80), model_of(81, noise="mixed")
    levels = np.random.default_rng(82).uniform(0.2, 1.5, 24)
    for name, criterion in CRITERIA.items():
        if criterion is not None:
            yield (
                f"gap {name}",
                lambda c=criterion: gap_of(model, levels, budget=20.0, **c),
            )
    yield (
        "gap caps mixed",
        lambda: gap_of(mixed, levels, budget=20.0, cap=1.5),
    )
    yield (
        "gap persons mixed",
        lambda: gap_of(mixed, levels, budget=20.0, criterion="D", persons=LABELS, person_cap=3.0),
    )
    yield (
        "gap target groups",
        lambda: gap_of(model, np.repeat(levels[:8], 3), target=5.0, groups=np.arange(24) // 3),
    )
    yield (
        "gap full",
        lambda: gap_of(model, np.diag(levels) + 0.05),
    )


def refusals():
    """The kind of each refusal, and the nearest value that can be reached."""
    model, mixed = model_of(90), model_of(91, noise="mixed")
    calls = {
        "below the classical bound": lambda: design.least_loss(model, 1e-6),
        "below the caps": lambda: design.least_loss(model, 0.02, cap=0.1),
        "below the persons": lambda: design.least_loss(mixed, 1e-3, persons=LABELS, person_cap=0.1),
        "hidden": lambda: design.allocate(model, 5.0, cap=np.eye(24)[0]),
        "not identifiable": lambda: design.allocate(
            pv.LinearModel(model.matrix[:, [0, 0]], noise=1.0), 1.0
        ),
        "correlated noise": lambda: design.allocate(
            pv.LinearModel(np.eye(2), noise=pv.noise.Gaussian(cov=[[1.0, 0.5], [0.5, 1.0]])), 1.0
        ),
        "full below the caps": lambda: design.least_loss(
            model_of(72, m=12, n=2), 1e-2, shape="full", cap=0.1
        ),
        "full with groups": lambda: design.allocate(
            model_of(72, m=12, n=2), 1.0, shape="full", groups=np.arange(12)
        ),
    }
    for name, call in calls.items():
        yield f"refused {name}", lambda c=call: refusal(c)


def refusal(call):
    try:
        call()
    except PrivestError as refused:
        kind = {"kind": type(refused).__name__, "reason": getattr(refused, "reason", None)}
        nearest = getattr(refused, "nearest", None)
        return kind if nearest is None else kind | {"value": float(nearest)}
    raise AssertionError("not refused")


def problems():
    """{name: call} of all of them."""
    return {
        name: call for make in (budgets, targets, others, proofs, refusals) for name, call in make()
    }


if __name__ == "__main__":
    for name, call in problems().items():
        begun = time.perf_counter()
        found = call()
        print(f"{time.perf_counter() - begun:7.2f} s  {name}  gap {found.get('gap')}")
