"""The picture in the README is the page that the demo makes."""

import importlib.util
from pathlib import Path

from workflow_command import runner

DOCS = Path(__file__).parents[2] / "docs"


def test_the_picture_is_of_the_page_that_the_demo_makes(tmp_path, capsys, monkeypatch):
    """By the words and numbers of the page. After a change of them: `make picture`."""
    found = importlib.util.spec_from_file_location("report_picture", DOCS / "report_picture.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)  # the commands on the page name out/demo
    assert runner(capsys, monkeypatch)("demo", "--simulate").code == 0
    page = tmp_path / "out" / "demo" / "report.html"
    assert module.digest_in(DOCS / "images" / "report.png") == module.digest_of(page)
    page.write_text(page.read_text(encoding="utf-8").replace("300 rows", "301 rows"))
    assert module.digest_in(DOCS / "images" / "report.png") != module.digest_of(page)
