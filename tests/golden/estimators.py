"""What the public calls of `privest.estimator` give on small seeded cases: golden results.

    cases()     plain arrays by the name of a case; releases of mechanisms are kept in releases.json
    call_*      the only part that names public calls of the package; edit these when names change
    records()   runs one case; the result is a tree of lists

GOLDEN=write python tests/golden/estimators.py writes estimators/*.json; `test_estimators` compares.
A golden result pins what is made of given numbers, not how they were made.
"""

import json
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import privest as pv
from privest import estimator
from privest.estimator import inference
from privest.mechanism import CATALOGUE, Additive, Componentwise, GaussianMechanism
from privest.noise import Gaussian, Laplace

HERE = Path(__file__).parent / "estimators"
FILES = ("likelihood", "clipped", "inference", "streams")
DIGITS = 15
SD = 0.3


# --- plain arrays ------------------------------------------------------------------------------


def features(seed, rows, columns=2):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(rows), rng.standard_normal((rows, columns))])


def table(seed, rows, sd=1.0, columns=2, grow=False):
    """H and z of a linear model; `grow`: the noise grows with the first feature."""
    rng = np.random.default_rng(seed + 1000)
    H = features(seed, rows, columns)
    own = sd * (0.3 + np.abs(H[:, 1])) if grow else sd
    theta = np.array([0.3, 1.0, -0.8, 0.5, -0.2])[: columns + 1]
    return H, H @ theta + own * rng.standard_normal(rows)


def released(name):
    """Releases (trials, readings) of a mechanism of the catalogue, as they were kept."""
    return np.array(json.loads((HERE / "releases.json").read_text())[name])


def draw_releases():
    """Two experiments of every mechanism: 16 trials of 20 readings, 4 of 8."""
    made = {}
    for name, entry in CATALOGUE.items():
        if name in ("rotation", "geometric"):
            continue
        for measurements, trials in ((20, 16), (8, 4)):
            rng = np.random.default_rng(measurements)
            y = features(1, measurements)[:, :2] @ [1.0, -0.5]
            y = y + SD * rng.standard_normal((trials, measurements))
            found = entry.example(measurements).simulate(y, rng)
            made[f"{name} {measurements}"] = found.tolist()
    (HERE / "releases.json").write_text(
        "{\n" + ",\n".join(f"{text(k)}:{text(v)}" for k, v in made.items()) + "\n}\n"
    )


def cases():
    made = {}
    for name in CATALOGUE:
        if name not in ("rotation", "geometric"):
            made[f"batch {name}"] = ("likelihood", "mechanism", name, 20)
            made[f"single {name}"] = ("likelihood", "mechanism", name, 8)
    for name in MIXED:
        made[name] = ("likelihood", "mixed", name)
    for name in CLIPPED:
        made[f"clipped {name}"] = ("clipped", "clipped", name)
    made["clipped of a mechanism"] = ("clipped", "clipped_mechanism")
    made["clipping cost"] = ("clipped", "clipping_cost")
    for name in (key[7:] for key in globals() if key.startswith("record_") and key in LATER):
        made[name] = ("inference", name)
    for name in REGRESSIONS:
        made[f"regression {name}"] = ("streams", "regression", name)
    for name in STREAMS:
        made[f"stream {name}"] = ("streams", "stream", name)
    return made


# --- public calls ------------------------------------------------------------------------------


def call_likelihood(model, mechanism, z):
    return estimator.estimate_release(z, model, mechanism)


def call_clipped(rows, **options):
    return estimator.estimate_clipped(rows, **options)


def call_errors(how, estimate, inverse, rows, scatter=None):
    return inference.row_errors(how, estimate, inverse, rows, scatter)[0]


def call_regression(**options):
    return pv.PrivateLinearRegression(simulate=True, random_state=7, **options)


# --- maximum likelihood ------------------------------------------------------------------------


def record_mechanism(name, measurements):
    model = pv.LinearModel(features(1, measurements)[:, :2], noise=Gaussian(cov=SD**2))
    z = released(f"{name} {measurements}")
    z = z[:2] if "gain" in name else z  # by quadrature: 100 times as slow
    return likelihood_record(call_likelihood(model, CATALOGUE[name].example(measurements), z))


def likelihood_record(found):
    return {
        "estimate": found.value,
        "log_likelihood": found.log_likelihood,
        "converged": found.converged,
    }


def _by_row():
    channels = [Additive(Laplace(0.5)), CATALOGUE["cauchy"].example(1).common] * 10
    model = pv.LinearModel(features(1, 20)[:, :2], noise=Gaussian(cov=np.linspace(0.05, 0.3, 20)))
    z = np.random.default_rng(5).standard_normal((4, 20))
    return model, Componentwise(channels, measurements=20, offset=1.5), z + 1.5


def _correlated():
    root = np.random.default_rng(6).standard_normal((6, 6))
    model = pv.LinearModel(features(2, 6)[:, :2], noise=Gaussian(cov=root @ root.T))
    level = pv.PrivacyLevel(root.T @ root / 4)
    return model, GaussianMechanism(level, 6), root[:4]


def _with_range():
    model = pv.LinearModel(features(3, 20)[:, :2], noise=Gaussian(cov=0.5))
    mechanism = GaussianMechanism(pv.PrivacyLevel(2.0), 20, range=(-1.0, 1.5))
    return model, mechanism, 1.5 * np.random.default_rng(7).standard_normal((4, 20))


MIXED = {"by row": _by_row, "correlated": _correlated, "with a range": _with_range}


def record_mixed(name):
    return likelihood_record(call_likelihood(*MIXED[name]()))


# --- clipped -----------------------------------------------------------------------------------


def clipped_rows(seed=0, rows=200, level=2.0, low=-2.0, high=2.5, variance=1.0):
    rng = np.random.default_rng(seed + 50)
    H, y = table(seed, rows)
    noise = rng.standard_normal(rows) / np.sqrt(level)
    return estimator.ClippedRows(H, np.clip(y, low, high) + noise, variance, level, low, high)


def _missing():
    rows = clipped_rows(3)
    z = rows.z.copy()
    z[::7] = np.nan
    return rows._replace(z=z)


LEVELS = np.linspace(0.5, 5.0, 200)
CLIPPED = {
    "known": lambda: (clipped_rows(), {}),
    "known levels": lambda: (clipped_rows(1, level=LEVELS), {"noise_variance": 1.3}),
    "known half": lambda: (clipped_rows(2, low=-0.3, high=0.9), {}),
    "known missing": lambda: (_missing(), {}),
    "known ranges": lambda: (clipped_rows(5, low=-LEVELS, high=LEVELS), {}),
    "unknown": lambda: (clipped_rows(), {"variance_known": False}),
    "unknown levels": lambda: (
        clipped_rows(1, level=LEVELS),
        {"variance_known": False, "noise_variance": 1.3},
    ),
    "unknown half": lambda: (
        clipped_rows(2, low=-0.3, high=0.9, level=9.0),
        {"variance_known": False},
    ),
    "unknown shapes": lambda: (clipped_rows(6, variance=LEVELS), {"variance_known": False}),
    "unknown zero": lambda: (clipped_rows(7, level=0.05, rows=60), {"variance_known": False}),
    "refused beyond": lambda: (clipped_rows(8, low=6.0, high=9.0, level=50.0), {}),
    "refused variance": lambda: (
        clipped_rows(9, low=-0.3, high=0.4, level=0.5, rows=40),
        {"variance_known": False},
    ),
    "refused rank": lambda: (clipped_rows(9)._replace(H=np.ones((200, 2))), {}),
}


def record_clipped(name):
    rows, options = CLIPPED[name]()
    return attempted(lambda: clipped_record(call_clipped(rows, **options)))


def clipped_record(found):
    made = result_record(found)
    made["readings"] = found.measurements
    for name in ("clipped", "log_likelihood", "noise_variance"):
        made[name] = getattr(found, name)
    for name in ("noise_error", "added"):
        made[name] = getattr(found, name)
    return made | {"noise_interval": found.noise_interval(0.9)}


def record_clipped_mechanism():
    model, mechanism, z = _with_range()
    return clipped_record(pv.estimate(z[0], model, mechanism=mechanism))


def record_clipping_cost():
    H, theta = features(1, 100), [0.3, 1.0, -0.8]
    made = {}
    for known in (True, False):
        found = estimator.cost_of_rows(H, theta, 1.0, 2.0, (-1.0, 1.5), variance_known=known)
        made[str(known)] = [found.share, found.standard_error, found.variance_ratio, found.bias,
                            found.least_squares_ratio]  # fmt: skip
    found = estimator.cost_by_share(1.0, 2.0, (-1.0, 1.5))
    return made | {"shares": [found.one_end, found.both_ends, found.bias, found.least_share]}


# --- inference ---------------------------------------------------------------------------------


def result_record(found):
    names = ("covariance", "sampling", "classical", "bound", "degrees_of_freedom")
    made = {"estimate": found.value} | {name: getattr(found, name) for name in names}
    return made | {"interval": found.interval(0.9), "method": found.method}


def errors_record(found):
    names = ("covariance", "degrees_of_freedom", "floor", "sampling", "classical", "method")
    return {name: getattr(found, name) for name in names}


def fitted(H, z, weight=1.0):
    root = np.sqrt(np.broadcast_to(weight, z.shape))
    inverse = np.linalg.inv((H * root[:, None]).T @ (H * root[:, None]))
    return inverse @ H.T @ (root**2 * z), inverse


def in_blocks(H, z, weight=1.0, added=0.25, size=17):
    whole = np.broadcast_to(weight, z.shape)
    parts = [slice(at, at + size) for at in range(0, len(z), size)]
    return lambda: [inference.WeightedRows(H[p], z[p], whole[p], added) for p in parts]


def record_rows():
    made = {}
    for rows in (12, 60):
        H, z = table(rows, rows, grow=True)
        estimate, inverse = fitted(H, z)
        scatter = inference.Scatter(float(((z - H @ estimate) ** 2).sum()), rows - 3, 0.25)
        for how in ("auto", "t", "HC2", "HC3"):
            found = call_errors(how, estimate, inverse, in_blocks(H, z), scatter)
            made[f"{rows} {how}"] = errors_record(found)
        weight = np.linspace(0.5, 3.0, rows)
        estimate, inverse = fitted(H, z, weight)
        found = call_errors("auto", estimate, inverse, in_blocks(H, z, weight))
        made[f"{rows} weights"] = errors_record(found)
        made[f"{rows} noise"] = [scatter.total, scatter.noise_variance, scatter.noise_interval()]
    return made


def record_rows_alone():
    """One row decides a coefficient; five rows decide another."""
    H, z = table(3, 80)
    made = {}
    for count in (1, 5):
        H[:, 2] = np.arange(80) < count
        estimate, inverse = fitted(H, z)
        found = call_errors("auto", estimate, inverse, in_blocks(H, z, np.ones(80)))
        made[str(count)] = errors_record(found)
    return made


def record_levels():
    made = {}
    for seed, spread in ((1, 10.0), (2, 1e4), (3, 1.5)):
        H, z = table(seed, 60, sd=0.7)
        added = np.geomspace(0.05, 0.05 * spread, 60)
        z = z + np.sqrt(added) * np.random.default_rng(seed).standard_normal(60)
        rows = [inference.WeightedRows(H[:25], z[:25], added=added[:25])]
        rows.append(inference.WeightedRows(H[25:], z[25:], added=added[25:]))
        found = inference.fit_levels(lambda rows=rows: rows, 3)
        made[str(seed)] = errors_record(found.errors) | {
            "estimate": found.value, "noise_variance": found.noise_variance,
            "noise_interval": found.noise_interval, "quadratic": found.quadratic,
            "least_noise": found.least_noise,
        }  # fmt: skip
    return made


def record_families():
    H, rng, made = features(5, 300), np.random.default_rng(5), {}
    chance = 1 / (1 + np.exp(-H @ [0.2, 0.7, -0.4]))
    bits = (rng.random(300) < chance).astype(float)
    counts = rng.poisson(np.exp(H @ [0.2, 0.3, -0.4])) + np.sqrt(0.5) * rng.standard_normal(300)
    weight = np.linspace(0.5, 2.0, 300)
    for name, family, z, added, errors, own in (
        ("bits", "binomial", bits, 0.0, None, 1.0),
        ("coins", "binomial", 2.0 * bits - 0.5, 2.0, None, 1.0),
        ("weighted coins", "binomial", 2.0 * bits - 0.5, 2.0, None, weight),
        ("coins HC3", "binomial", 2.0 * bits - 0.5, 2.0, "HC3", 1.0),
        ("counts", "poisson", counts, 0.5, None, 1.0),
        ("counts model", "poisson", counts, 0.5, "model", 1.0),
        ("counts weighted", "poisson", counts, 0.5, None, weight),
    ):
        parts = (slice(0, 130), slice(130, None))
        whole = np.broadcast_to(own, 300)
        rows = [inference.WeightedRows(H[p], z[p], own if own is not weight else whole[p])
                for p in parts]  # fmt: skip
        found = inference.fit_family(lambda rows=rows: rows, family, added, errors=errors)
        made[name] = errors_record(found.errors) | {
            "estimate": found.value, "rows": found.rows,
        }  # fmt: skip
    return made


def record_p_values():
    return [
        inference.stated_p(30.0, 20, 1.0), inference.less_noise_p(10.0, 20, 1.0),
        inference.coin_rows(1.0, 0.2, 1000),
    ]  # fmt: skip


LATER = (
    "record_rows", "record_rows_alone", "record_levels", "record_families",
    "record_p_values",
)  # fmt: skip


# --- regression and streams --------------------------------------------------------------------


REGRESSIONS = {
    "known": ({"level": 1.0, "noise": 1.0}, {}),
    "known laplace": ({"level": 1.0, "noise": Laplace(0.7)}, {}),
    "known levels": ({"level": np.linspace(0.5, 3.0, 80), "noise": 1.0}, {}),
    "known weights": ({"level": 1.0, "noise": 1.0}, {"sample_weight": np.linspace(0.0, 2.0, 80)}),
    "unknown": ({"level": 1.0}, {}),
    "unknown levels": ({"level": np.linspace(0.5, 3.0, 80)}, {}),
    "unknown weights": ({"level": 1.0}, {"sample_weight": np.linspace(0.0, 2.0, 80)}),
    "range": ({"level": 2.0, "noise": 1.0, "range": (-1.0, 1.5)}, {}),
    "range levels": (
        {"level": np.linspace(0.5, 3.0, 80), "noise": 1.0, "range": (-1.0, 1.5)},
        {},
    ),
    "range unknown": ({"level": 4.0, "range": (-2.0, 2.5)}, {}),
    "aggregate": ({"level": 1.0, "range": (-4.0, 4.0), "form": "aggregate"}, {}),
    "no intercept": ({"level": 1.0, "noise": 1.0, "fit_intercept": False}, {}),
}


def record_regression(name):
    options, beside = REGRESSIONS[name]
    H, y = table(12, 80)
    model = call_regression(**options).fit(H[:, 1:], y, **beside)
    mean, error = H[:5, 1:] @ model.coef_ + model.intercept_, None
    if options.get("form") != "aggregate":
        mean, error = model.predict(H[:5, 1:], return_std=True)
    made = result_record(model.result_)
    return made | {
        "mean": mean, "std": error, "noise": model.noise_variance_, "upper": model.noise_upper_,
        "efficiency": model.efficiency_,
    }  # fmt: skip


def _stream(level, steps, **options):
    H, y = table(13, steps)
    level = pv.privacy.as_stream_level(level, steps)
    release = pv.StreamMechanism(level).simulate(y, np.random.default_rng(13))
    return pv.PrivateRLS(level, 3, 1.0, **options), release, H


STREAMS = {
    "numbers": lambda: _stream(2.0, 60, classical=True),
    "vector": lambda: _stream(np.linspace(0.5, 3.0, 60), 60, classical=True),
    "lags": lambda: _stream(pv.StreamLevel(np.full(60, 2.0), U=0.4 * np.eye(60, k=-1)), 60),
}


def followed(rls, release, H):
    """The estimate after every step from which on θ is identifiable."""
    found = []
    for k, row in enumerate(H):
        rls.update(release.part(k, k + 1, [1] * len(H)), row)
        found += [rls.estimate] if rls.identifiable else []
    return found


def record_stream(name):
    rls, release, H = STREAMS[name]()
    steps = followed(STREAMS[name]()[0], release, H)
    rls.update(release, H)
    made = result_record(rls.result(("a", "b", "c")))
    made |= {"misfit": rls.misfit, "information": rls.information, "first": 60 - len(steps)}
    made |= {"estimates": [one.value for one in steps[::10]]}
    made |= {"covariances": [one.covariance for one in steps[::10]]}
    return made


# --- written and read --------------------------------------------------------------------------


def attempted(work):
    try:
        return work()
    except pv.errors.PrivestError as error:
        return {"error": type(error).__name__}


def plain(value):
    """Lists, numbers of 15 digits, texts; NaN and ∞ as texts, which JSON has not."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def records(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(globals()[f"record_{case[1]}"](*case[2:]))


def text(tree):
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def stored():
    """All kept results by the name of their case."""
    found = {}
    for name in FILES:
        found |= json.loads((HERE / f"{name}.json").read_text())
    return found


def write(wanted=""):
    """All cases, or those whose names contain a text: the others stay as they are."""
    HERE.mkdir(exist_ok=True)
    if not (HERE / "releases.json").exists():
        draw_releases()
    made = {name: {} for name in FILES}
    before = stored() if wanted else {}
    for name, case in cases().items():
        made[case[0]][name] = records(case) if wanted in name else before[name]
    for name, content in made.items():
        lines = [f"{text(key)}:{text(one)}" for key, one in content.items()]
        (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if os.environ.get("GOLDEN") != "write":
        raise SystemExit("GOLDEN=write python tests/golden/estimators.py [part of a name]")
    write(*sys.argv[1:2])
