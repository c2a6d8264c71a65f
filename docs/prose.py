"""How the pages read: sentence length, odd openers, words that the project replaces.

    python docs/prose.py [FILE ...]      left out: README.md, docs/, src/ (templates, docstrings)

Prose is Markdown outside code, tables and quotes, the text of templates, docstrings, which are also
the help of the commands, and the help that stands in strings. Exit code 1 names what is wrong.
"""

import ast
import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MADE = {"auto_gallery", "reference"}
MEAN, LONG, MOST = 17, 30, 0.04  # words of a sentence on average; a long one; share of long ones
OPENER = re.compile(
    r"(Of (?!course)|Whoever |To whom |Whose |That it |What (is|was|has|it|they)\b)"
)
TRIAL = r"(?<!Monte Carlo )\btrials?\b"  # docstrings have Monte Carlo trials only
WORDS = {
    r"\breadings?\b(?!:)": "measurement or value",
    r"\bholders?\b": "data owner",
    r"(?<!power )\blaws?\b(?!:)": "distribution",
    r"\bcoins?\b": "randomised response",
    r"\bremembers?\b": "autocorrelated",
    r"\bburnt\b": "retired",
    r"\b(?:whoever|who also|(?<!attacker )(?<!nyone )who knows)\b": "an attacker who, anyone who",
    r"\bso (?:many|much)\b": "a number",
    r"\b(?:gives? up|tells? about)\b": "reveal",
    TRIAL: "simulation, dry run",
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def prose(path):
    """The text of a file without code, tables and markup."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        nodes = list(ast.walk(ast.parse(text)))
        texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, DOCUMENTED)]
        text = "\n\n".join([*texts, *helps(nodes)])
        text = re.sub(r"^\s*(>>>|\.\.\.).*$|^ {4,}.*$", "", text, flags=re.MULTILINE)
        text = re.sub(r"^ *([\w*`,. ]+?) {2,}(?=\S)", r"\n\n\1: ", text, flags=re.MULTILINE)
        return re.sub(r"``?[^`]+``?", "CODE", text)
    if path.suffix == ".html":
        text = re.sub(r"{[{%#].*?[}%#]}", " X ", text, flags=re.DOTALL)
        text = re.sub(r"<(script|style).*?</\1>", " ", text, flags=re.DOTALL)
        return html.unescape(re.sub(r"<[^>]+>", "\n\n", text))
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    lines = [x for x in text.splitlines() if not re.match(r"\s*([|#>:]|!\[)| {4}", x)]
    text = re.sub(r"`[^`]*`", "CODE", "\n".join(lines))
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def helps(nodes):
    """The strings of `help=…` and `Help(metavar, text, …)`, of commands and options."""
    for node in nodes:
        if isinstance(node, ast.Call):
            found = [one.value for one in node.keywords if one.arg == "help"]
            if getattr(node.func, "id", None) == "Help":
                found += node.args[1:2]
            for one in found:
                if isinstance(one, ast.Constant) and one.value:
                    yield one.value


def sentences(text):
    """Those of four words or more."""
    for block in re.split(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ", text):
        for one in re.split(r"(?<=[.!?])\s+(?=[A-Zε“\"'`(])", " ".join(block.split())):
            if len(one.split()) >= 4:
                yield one.strip(" -*")


def main(paths):
    """Print what is wrong, and how the pages read; the exit code."""
    found = [(path, one) for path in paths for one in sentences(prose(path))]
    wrong = [f"{p}: opens oddly: {s[:90]}" for p, s in found if OPENER.match(s) and "?" not in s]
    for pattern, better in WORDS.items():
        hits = (
            (path, s, re.search(pattern, s))
            for path, s in found
            if pattern != TRIAL or path.suffix != ".py"
        )
        wrong += [f"{p}: “{m[0]}”, better: {better}: {s[:90]}" for p, s, m in hits if m]
    counts = []
    for kind in sorted({path.suffix for path in paths}):
        lengths = [len(s.split()) for path, s in found if path.suffix == kind]
        mean, share = sum(lengths) / len(lengths), sum(n > LONG for n in lengths) / len(lengths)
        counts.append(
            f"{kind}: {len(lengths)} sentences, mean {mean:.1f} words, {share:.1%} over {LONG}"
        )
        if mean > MEAN or share > MOST:
            wrong.append(counts[-1])
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(*counts, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    pages = [p for p in (ROOT / "docs").rglob("*.md") if not MADE & set(p.parts)]
    source = [*(ROOT / "src").rglob("*.html"), *(ROOT / "src").rglob("*.py")]
    every = [ROOT / "README.md", *sorted(pages), *sorted(source)]
    sys.exit(main([Path(name) for name in sys.argv[1:]] or every))
