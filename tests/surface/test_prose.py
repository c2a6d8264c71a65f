"""The check of sentences in `make lint` reads pages, docstrings and the help of options."""

import importlib.util
from pathlib import Path

import pytest

FOUND = importlib.util.spec_from_file_location(
    "prose", Path(__file__).parents[2] / "docs" / "prose.py"
)
prose = importlib.util.module_from_spec(FOUND)
FOUND.loader.exec_module(prose)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "What is here is a page of words."),
        ("page.md", "The holder of the table has it."),
        ("page.html", "<p>Whoever reads this page has a table.</p>"),
        ("code.py", '"""Of a table the first and the last row."""'),
        ("code.py", 'x = Option("--x", help="The holder of the table.")'),
        ("code.py", 'x = {"seed": Help("N", "The law of this noise here.")}'),
        ("page.md", "One word " + "and one more " * 15 + "at last."),
    ],
)
def test_a_bad_sentence_is_found(tmp_path, capsys, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert prose.main([path]) == 1
    path.write_text('"""One good sentence stands here."""\n')
    assert prose.main([path]) == 0
    capsys.readouterr()
