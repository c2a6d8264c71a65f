"""Monte Carlo on a graphics processor: the same numbers as the processor's, and how fast.

    PYTHONPATH=src OUT=out python3 benchmarks/gpu_run.py [--quick] [--seconds 440] [--only PART,…]

Needs numpy, scipy, cupy and one NVIDIA device; no command line, no pictures. It prints a table and
writes $OUT/gpu.json (what was found so far, after every part) and $OUT/experiment_a.json (the
points). A part that fails prints its traceback and the others go on; the exit code is then 1.
It ends before --seconds: the whole Experiment A is run on as many levels as the time left allows,
and says on how many. --quick: a hundredth of the trials. Parts: random_numbers, voigt_function,
same_estimates, same_experiment, tuned, laplace_times, cauchy_times, experiment_a.
"""

import argparse
import json
import os
import sys
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

FOUND = {"checks": {}, "times": {}, "failed": []}
CLOCK = time.perf_counter()


def out(name):
    folder = Path(os.environ.get("OUT", "out"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def keep():
    out("gpu.json").write_text(json.dumps(FOUND, indent=1, default=str) + "\n")


def part(function):
    """Run a part; what it raises is told and kept, and the next one runs."""

    def run(*args):
        try:
            function(*args)
        except Exception:
            FOUND["failed"].append(function.__name__)
            print(f"\n*** {function.__name__} failed ***", flush=True)
            traceback.print_exc()
        keep()

    return run


def check(name, value, limit):
    """A number that must not exceed its limit."""
    value = float(value)
    good = value <= limit
    FOUND["checks"][name] = {"value": value, "limit": limit, "good": good}
    if not good:
        FOUND["failed"].append(name)
    print(f"{'ok ' if good else 'BAD'} {name}: {value:.3g} (limit {limit:.3g})", flush=True)


def timed(name, function, trials=None, target=None, *, warm=True):
    """Seconds of a call, the device idle before and after.

    warm  make the same call once before: kernels are compiled for each kind of arrays, and memory
          is taken at the size of the call.
    """
    import cupy

    if warm:
        function()
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    result = function()
    cupy.cuda.Device().synchronize()
    seconds = time.perf_counter() - start
    row = {"seconds": seconds, "trials": trials, "target_seconds": target}
    each = ""
    if trials:
        row["microseconds_a_trial"] = 1e6 * seconds / trials
        each = f", {1e6 * seconds / trials:.4g} µs a trial"
    wanted = f" (at most {target:g} s wanted)" if target else ""
    FOUND["times"][name] = row
    print(f"    {name}: {seconds:.3f} s{each}{wanted}", flush=True)
    return result


@part
def machine():
    import cupy
    import scipy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    free, total = cupy.cuda.runtime.memGetInfo()
    FOUND["machine"] = {
        "device": properties["name"].decode(),
        "multiprocessors": properties["multiProcessorCount"],
        "memory_GiB": total / 2**30,
        "free_GiB": free / 2**30,
        "cuda": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": sys.version.split()[0],
    }
    print(FOUND["machine"], flush=True)


@part
def random_numbers():
    """The same on the device as here, whatever the block."""
    from privest.estimator.device import as_backend
    from privest.paper._engine import Counter

    there, here = as_backend("cupy"), as_backend("numpy")
    counter = Counter((0x1234567890ABCDEF, 2**63 + 7), 5)
    a = there.host(counter.uniform(1000, 30, there))
    whole = there.host(counter.uniform(2000, 30, there))
    check(
        "uniform numbers that differ from NumPy's", (a != counter.uniform(1000, 30, here)).sum(), 0
    )
    check("uniform numbers that depend on the block", (whole[:1000] != a).sum(), 0)


@part
def voigt_function():
    import cupy

    from privest.estimator.likelihood import _additive

    rng = np.random.default_rng(1)
    x = 10.0 ** rng.uniform(-3, 8, 200_000) * rng.choice([-1, 1], 200_000)
    x[::2] = rng.uniform(-15, 15, 100_000)
    y = 10.0 ** rng.uniform(-4, 5, x.size)
    here = _additive.profile(x, y)
    there = [a.get() for a in _additive.profile(cupy.asarray(x), cupy.asarray(y), cupy)]
    unit = np.minimum(1.0, 1.0 / np.hypot(x, y))
    check("Voigt: ln K, device against processor", np.abs(np.log(there[0] / here[0])).max(), 2e-13)
    check("Voigt: slope", (np.abs(there[1] - here[1]) / unit).max(), 2e-11)
    bends = [b - a * a for _, a, b in (there, here)]
    check("Voigt: curvature", (np.abs(bends[0] - bends[1]) / unit**2).max(), 2e-9)
    big = cupy.asarray(rng.standard_cauchy(10**7))
    width = cupy.asarray(2.5)
    _additive.profile(big, width, cupy)
    name = "Voigt with two derivatives, 10⁷ points"
    timed(name, lambda: _additive.profile(big, width, cupy), 10**7)


def problems(trials):
    """H and, by name, (likelihood, releases of the paper's set-up at level 1)."""
    from privest.estimator import likelihood as family
    from privest.estimator.likelihood import likelihood_of
    from privest.mechanism import CATALOGUE, calibrate
    from privest.paper._methods import THETA, setting_of

    H = setting_of().model.matrix
    rng = np.random.default_rng(7)
    y = THETA @ H.T + 0.2 * rng.standard_normal((trials, 10))
    made = {}
    for name in ("laplace", "cauchy", "truncated-inverse-gaussian", "truncated-inverse-laplace",
                 "binary-laplace", "triangular-quantiser"):  # fmt: skip
        mechanism = calibrate(name, 1.0, model=10)
        made[name] = likelihood_of(mechanism, 0.04), mechanism.simulate(y, rng)
    twin = CATALOGUE["twin-uniform"].example(10)
    made["twin-uniform"] = likelihood_of(twin, 0.04), twin.simulate(y, rng)
    made["gaussian"] = (
        family.GaussianLikelihood(0.04, noise=1.0), y + rng.standard_normal(y.shape),
    )  # fmt: skip
    laplace, cauchy = made["laplace"], made["cauchy"]
    mixed = np.where(np.arange(10) % 2, laplace[1], cauchy[1])
    made["Laplace and Cauchy by row"] = (
        family.Rowwise([laplace[0] if i % 2 else cauchy[0] for i in range(10)]), mixed,
    )  # fmt: skip
    return H, made


def compared(name, here, there):
    """Two results of the same trials: log-likelihoods, and estimates where those agree."""
    trials = len(here.value)
    apart = np.abs(here.log_likelihood - there.log_likelihood)
    # Another of several maxima may win by rounding of a start's rank: a few trials in a thousand.
    other = apart > 1e-6
    check(f"{name}: part of trials that end in another maximum", other.mean(), 0.005)
    check(f"{name}: log-likelihood, the rest", apart[~other].max(), 1e-9)
    # A flat maximum: θ is known to √(rounding of Σℓ) of a standard error at worst.
    same = ~other & here.converged & there.converged
    change = np.abs(here.value - there.value)[same].max(axis=1)
    scale = 1.0 + np.abs(here.value[same]).max(axis=1)
    check(f"{name}: estimates, 99.9 % of the rest", np.quantile(change / scale, 0.999), 1e-7)
    check(f"{name}: median change of the estimate", np.median(change / scale), 1e-12)
    flags = (here.converged != there.converged).mean()
    check(f"{name}: part of trials whose `converged` differs", flags, 0.005)
    FOUND["checks"][f"{name}: trials"] = trials


@part
def same_estimates():
    from privest.estimator._mle import maximum_likelihood

    H, made = problems(2000)
    slow = {"truncated-inverse-gaussian": 300, "truncated-inverse-laplace": 60, "twin-uniform": 20}
    for name, (likelihood, z) in made.items():
        try:
            own = z[: slow.get(name, 1000)]
            start = time.perf_counter()
            here = maximum_likelihood(H, own, likelihood)
            took = time.perf_counter() - start
            there = maximum_likelihood(H, own, likelihood, backend="cupy")
            print(f"    {name}: {len(own)} trials on the processor {took:.2f} s", flush=True)
            compared(name, here, there)
        except Exception:
            FOUND["failed"].append(f"same estimates, {name}")
            print(f"\n*** same estimates, {name} failed ***", flush=True)
            traceback.print_exc()


@part
def same_experiment():
    """The trials of fig1 from seed to squared error, every method of the paper."""
    from privest.estimator.device import as_backend
    from privest.paper import _on_device
    from privest.paper._engine import counter
    from privest.paper._methods import PAPER, method_of, setting_of

    setting, there, here = setting_of(), as_backend("cupy"), as_backend("numpy")
    for name in PAPER:
        method = method_of(name)
        trials = 200 if "inverse" in name else 1000
        numbers = counter(f"{name} at 1.0", 0, 1)
        a = there.host(
            _on_device.squared_errors_there(numbers, trials, method, 1.0, setting, there)
        )
        b = _on_device.squared_errors_there(numbers, trials, method, 1.0, setting, here)
        off = np.abs(a - b) / (1.0 + np.abs(b))
        check(f"fig1 {name}: part of trials with another error", (off > 1e-6).mean(), 0.005)
        check(f"fig1 {name}: median change of the error", np.median(off), 1e-11)


@part
def laplace_times(scale):
    import cupy

    from privest.estimator._mle import maximum_likelihood
    from privest.estimator.device import as_backend
    from privest.paper import _on_device
    from privest.paper._engine import counter
    from privest.paper._methods import method_of, setting_of

    H, made = problems(10**6 // scale)
    likelihood, z = made["laplace"]
    name = "Laplace, public call, 10⁶ trials, NumPy arrays in and out"
    timed(name, lambda: maximum_likelihood(H, z, likelihood, backend="cupy"), len(z))
    on_device = cupy.asarray(z)
    name = "the same, CuPy arrays in and out"
    timed(name, lambda: maximum_likelihood(H, on_device, likelihood, backend="cupy"), len(z))
    backend = as_backend("cupy")
    trials = 10**8 // scale
    method, setting = method_of("laplace"), setting_of()

    def seed_to_result():
        errors = _on_device.squared_errors_there(
            counter("laplace at 1.0", 0, 1), trials, method, 1.0, setting, backend
        )
        return (
            float(errors.mean()),
            float(errors.std() / len(errors) ** 0.5),
            float(cupy.median(errors)),
        )

    name = "Laplace, 10⁸ trials, from seed to result"  # of 20 s, a compilation is a small part
    found = timed(name, seed_to_result, trials, 60, warm=False)
    FOUND["laplace"] = dict(zip(("mse", "standard_error", "median"), found)) | {"trials": trials}
    print("    mean, standard error, median of the squared error:", found, flush=True)


@part
def cauchy_times(scale):
    import cupy

    from privest.estimator._mle import maximum_likelihood

    H, made = problems(10**6 // scale)
    for name, target in (("cauchy", 10), ("truncated-inverse-gaussian", None)):
        likelihood, z = made[name]
        on_device = cupy.asarray(z)
        found = timed(
            f"{name}, {1 + likelihood.fits} starts, 10⁶ trials",
            partial(maximum_likelihood, H, on_device, likelihood, backend="cupy"),
            len(z),
            target,
        )
        FOUND[name] = {"converged": float(found.converged.mean())}
        print("   ", FOUND[name], flush=True)


@part
def experiment_a(scale, seconds):
    """All methods of the paper; on all levels if the time left allows."""
    from privest.paper import fig1
    from privest.paper._methods import PAPER

    trials, levels = 10**6 // scale, np.arange(1, 101) / 10
    each = {}
    for name in PAPER:  # one level in the middle: what a point costs
        fig1([4.95], trials=trials // 10, methods=[name], backend="cupy")
        start = time.perf_counter()
        fig1([4.95], trials=trials, methods=[name], backend="cupy")
        each[name] = time.perf_counter() - start
    print("    seconds a point:", {k: round(v, 3) for k, v in each.items()}, flush=True)
    left = seconds - (time.perf_counter() - CLOCK)
    fits = int(0.8 * left / sum(each.values()))
    chosen = levels if fits >= len(levels) else levels[:: -(-len(levels) // max(fits, 1))]
    FOUND["experiment_a"] = {"seconds_a_point": each, "trials": trials, "levels": len(chosen)}
    keep()
    points, times = [], {}
    start = time.perf_counter()
    for name in PAPER:
        own = time.perf_counter()
        found = fig1(chosen, trials=trials, methods=[name], backend="cupy")
        points += found.points
        times[name] = time.perf_counter() - own
        print(f"    {name}: {len(chosen)} levels in {times[name]:.1f} s", flush=True)
        FOUND["experiment_a"]["seconds"] = times
        keep()
    total = time.perf_counter() - start
    count = trials * len(points)
    name = f"Experiment A, {len(chosen)} levels × {len(PAPER)} mechanisms, {trials:,} a point"
    FOUND["times"][name] = {
        "seconds": total, "trials": count, "microseconds_a_trial": 1e6 * total / count,
    }  # fmt: skip
    claims = [str(claim) for claim in replace(found, points=points).claims]
    FOUND["experiment_a"] |= {"total_seconds": total, "claims": claims}
    out("experiment_a.json").write_text(json.dumps([p.to_dict() for p in points]) + "\n")
    print(f"    Experiment A: {len(chosen)} of {len(levels)} levels, {total:.1f} s", flush=True)
    print(*claims, sep="\n", flush=True)


def table():
    print("\n| job | seconds | µs a trial |\n|---|---|---|")
    for name, row in FOUND["times"].items():
        each = row.get("microseconds_a_trial")
        print(f"| {name} | {row['seconds']:.3g} | {'' if each is None else f'{each:.3g}'} |")
    bad = [name for name, c in FOUND["checks"].items() if isinstance(c, dict) and not c["good"]]
    good = sum(isinstance(c, dict) for c in FOUND["checks"].values()) - len(bad)
    print(f"\n{good} checks hold, {len(bad)} do not {bad}; failed parts: {FOUND['failed']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=440.0)
    parser.add_argument("--only", help="parts, separated by commas")
    given = parser.parse_args()
    for name in ("scipy", "cupy"):
        try:
            __import__(name)
        except ImportError as error:
            sys.exit(f"{name} is needed and not there: {error}")
    scale = 100 if given.quick else 1
    parts = {
        "random_numbers": random_numbers,
        "voigt_function": voigt_function,
        "same_estimates": same_estimates,
        "same_experiment": same_experiment,
        "laplace_times": partial(laplace_times, scale),
        "cauchy_times": partial(cauchy_times, scale),
        "experiment_a": partial(experiment_a, scale, given.seconds),
    }
    machine()
    for name, run in parts.items():
        if given.only is None or name in given.only.split(","):
            run()
    FOUND["seconds"] = time.perf_counter() - CLOCK
    table()
    keep()
    sys.exit(1 if FOUND["failed"] else 0)


if __name__ == "__main__":
    main()
