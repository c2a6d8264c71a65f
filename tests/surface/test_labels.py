"""Labels of the paper: each leads to a name that cites it, and no other label is cited."""

import inspect
import re
from pathlib import Path

import pytest

import privest as pv
from privest.paper import LABELS

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "paper"
# Sections and the appendix: headings, not results.
SECTIONS = {
    "sec:prob form", "subsec:stackelberg", "sec:mainresults", "subsec:identifiable",
    "subsec:crbound", "sec:appl", "subsec:app_mech", "sec:simu", "sec:concl", "appen",
}  # fmt: skip
KINDS = (
    "algo|appen|assum|concl|condi|coro|def|eq|ex|fig|ineq|lemma|mech|obj|prop|remark|sec|subsec|"
    "sys|thm"
)
CITED = re.compile(rf"`((?:{KINDS}):[^`\s]+|sys|optM|optEst)`")


def found(dotted):
    part = pv
    for name in dotted.split("."):
        if name == "paper":
            import privest.paper as part
        else:
            part = getattr(part, name)
    return part


def citations():
    """Label → files of the source that cite it."""
    cited = {}
    for path in (ROOT / "src").rglob("*.py"):
        for label in CITED.findall(path.read_text("utf-8")):
            cited.setdefault(label, []).append(path)
    return cited


def test_the_table_has_the_labels_of_the_paper():
    if not PAPER.is_dir():
        pytest.skip("the paper is not here (../shared/paper)")
    text = "".join(path.read_text("utf-8") for path in PAPER.glob("*.txt"))
    live = set(re.findall(r"\\label\{([^}]*)\}", re.sub(r"(?<!\\)%.*", "", text)))
    assert live == set(LABELS) | SECTIONS
    assert len(live) == 71


@pytest.mark.parametrize("label", [label for label, name in LABELS.items() if name])
def test_a_label_leads_to_a_name_that_cites_it(label):
    """In its own documentation, or that of the module it is from."""
    name = found(LABELS[label])
    while isinstance(name, property):
        name = name.fget
    own = inspect.getdoc(name) or ""
    module = inspect.getmodule(name)
    whole = own + (inspect.getsource(module) if module is not None else "")
    assert f"`{label}`" in whole, f"{LABELS[label]} does not cite {label}"


def test_no_other_label_is_cited():
    assert sorted(set(citations()) - set(LABELS) - SECTIONS) == []
