"""Reference pages made from the code: API, commands, labels of the paper, schemas, errors."""

import functools
import inspect
import os
import sqlite3
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from unittest import mock

import privest as pv

NAMES_OF_0 = Path(__file__).with_name("names_of_0.tsv")
INHERITED = "Exception, ValueError, OSError, RuntimeError, UserWarning, tuple, Enum, BaseEstimator"
START = "import sys; sys.argv[0] = 'privest'; from privest_command import main; main()"
PACKAGES = (
    "bounds", "privacy", "noise", "mechanism", "estimator", "dynamics", "design", "network",
    "audit", "ledger", "workflow", "data", "collect", "paper", "errors",
)  # fmt: skip


def api_page(name, module):
    """Every public name of a package, from its docstring."""
    first = (module.__doc__ or "").strip().split("\n\n")[0]
    path = module.__name__
    lines = [f"# {path}", "", first, "", "```{eval-rst}"]
    names = getattr(module, "__all__", None) or [
        name for name, one in vars(module).items() if getattr(one, "__module__", "") == path
    ]
    for one in names:
        found = getattr(module, one)
        if inspect.isclass(found):
            lines += [f".. autoclass:: {path}.{one}", "   :members:"]
            lines += [f"   :inherited-members: {INHERITED}", ""]
        elif callable(found):
            lines += [f".. autofunction:: {path}.{one}", ""]
        elif not inspect.ismodule(found) and not one.startswith("__"):
            lines += [f".. py:data:: {path}.{one}", ""]
    return "\n".join([*lines, "```", ""])


def labels_page():
    """Where each label of the paper lives."""
    lines = [
        "# Labels of the paper", "",
        "J. Ke, J. Wang and J.-F. Zhang, *Privacy-Preserving Cramér-Rao Lower Bound* "
        "(arXiv 2511.05327). Each label of its source, and the name that computes it.", "",
        "| label | name |", "|---|---|",
        *(f"| `{label}` | {_linked(name)} |" for label, name in pv.paper.LABELS.items()),
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def names_page():
    """Where each name of 0.x went."""
    rows = NAMES_OF_0.read_text("utf-8").splitlines()[1:]
    cells = (row.split("\t") for row in rows)
    lines = [
        "# Names of 0.x", "",
        "What stands for a name that 1.0 no longer has. Private: it is not to be imported. "
        "Dropped: nothing does its work.", "",
        "| package | 0.x | 1.0 |", "|---|---|---|",
        *(f"| `{package}` | `{old}` | {new.replace('|', ' or ')} |" for package, old, new in cells),
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def _linked(name):
    """A link; that of the class where an attribute has no text of its own."""
    if not name:
        return "a step of a proof"
    found = functools.reduce(getattr, name.split("."), pv)
    target = name if inspect.getdoc(found) else name.rpartition(".")[0]
    return f"{{py:obj}}`{name} <privest.{target}>`"


def errors_page():
    """Every error, what it means, and which built-in error catches it too."""
    lines = [
        "# Errors", "",
        "Every error that privest raises on purpose is a `PrivestError`, and no message shows a "
        "private value. The commands print it and exit with code 2, or with 1 once work began.",
        "", "| error | meaning | also caught by |", "|---|---|---|",
    ]  # fmt: skip
    for name, one in vars(pv.errors).items():
        if inspect.isclass(one) and issubclass(one, Exception):
            kinds = ", ".join(f"`{base.__name__}`" for base in one.__bases__)
            meaning = inspect.getdoc(one).splitlines()[0].replace("|", "\\|")
            lines.append(f"| {{py:obj}}`~privest.errors.{name}` | {meaning} | {kinds} |")
    return "\n".join([*lines, ""])


def mechanisms_page():
    """The catalogue."""
    lines = [
        "# Catalogue of mechanisms", "",
        "Largest Fisher information about a value u, and whether the release is unbiased. A source "
        "is a label of the paper or a key of its bibliography; σ, b, γ, a, Δ are the scale of the "
        "noise or the step.", "",
        "| name | largest information | unbiased | source |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, one in pv.mechanism.CATALOGUE.items():
        unbiased = "yes" if one.unbiased else "no"
        supremum = one.supremum.replace("|", "\\|")
        lines.append(f"| `{name}` | {supremum} | {unbiased} | {one.source} |")
    return "\n".join([*lines, ""])


def commands_page():
    """The help of every command, as the command prints it."""
    from typer.main import get_command

    from privest.cli.app import app, loaded

    lines = ["# Commands", ""]
    for name in sorted(get_command(app).commands):
        lines += [f"## privest {name}", "", "```text", _printed(name, "--help"), "```", ""]
        for own in getattr(loaded(name), "commands", ()):
            lines += [f"### privest {name} {own}", "", "```text", _printed(name, own, "--help")]
            lines += ["```", ""]
    return "\n".join(lines)


def _printed(*words):
    command = [sys.executable, "-c", START, *words]
    env = {"COLUMNS": "84", "NO_COLOR": "1", "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    env |= {"PYTHONPATH": str(Path(pv.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def schemas_page():
    """The fields of plan files and headers."""
    lines = [
        "# Schemas", "",
        "Files that a version 1.x writes are read by every later 1.y.", "",
    ]  # fmt: skip
    for kind in ("plan", "header"):
        lines += [f"## {kind}", "", "```text", _printed("schema", kind), "```", ""]
    return "\n".join([*lines, *_ledger()])


def _ledger():
    """The tables of a new ledger."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        with mock.patch.dict(os.environ, PRIVEST_STATE_HOME=folder):
            pv.Ledger(path).account("meter 7", budget=1.0)
        with sqlite3.connect(path) as opened:
            tables = opened.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall()
    made = [sql.replace("(", "(\n    ", 1).replace(", ", ",\n    ") for (sql,) in tables]
    return [
        "## ledger", "",
        "A [ledger](../howto/ledger.md) is an SQLite file that only grows. A row of `entries` is a "
        "budget, a release, a recovery or an adoption: its number, time and kind, the account "
        "(`subject`), the stream (`line`), the first index and the one after the last, the entry "
        "that it completes (`of`), public facts as JSON (`body`), the SHA-256 of the released "
        "integers (`numbers`), and the hash of this entry and all before it. The table `numbers` "
        "has the integers, `secret` the key of the signatures.", "",
        "```sql", *made, "```", "",
    ]  # fmt: skip


def make(app):
    """Write the pages that changed."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    pages = {"api-pv": api_page("pv", pv), "labels": labels_page(), "names": names_page(),
             "mechanisms": mechanisms_page(), "commands": commands_page(),
             "schemas": schemas_page(), "errors": errors_page(),
             "glossary": Path(__file__).with_name("glossary.md").read_text("utf-8")}  # fmt: skip
    pages |= {f"api-{name}": api_page(name, import_module(f"privest.{name}")) for name in PACKAGES}
    api = "\n".join(f"api-{name}" for name in ("pv", *PACKAGES))
    pages["index"] = (
        "# Reference\n\n```{toctree}\n:maxdepth: 1\n\n"
        "glossary\ncommands\nschemas\nerrors\nmechanisms\nlabels\nnames\n```\n\n"
        "```{toctree}\n:maxdepth: 1\n:caption: Python\n\n" + api + "\n```\n"
    )
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app):
    """Called by Sphinx."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True}
