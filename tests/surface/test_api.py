"""The promise about names: every public name with its signature, as `api.txt` keeps it.

Promised is what the reference shows: the names of `__all__`, their parameters (of a result none),
and the methods and properties that have a docstring.
GOLDEN=write writes the file again. From 1.0 on a line that goes or changes is a breaking change.
"""

import dataclasses
import functools
import importlib.util
import inspect
import os
import re
from pathlib import Path

import pytest

import privest as pv

ROOT = Path(__file__).parents[2]
_docstrings = importlib.util.spec_from_file_location("d", ROOT / "docs/_ext/docstrings.py")
_site = importlib.util.module_from_spec(_docstrings)
_docstrings.loader.exec_module(_site)
RESULTS = _site.RESULTS
KEPT = Path(__file__).parent / "api.txt"
PACKAGES = [name for name in pv.__all__ if inspect.ismodule(getattr(pv, name))]


def public_names():
    """(path, object) of everything that users may rely on."""
    yield from ((f"pv.{name}", getattr(pv, name)) for name in pv.__all__ if name not in PACKAGES)
    for package in PACKAGES:
        module = getattr(pv, package)
        names = getattr(module, "__all__", None) or defined_in(module)
        yield from ((f"pv.{package}.{name}", getattr(module, name)) for name in names)


def defined_in(module):
    """Names of the classes of a module without `__all__`: `errors`."""
    return [
        k for k, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__
    ]


def signature(found):
    """Parameters with their defaults; annotations change more often than meanings."""
    try:
        stated = inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in stated.parameters.values()]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(plain)))


def members(found):
    """Methods and properties with a docstring, which the reference shows; fields of results."""
    fields = dataclasses.fields(found) if found.__name__ in RESULTS - {"Bound", "Account"} else ()
    listed = {field.name for field in fields if not field.name.startswith("_")}
    for name in sorted({*vars(found), *listed}):
        if name in listed:
            yield f"    .{name}"
            continue
        own = inspect.getattr_static(found, name)
        if name.startswith("_") or not inspect.getdoc(getattr(found, name)):
            continue
        if isinstance(own, classmethod | staticmethod) or inspect.isfunction(own):
            yield f"    .{name}{signature(getattr(found, name))}"
        elif isinstance(own, property | functools.cached_property):
            yield f"    .{name}"


def lines():
    for path, found in public_names():
        if inspect.isclass(found):
            kind = f"({', '.join(base.__name__ for base in found.__bases__)})"
            made = "" if found.__name__ in RESULTS else signature(found)
            yield f"{path}{kind if issubclass(found, Exception) else made}"
            yield from () if issubclass(found, Exception) else members(found)
        else:
            yield f"{path}{signature(found) if callable(found) else ''}"


def test_names_and_signatures_are_as_promised():
    found = "".join(f"{line}\n" for line in lines())
    if os.environ.get("GOLDEN") == "write":
        KEPT.write_text(found)
    assert found == KEPT.read_text(), "a change of the API: GOLDEN=write, and the CHANGELOG"


def test_nothing_private_is_promised():
    assert [line for line in lines() if re.search(r"[(,] ?_\w|\._[a-z]", line)] == []
    named = [found for path, found in public_names() if path.startswith("pv.errors.")]
    assert all(inspect.isclass(one) and issubclass(one, Exception) for one in named)


def test_results_are_public_classes_that_no_example_makes(examples):
    public = {path.rpartition(".")[2] for path, found in public_names() if inspect.isclass(found)}
    assert public >= RESULTS
    assert [name for name in sorted(RESULTS) if re.search(rf"\b{name}\(", examples)] == []


def test_names_of_0_lead_to_names_that_exist():
    """Those that are one name: `docs/_ext/names_of_0.tsv`, which the reference shows."""
    known = {path.removeprefix("pv.") for path, _ in public_names()}
    known |= {name.partition(".")[2] for name in known} | {"", *PACKAGES}
    for line in (ROOT / "docs/_ext/names_of_0.tsv").read_text().splitlines()[1:]:
        package, old, new = line.split("\t")
        one = re.fullmatch(r"(?:pv\.)?([\w.]+)", new)
        if one is None or new in ("private", "dropped"):
            continue  # said in words
        name = one[1]
        whole = [name, f"{package}.{name}", *(f"{one}.{name}" for one in PACKAGES)]
        owner = name.rpartition(".")[0]
        assert known & {*whole, owner} - {""}, (package, old, new)


def test_few_names_at_the_top():
    assert len(pv.__all__) <= 40


@pytest.fixture(scope="module")
def examples():
    """All code that users are shown: blocks of pages, gallery, examples, doctests; no prose."""
    kinds = ("tutorials", "howto", "explanation", "decide")
    pages = [path for kind in kinds for path in ROOT.glob(f"docs/{kind}/*.md")]
    texts = [
        block
        for path in [*pages, ROOT / "README.md"]
        for block in re.findall(r"(?ms)^```python\n(.*?)^```", path.read_text())
    ]
    shown = [*ROOT.glob("docs/gallery/*/*.py"), *ROOT.glob("examples/*.py")]
    texts += [path.read_text() for path in shown]
    for path in ROOT.glob("src/privest/**/*.py"):
        texts += re.findall(r"(?:>>>|\.\.\.) .*", path.read_text())
    return "\n".join(texts)


OTHERS = {pv.Bound, pv.ledger.Account, pv.dynamics.Family, pv.mechanism.Mechanism}


def is_result(found):
    """What calls return or raise, or what others derive from: the example is theirs."""
    return inspect.isclass(found) and (
        issubclass(found, Exception) or dataclasses.is_dataclass(found) or found in OTHERS
    )


def test_every_name_is_documented_with_an_example(examples):
    bare, without = [], []
    for path, found in public_names():
        name = path.rpartition(".")[2]
        if callable(found) and not inspect.getdoc(found):
            bare.append(path)
        shown = name == "__version__" or is_result(found)
        if not shown and not re.search(rf"\b{name}\b", examples):
            without.append(path)
    assert (bare, without) == ([], [])
