"""What the public calls of `privest.audit` give on the catalogue and on mechanisms that cheat.

    cases()     a call by name, and what it is given
    records()   runs one case; the result is a tree of lists

GOLDEN=write python tests/golden/audits.py writes audits/audits.json; `test_audits` compares.
"""

import json
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import privest as pv
from privest import audit
from privest.mechanism import CATALOGUE, Additive, Channel, Componentwise, calibrate
from privest.noise import Laplace
from proved_mu import proved_mu

FILE = Path(__file__).parent / "audits" / "audits.json"
DIGITS = 12
SAMPLES = 20_000
ENDLESS = {
    "uniform", "staircase", "inverse-gaussian", "inverse-laplace", "twin-uniform", "rotation",
    "probabilistic-quantiser", "gain-gaussian", "gain-uniform",
}  # fmt: skip
Y = np.array([0.31, -0.77])


def rng():
    return np.random.default_rng(1)


# --- mechanisms that do not do what they say ------------------------------------------------------


class Stated(Channel):
    """States N(u, 1) and the supremum 1; draws what `spoil` makes of it."""

    def __init__(self, spoil):
        self.spoil, self.calls = spoil, 0

    def sample(self, u, rng):
        self.calls += 1
        u = np.asarray(u, dtype=float)
        return np.asarray(self.spoil(u, u + rng.standard_normal(u.shape), self.calls, rng))

    def log_density(self, z, u):
        return -0.5 * (np.asarray(z) - u) ** 2 - 0.5 * math.log(2 * math.pi)

    @property
    def worst(self):
        return 1.0


def low_bits(u, z):
    """The reading's own digits in the last 20 binary digits of every draw."""
    mask = np.uint64(2**20 - 1)
    kept = np.ascontiguousarray(z).view(np.uint64) & ~mask
    told = np.ascontiguousarray(np.broadcast_to(u, z.shape)).view(np.uint64) >> np.uint64(30)
    return (kept | (told & mask)).view(np.float64)


CHEATERS = {
    "honest": lambda u, z, c, r: z,
    "half the noise": lambda u, z, c, r: (u + z) / 2,
    "noise 20 % narrower": lambda u, z, c, r: u + 0.8 * (z - u),
    "the input itself": lambda u, z, c, r: u,
    "the input in 1 of 1000 draws": lambda u, z, c, r: np.where(r.random(z.shape) < 1e-3, u, z),
    "the input itself beyond 10": lambda u, z, c, r: np.where(np.abs(u) > 10, u, z),
    "rounded noise": lambda u, z, c, r: u + np.round(2 * (z - u)) / 2,
}


class Shared(Componentwise):
    """The same noise on both readings: their difference is exact."""

    def simulate(self, y, rng, trials=None):
        z = super().simulate(y, rng, trials=trials)
        return y + (z - y)[..., :1]


class Signs(Componentwise):
    """Three outputs, independent in pairs and not together."""

    def simulate(self, y, rng, trials=None):
        z = super().simulate(y, rng, trials=trials)
        off = z - y
        off[..., 2] = np.abs(off[..., 2]) * np.sign(off[..., 0] * off[..., 1])
        return y + off


class Half(pv.mechanism.GaussianMechanism):
    """Draws half of its noise."""

    def simulate(self, y, rng, trials=None):
        return self._shown(y) + 0.5 * (super().simulate(y, rng, trials) - self._shown(y))


def lying(scale):
    """Laplace noise whose supremum is said to be 1."""
    law = Laplace(scale)
    return Channel.from_functions(
        log_density=lambda z, u: law.logpdf(np.asarray(z) - u),
        sample=lambda u, rng: u + law.sample(np.shape(u), rng),
        worst=1.0,
    )


def changing(edge, scale=0.1):
    """Noise that is narrower from an input on."""

    def log_density(z, u):
        s = np.where(np.abs(u) > edge, scale, 1.0)
        return -0.5 * ((z - u) / s) ** 2 - np.log(s * math.sqrt(2 * math.pi))

    return Channel.from_functions(log_density=log_density, worst=1.0)


def liars():
    honest = Stated(CHEATERS["honest"])
    S = pv.PrivacyLevel([[4.0, 2.0], [2.0, 1.5]])
    return {
        "too little noise": (lying(0.9), 1.0),
        "too little noise, at twice the level": (lying(0.9), 2.0),
        "a law that changes at 5": (changing(5), 1.0),
        "a law that changes at 50": (changing(50), 1.0),
        "a false score": (
            Channel.from_functions(log_density=lambda z, u: -np.abs(z - u) / 0.1 - math.log(0.2),
                        score=lambda z, u: 0.0 * (z + u), worst=1.0), 1.0,
        ),
        "shared noise": (Shared(honest, measurements=2), 1.0),
        "products of signs": (Signs(honest, measurements=3), 1.0),
        "half of Gaussian noise": (Half(S, 2), S),
        "hidden reading": (Componentwise(Additive(Laplace(1e6)), measurements=2), [1.0, 0.0]),
    }  # fmt: skip


SAMPLERS = {
    "Laplace": lambda y, rng, n: y + rng.laplace(size=(n, y.size)),
    "Laplace, narrow": lambda y, rng, n: y + rng.laplace(scale=0.6, size=(n, y.size)),
    "normal": lambda y, rng, n: y + rng.standard_normal((n, y.size)),
    "sum": lambda y, rng, n: 1.2 * y.sum() + rng.standard_normal((n, 1)),
    "quantiser": lambda y, rng, n: np.round(y + rng.laplace(scale=2.0, size=(n, y.size))),
    "the readings in 1 of 100": lambda y, rng, n: np.where(
        rng.random((n, 1)) < 0.01, y, y + rng.standard_normal((n, y.size))
    ),
    "constant": lambda y, rng, n: rng.standard_normal((n, 1)),
}


def releases(start=7):
    """Code that releases for real: its noise is its own, on a grid or in doubles."""
    noise, naive = np.random.default_rng(start), np.random.default_rng()

    def grid(y, step=2.0**-10, size=1.0):
        y = np.clip(np.nan_to_num(y), -1e6, 1e6)
        return step * np.round((y + size * noise.standard_normal(np.shape(y))) / step)

    def told(y):
        return low_bits(np.clip(np.nan_to_num(y), -1e6, 1e6), np.asarray(grid(y)) + 1e-3)

    def seeded(y):
        return y + np.random.default_rng(3).standard_normal(np.shape(y))

    def raises(y):
        if not np.isfinite(y).all():
            raise ValueError("not finite")
        return grid(y)

    return {
        "on a grid": grid,
        "naive": lambda y: y + naive.standard_normal(np.shape(y)),
        "half the noise": lambda y: grid(y, size=0.5),
        "low digits": told,
        "a seed": seeded,
        "refuses": raises,
        "the reading": lambda y: np.asarray(y),
    }


# --- cases ----------------------------------------------------------------------------------------


def cases():
    made = {}
    for name, entry in CATALOGUE.items():
        if name in ENDLESS:
            made[f"certify {name} example"] = ("certify", entry.example(2), 1e9, {})
        else:
            made[f"certify {name}"] = ("certify", calibrate(name, 0.7, model=2), 0.7, {})
            made[f"certify {name} at 0.56"] = ("certify", calibrate(name, 0.7, model=2), 0.56, {})
        if name != "rotation":  # it has no density
            made[f"information {name}"] = ("information", entry.example(2), {})
        made[f"adversary {name}"] = ("adversary", entry.example(2), 1.0)
    for name, spoil in CHEATERS.items():
        made[f"certify cheater {name}"] = ("certify", Stated(spoil), 1.0, {})
    for name, (mechanism, level) in liars().items():
        made[f"certify liar {name}"] = ("certify", mechanism, level, {})
    domain = {"domain": (-3.0, 3.0)}
    made["certify domain"] = ("certify", changing(5), 1.0, domain)
    made["certify domain quantiser"] = (
        "certify", calibrate("triangular-quantiser", 0.7, model=2), 0.7, domain,
    )  # fmt: skip
    for name, sampler in SAMPLERS.items():
        places = {"search": Y[None]}
        made[f"certify sampler {name}"] = ("certify", sampler, pv.PrivacyLevel(1.0), places)
        made[f"information sampler {name}"] = ("information", sampler, {})
        made[f"adversary sampler {name}"] = ("adversary", sampler, None)
    made["information laplace samples"] = (
        "information", CATALOGUE["laplace"].example(2), {"method": "samples"},
    )  # fmt: skip
    level = pv.StreamLevel.constant([[2.0]])
    made["certify stream"] = ("stream", level, 1.0)
    made["certify stream at less"] = ("stream", level, 0.8)
    for name in releases():
        made[f"release {name}"] = ("release", name)
    return made


def record_certify(mechanism, level, given):
    found = audit.certify(mechanism, level, samples=SAMPLES, rng=rng(), **given)
    return certificate(found)


def record_stream(level, part):
    stream = pv.StreamMechanism(level.first(3))
    stated = pv.StreamLevel.constant([[2.0 * part]]).first(3)
    return certificate(audit.certify(stream, stated, samples=SAMPLES, rng=rng()))


def certificate(found):
    return {
        "verdict": found.verdict, "margin": found.margin, "error": found.error,
        "claimed": found.claimed, "method": found.method, "sampler": found.sampler,
        "domain": found.domain, "resolution": found.resolution,
        "worst_y": found.worst_y, "confidence": found.confidence,
        "reasons": len(found.reasons),
    }  # fmt: skip


def record_information(mechanism, given):
    found = audit.fisher_information(mechanism, Y, samples=SAMPLES, rng=rng(), **given)
    return {"matrix": found.matrix, "error": found.error, "method": found.method,
            "lower": found.lower}  # fmt: skip


def record_adversary(mechanism, level):
    found = audit.attack(mechanism, Y, rng=rng(), level=level, prior=(0.0, 1.0), trials=300)
    return [
        {
            "target": one.target, "attacker": one.attacker, "unbiased_floor": one.unbiased_floor,
            "level_floor": one.level_floor, "van_trees": one.van_trees,
            **{name: errors(getattr(one, name)) for name in ("likelihood", "bayesian", "averaged")},
        }
        for one in found
    ]  # fmt: skip


def errors(found):
    if found is None:
        return None
    return {"mse": found.mse, "mse_error": found.mse_error, "typical": found.typical}


OUTCOMES = {"holds": "passed", "violated": "failed", "undecided": "undecided"}


def record_release(name):
    """Checks of the release; its level from samples; and μ = 1 between 0 and 1."""
    code = releases()[name]
    found = audit.certify(code, 1.0, method="release", samples=2000, rng=rng())
    claims = {check.claim: check.outcome for check in found.checks}
    assert (found.verdict == "violated") == ("failed" in claims.values())
    level = audit.certify(lambda y, rng, n: code(np.tile(y, (n, 1))), 1.0, samples=1000, rng=rng())
    proved = proved_mu(code, (0.0, 1.0), 2000, 0.999)
    return claims | {
        "the level holds": OUTCOMES[level.verdict],
        "the ends are as hard to tell apart as stated": "failed" if proved > 1.0 else "passed",
    }


def plain(value):
    """Lists, rounded numbers, texts; NaN and ∞ as texts, which JSON has not."""
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
        return plain(globals()[f"record_{case[0]}"](*case[1:]))


def stored():
    return json.loads(FILE.read_text())


def write(wanted=""):
    """All cases, or those whose names contain a text: the others stay as they are."""
    FILE.parent.mkdir(exist_ok=True)
    before = stored() if wanted else {}
    made = {
        name: records(case) if wanted in name else before[name] for name, case in cases().items()
    }
    lines = [f"{json.dumps(name)}:{json.dumps(one, ensure_ascii=False)}"
             for name, one in made.items()]  # fmt: skip
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if os.environ.get("GOLDEN") != "write":
        raise SystemExit("GOLDEN=write python tests/golden/audits.py [part of a name]")
    write(*sys.argv[1:2])
