"""Which sections, sentences, tables and charts each kind of plan, release and estimate has.

`kinds/NAME/sections.json` has their keys; GOLDEN=write writes it again. Wordings are in `words.py`
only, so that a change of a sentence changes no file here.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from golden_kinds import KINDS, tables
from privest.report.describe import describe
from privest.workflow import read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.spec import load_spec

HERE = Path(__file__).parent / "kinds"
WRITE = os.environ.get("GOLDEN") == "write"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("sections")
    for name, table in tables().items():
        table.to_csv(made / name, index=False)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_the_sections_of_a_kind(kind, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("plan.toml", "release.csv", "release.csv.json"):
        shutil.copy(HERE / kind / name, name)
    plan = make_plan(load_spec(Path("plan.toml")))
    made = {
        "plan": describe(plan),
        "release": describe(read_release("release.csv")),
        "estimate": describe(estimate("release.csv"), plan=plan, commands=["privest"]),
    }
    found = {
        name: [{f"{one.key} {one.of}".strip(): one.keys()} for one in sections]
        for name, sections in made.items()
    }
    kept = HERE / kind / "sections.json"
    if WRITE:
        kept.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(kept.read_text())
    for sections in made.values():
        for one in sections:
            for part in (one.heading, *one.parts, *one.details):
                text = getattr(part, "text", "")
                assert "{" not in text, text
                assert "nan" not in text.split(), text
