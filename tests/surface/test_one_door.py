"""Release noise is made, and seeds are mixed, in one room: `mechanism/source/`.

Read from the source text: whatever calls a random generator's method, makes a generator or mixes a
seed is found; modules that simulate worlds, attack or compare are listed with their reason.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "privest"
DOOR = "mechanism/source/"

DRAWS = {
    "standard_normal", "normal", "laplace", "random", "random_sample", "rand", "randn", "uniform",
    "integers", "randint", "choice", "exponential", "standard_exponential", "gamma", "beta",
    "standard_gamma", "standard_t", "standard_cauchy", "logistic", "poisson", "binomial",
    "geometric", "chisquare", "multivariate_normal", "permutation", "permuted", "shuffle", "bytes",
    "sample", "rvs", "getrandbits", "normalvariate", "urandom", "token_bytes",
}  # fmt: skip
SEEDS = {
    "default_rng", "SeedSequence", "Generator", "RandomState", "PCG64", "PCG64DXSM", "Philox",
    "MT19937", "SFC64", "check_random_state", "spawn", "jumped", "advance", "seed",
}  # fmt: skip
RANDOM_MODULES = {"random", "secrets", "numpy.random"}

WORLD = "simulates readings, never releases them"
LAW = "a law draws from itself; who asks for it is on this list"
FIXED = "a fixed start or subset of a numerical method: of no data, the same in every run"
CHANNEL = "a mechanism of the catalogue with noise of its own law, for experiments"
ALLOWED = {
    "app": "secrets of a session, and choices of a form: never noise",
    "audit": "attacks, searches for worst cases, and simulates what it judges",
    "noise": LAW,
    "paper": "the experiments of the paper: worlds, rivals and their seeds",
    "collect": "names of reports, tokens and pauses: never noise",
    "cli/demo.py": "shuffles the rows of the embedded data",
    "dynamics/_system.py": WORLD,
    "estimator/starts.py": FIXED,
    "ledger": "names and keys of ledgers: never noise",
    "files.py": "names of temporary files",
    "vault": "the trusted core, which takes the place of the door: its own tests say who draws",
    "lattice/_sampler.py": "words of the operating system, which the door asks for",
    "mechanism/_additive.py": CHANNEL,
    "mechanism/_functions.py": CHANNEL,
    "mechanism/_mechanism.py": CHANNEL,
    "mechanism/_multiplicative.py": CHANNEL,
    "mechanism/_quantiser.py": CHANNEL,
    "mechanism/_rotation.py": CHANNEL,
    "mechanism/simulated.py": "simulations of what the vault releases, by a generator with a seed",
    "model/_models.py": WORLD,
    "network/_fusion.py": LAW,
    "network/_graph.py": "decides which links fail: never noise",
    "network/_rounds.py": FIXED,
    "pipeline/_report.py": WORLD,
    "pipeline/_perturbation.py": "noise of laws other than the Gaussian, for experiments",
}


@cache
def used(text):
    """(line, name) wherever `text` draws numbers, makes a generator or mixes a seed."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in DRAWS | SEEDS:
                found.add((node.lineno, name))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if "rng" in owner:
                if name in DRAWS:  # a method handed on: draw = rng.laplace
                    found.add((node.lineno, name))
            case ast.ImportFrom(module=name) if name in RANDOM_MODULES:
                found.add((node.lineno, name))
            case ast.Import(names=names):
                found |= {(node.lineno, a.name) for a in names if a.name in RANDOM_MODULES}
    return sorted(found)


def offenders(modules):
    """Modules that draw and are neither the door nor on the list."""
    return {
        name: lines
        for name, text in modules.items()
        if not name.startswith(DOOR) and name.split("/")[0] not in ALLOWED and name not in ALLOWED
        if (lines := used(text))
    }


def source_files():
    return {path.relative_to(SRC).as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")}


def test_only_the_door_draws_on_a_release_path():
    assert offenders(source_files()) == {}


def test_the_door_is_one():
    """Exactly one room makes noise for releases: everything else that asks goes through it."""
    files = source_files()
    makers = [name for name, text in files.items() if "def _noise(self, shown" in text]
    makers += [name for name, text in files.items() if "lattice.gaussian_integers" in text]
    assert set(makers) == {f"{DOOR}_noise.py"}
    tossing = [name for name, text in files.items() if "lattice.tossed" in text]
    assert tossing == [f"{DOOR}_noise.py"]
    assert any(used(text) for name, text in files.items() if name.startswith(DOOR))


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_the_list_is_not_longer_than_it_must_be(name):
    own = [text for file, text in source_files().items() if name in (file, file.split("/")[0])]
    assert any(used(text) for text in own), "it draws nothing any more: take it off the list"


@pytest.mark.parametrize(
    "line",
    [
        "z = y + rng.standard_normal(y.shape)",
        "z = y + np.random.default_rng([seed, 3]).normal(size=4)",
        "draw = self.rng.laplace if heavy else rng.normal",
        "rng = np.random.Generator(np.random.PCG64(seed))",
        "seeds = np.random.SeedSequence(seed).generate_state(4)",
        "z = y + law.sample(y.shape, rng)",
        "z = scipy.stats.norm.rvs(size=3)",
        "import random",
        "from numpy.random import default_rng",
        "from secrets import token_bytes",
    ],
)
@pytest.mark.parametrize("name", ["workflow/release.py", "network/_sensor.py", "cli/new.py"])
def test_the_test_can_fail(name, line):
    modules = source_files()
    modules[name] = modules.get(name, "") + "\n" + line + "\n"
    assert list(offenders(modules)) == [name]
