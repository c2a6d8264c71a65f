"""Counts of the test suite: `python -m benchmarks.suite` prints them, and writes them into the page
docs/explanation/testing.md.

Test functions are counted in the source; one of them may have thousands of cases.
"""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "testing.md"
FOLDERS = {
    "theorems": "theorems and corollaries of the paper",
    "contracts": "every mechanism, distribution, release and public call",
    "oracle": "the same answer by another route",
    "statistics": "simulations: coverage, variances, the paper's figures",
    "fuzz": "mutated files for every reader",
    "golden": "outputs and files of earlier versions",
    "vault": "the trusted core: laws, replays, planted bugs, kills, histories",
    "unit": "each package alone, with kills, races and attacks",
    "processors": "releases, levels and seeds on other BLAS kernels",
    "surface": "names, pages, examples, emulated systems",
    "browser": "app, report and site in a browser",
}
ORACLES = {
    "scipy": "SciPy: quadrature, optimisers, distributions",
    "mpmath": "mpmath: formulas to 30 digits and more",
    "statsmodels": "statsmodels: regressions, filters, fitted models without privacy noise",
    "cvxpy": "CVXPY: designs as convex programs",
    "dp_accounting": "dp-accounting: ε of one release and of several",
    "opendp": "OpenDP: its exact samplers beside ours",
}
KINDS = {"files": "files", "functions": "test functions", "random": "on random problems",
         "later": "beyond `make test`"}  # fmt: skip
PART = r"(?<=<!-- {} -->\n)(.*?)(?=<!-- end -->)"  # of the page, by its name
LATER = r"pytest\.mark\.(?:slow|processes|browser)\b"


def counts():
    """Counts of each kind by folder, and of the files that use an oracle."""
    folders, oracles = {name: Counter() for name in FOLDERS}, Counter()
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        oracles.update(name for name in ORACLES if re.search(rf'(import |from |"){name}\b', text))
        if not path.name.startswith("test_"):
            continue
        own = folders[path.relative_to(ROOT / "tests").parts[0]]
        own["files"] += 1
        whole = re.search(rf"^pytestmark = (?:.*|\[[^]]*?){LATER}", text, re.MULTILINE)
        for before in re.split(r"^ *def test_", text, flags=re.MULTILINE)[:-1]:
            own["functions"] += 1  # its decorators end the text before it
            own["random"] += bool(re.search(r"^ *@given\(", before, re.MULTILINE))
            own["later"] += bool(whole or re.search(rf"^ *@{LATER}", before, re.MULTILINE))
    return folders, oracles


def tables():
    """Part of the page → its table."""
    folders, oracles = counts()
    folders["**all**"] = sum(folders.values(), Counter())
    by_folder = [["`tests/`", "what is in it", *KINDS.values()], ["---"] * 6]
    for name, found in folders.items():
        numbers = [f"{found[kind]:,}" for kind in KINDS]
        by_folder.append([name, FOLDERS.get(name, ""), *numbers])
    by_oracle = [["oracle", "test files"], ["---"] * 2]
    by_oracle += [[what, str(oracles[name])] for name, what in ORACLES.items()]
    return {
        part: "\n".join(f"|{'|'.join(row)}|" for row in rows)
        for part, rows in (("folders", by_folder), ("oracles", by_oracle))
    }


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    for name, table in tables().items():
        print(table, end="\n\n")
        part = re.compile(PART.format(name), re.DOTALL)
        page = part.sub(lambda _, table=table: f"\n{table}\n\n", page)
    PAGE.write_text(page, encoding="utf-8")
