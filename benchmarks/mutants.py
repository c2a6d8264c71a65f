"""Random mutants of the source: does a test notice that one operator or number is wrong?

    python -m benchmarks.mutants dynamics,design --count 30 --seed 30

A mutant changes one comparison, arithmetic operator, boolean operator or number of a function in
a copy of the tree. Tests that name the package run first, then all others (not the slow ones;
with --near none of the others, so that more survive).
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
BOOLEANS = {ast.And: ast.Or, ast.Or: ast.And}
PICKED = "not slow and not browser and not processes"


def sites(path):
    """Every place of a file that can be changed: line, text before, text after."""
    source = path.read_text()
    skipped = set()  # annotations, formatted texts, and what was already given
    tree = ast.parse(source)
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.JoinedStr):
            parts.append(node)
        skipped.update(id(one) for part in parts if part is not None for one in ast.walk(part))
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if id(node) not in skipped and (changed := _changed(node, source)) is not None:
                skipped.add(id(node))
                yield node.lineno, *changed


def _changed(node, source):
    """The text of an expression and of its mutant; None where there is none."""
    before = ast.get_source_segment(source, node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        after = ast.Compare(node.left, [COMPARISONS[type(node.ops[0])](), *node.ops[1:]],
                            node.comparators)  # fmt: skip
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        after = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        after = ast.BoolOp(BOOLEANS[type(node.op)](), node.values)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        after = ast.Constant(node.value + 1 if type(node.value) is int else 1.5 * node.value or 1.0)
    else:
        return None
    return before, f"({ast.unparse(ast.fix_missing_locations(after))})", node


def written(path, site):
    """The file with one expression replaced."""
    _, _, after, node = site
    lines = path.read_text().encode().split(b"\n")
    first, last = node.lineno - 1, node.end_lineno - 1
    tail = lines[last][node.end_col_offset :]
    lines[first : last + 1] = [lines[first][: node.col_offset] + after.encode() + tail]
    path.write_bytes(b"\n".join(lines))


def killed(tree, picked, processes):
    """Whether a test fails on the tree."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout=200", "-m", PICKED]
    command += ["-n", str(processes)]
    env = os.environ | {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as told:
        done = subprocess.run([*command, *picked], cwd=tree, env=env, stdout=told, stderr=told)
    return done.returncode not in (0, 5)  # 5: no test was picked


def tests_of(tree, package, module):
    """Test files by how likely they are to notice: their folder's name, then their imports."""
    all_tests = sorted((tree / "tests").rglob("test_*.py"))
    named = re.compile(rf"\b{package}\b")
    near = [one for one in all_tests if package in one.parts]
    others = [one for one in all_tests if one not in near and named.search(one.read_text())]
    rest = [one for one in all_tests if one not in near and one not in others]
    return [str(module), *map(str, near)], list(map(str, others)), list(map(str, rest))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="skip the mutants before this one")
    parser.add_argument("--near", action="store_true", help="only tests that name the package")
    asked = parser.parse_args()
    root, found = Path("src/privest"), []
    for package in asked.packages.split(","):
        paths = sorted((root / package).rglob("*.py"))
        found += [(package, path, site) for path in paths for site in sites(path)]
    chosen = random.Random(asked.seed).sample(found, asked.count)
    tree = Path.cwd()
    picked = [
        one
        for package in asked.packages.split(",")
        for one in tests_of(tree, package, tree / root / package)[1]
    ]
    if killed(tree, picked, asked.processes):
        sys.exit("The tests fail before anything is changed.")
    survivors = 0
    for number, (package, path, site) in enumerate(chosen):
        if number < asked.first:
            continue
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "main"
            shutil.copytree(".", tree, ignore=shutil.ignore_patterns(".git", ".venv", "out"))
            (Path(folder) / "shared").symlink_to(Path("../shared").resolve())
            written(tree / path, site)
            stages = tests_of(tree, package, tree / path)[: 2 if asked.near else 3]
            stage = next((k for k, picked in enumerate(stages, 1)
                          if killed(tree, picked, asked.processes)), None)  # fmt: skip
        survivors += stage is None
        verdict = "SURVIVED" if stage is None else f"killed in stage {stage}"
        print(f"{number:2} {path}:{site[0]} {verdict}: {site[1]} -> {site[2]}", flush=True)
    print(f"{survivors} of {asked.count - asked.first} mutants survived; {len(found)} sites")


if __name__ == "__main__":
    main()
