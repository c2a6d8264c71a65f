"""Pieces of work for the tests of what is taken along: every kind of plan, on small tables."""

import numpy as np

from privest.data import Reading
from privest.workflow import Noise, People, Privacy, Spec, Weights
from workflow_tables import people, write


def _messy(folder):
    """Semicolons, decimal commas, umlauts, a missing code, names with spaces and commas."""
    rng = np.random.default_rng(5)
    lines = ["Größe, cm;Geschlecht;Blut fett"]
    for k in range(60):
        size = "999" if k == 7 else f"{rng.normal(170, 9):.2f}".replace(".", ",")
        fat = f"{np.exp(rng.normal(4.8, 0.3)):.3f}".replace(".", ",")
        lines.append(f"{size};{rng.choice(['männlich', 'weiblich'])};{fat}")
    (folder / "Über uns (1).csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Spec(
        "Über uns (1).csv", "Blut fett", ("Größe, cm", "Geschlecht"), Privacy(6.0, range=(20, 900)),
        categories={"Geschlecht": ("männlich", "weiblich")}, transform="log", missing="drop",
        reading=Reading(";", ",", missing_codes=("Größe, cm=999",), thousands="none"),
    )  # fmt: skip


def _table(folder, **more):
    table = people(60)
    for name, column in more.items():
        table[name] = column(table)
    write(table, folder / "people.csv")


def _persons(folder):
    _table(folder, id=lambda table: np.repeat(np.arange(20), 3))
    return Spec(
        "people.csv", "ldl", ("age",), Privacy(3.0, range=(0, 5)), person=People("id", most=3)
    )


def _weights(folder):
    _table(folder, w=lambda table: 1 + np.arange(60) % 4)
    return Spec(
        "people.csv", "ldl", ("age", "bmi"), Privacy(epsilon=2.0, delta=1e-6, move=1.0),
        Noise(0.3), weights=Weights("w"),
    )  # fmt: skip


def _several(folder):
    _table(folder, hdl=lambda table: table["ldl"] / 3)
    return Spec(
        "people.csv", ("ldl", "hdl"), ("age",), Privacy(3.0, units={"ldl": 1.0, "hdl": 0.5})
    )


def _yes(folder):
    _table(folder, ill=lambda table: (table["ldl"] > 1.1).astype(int))
    return Spec("people.csv", "ill", ("age",), Privacy(epsilon=3.0), family="binomial")


def _levels(folder):
    _table(folder, level=lambda table: 5.0 * (np.arange(60) % 3))
    own = Privacy(level_column="level")
    return Spec("people.csv", "ldl", ("age", "bmi"), own, Noise(0.3))


def _formula(folder):
    _table(folder)
    return Spec(
        "people.csv", (), (), Privacy(2.0), Noise(0.3), {"sex": ("female", "male")},
        formula="ldl ~ age*C(sex) + np.log(bmi)",
    )  # fmt: skip


def _embedded(folder):
    return Spec("diabetes", "s5", ("age", "bmi"), Privacy(4.0), Noise(0.2))


def _mean(folder):
    _table(folder)
    return Spec("people.csv", "ldl", (), Privacy(2.0))


CASES = {
    "embedded": _embedded, "messy": _messy, "persons": _persons, "weights": _weights,
    "several": _several, "yes": _yes, "levels": _levels, "formula": _formula, "mean": _mean,
}  # fmt: skip
