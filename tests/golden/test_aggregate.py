"""What plan, release and estimate give for every kind of aggregate release.

`kinds/NAME/` holds a plan and a real release, made when the form was new, and `aggregate.db` their
ledger: they must still be read. Else as in `test_pipeline` and `test_sections`; GOLDEN=write.
"""

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from golden.test_pipeline import SEED, charged_in, close, estimate_facts, plan_facts, printed
from golden_kinds import AGGREGATE, tables
from privest.report.describe import describe
from privest.workflow import read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.spec import load_spec
from workflow_command import called

HERE = Path(__file__).parent / "kinds"
WRITE = os.environ.get("GOLDEN") == "write"
KEPT = ("plan.toml", "release.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("aggregate")
    for name, table in tables().items():
        table.to_csv(made / name, index=False)
    return made


def charged(kind):
    """What a real release writes into its ledger."""
    printed("release", f"{kind}.toml", "--output", f"real-{kind}.json", "--ledger", f"{kind}.db")
    return charged_in(f"{kind}.db")


@pytest.mark.parametrize("kind", AGGREGATE)
def test_a_kind_of_aggregate_release(kind, folder, monkeypatch):
    monkeypatch.chdir(folder)
    case, kept, found, words = AGGREGATE[kind], HERE / kind, {}, {}
    stated = ("plan", folder / case.table, *shlex.split(case.plan))
    words["plan.txt"] = printed(*stated)
    found["plan"] = plan_facts(json.loads(printed(*stated, "--json")))
    printed(*stated, "--save", f"{kind}.toml")
    simulated = f"simulated-{kind}.json"
    printed("release", f"{kind}.toml", "--simulate", "--seed", SEED, "--output", simulated)
    document = json.loads(Path(simulated).read_text())
    for one in document["sums"]:  # by weights that end in their 7th digit, where a search ends
        one["matrix"] = len(one["matrix"])
    found["document"] = {k: v for k, v in document.items() if k not in ("sha256", "checksum")}
    found["charged"] = charged(kind)
    for name in KEPT:
        shutil.copy(kept / name, name)
    old = plan_facts(json.loads(printed("plan", "plan.toml", "--json")))
    calls = {options: ("estimate", "release.json", *options.split()) for options in case.estimates}
    found["estimates"] = {
        options: estimate_facts(json.loads(printed(*call, "--json")))
        for options, call in calls.items()
    }
    words["estimate.txt"] = "\n".join(printed(*call) for call in calls.values())
    if WRITE:
        (kept / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        for name, text in words.items():
            (kept / name).write_text(text)
    close(old, found["plan"], "the plan file of before")
    close(found, json.loads((kept / "expected.json").read_text()), kind)
    for name, text in words.items():
        assert text == (kept / name).read_text(), name


@pytest.mark.parametrize("kind", AGGREGATE)
def test_the_sections_of_a_kind(kind, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in KEPT:
        shutil.copy(HERE / kind / name, name)
    plan = make_plan(load_spec(Path("plan.toml")))
    made = {
        "plan": describe(plan),
        "release": describe(read_release("release.json")),
        "estimate": describe(estimate("release.json"), plan=plan, commands=["privest"]),
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


def test_their_ledger(folder, monkeypatch):
    """Once it is adopted here, it vouches for each of these releases, and for no changed one."""
    monkeypatch.chdir(folder)
    shutil.copy(HERE / "aggregate.db", "aggregate.db")
    Path("aggregate.db").chmod(0o600)  # git does not keep this
    printed("ledger", "adopt", "aggregate.db")
    printed("ledger", "verify", "aggregate.db")
    for kind in AGGREGATE:
        shutil.copy(HERE / kind / "release.json", "release.json")
        vouched = called("verify", "release.json", "--ledger", "aggregate.db")
        assert vouched.returncode == 0, (kind, vouched.stderr)
