"""The pages of `privest schema`: every field of plans and headers is explained."""

from dataclasses import fields

import pytest

from privest.data import Format
from privest.workflow.aggregate import Published
from privest.workflow.document import COLUMN, DOCUMENT, FACTS
from privest.workflow.schema import TEXTS, descriptions, schema
from privest.workflow.spec import Model, Privacy, Public


@pytest.mark.parametrize("kind", [Model, Privacy, Public, Format])
def test_every_field_has_a_text(kind):
    said = descriptions(kind)
    for one in fields(kind):
        assert len(said[one.name]) > 8, one.name


def test_texts_and_fields_are_the_same():
    for title, known in (("header", DOCUMENT), ("each of columns", COLUMN), ("facts", FACTS)):
        assert set(TEXTS[title]) == set(known)
    assert set(TEXTS["each of sums"]) == {one.name for one in fields(Published)}


@pytest.mark.parametrize(
    ("kind", "names"),
    [("plan", ("residual_variance", "most_rows", "missing_codes")),
     ("header", ("checksum", "coefficients", "unit"))],
)  # fmt: skip
def test_pages(kind, names):
    page = schema(kind)
    for name in names:
        assert any(line.split()[:1] == [name] for line in page.splitlines()), name
    assert max(map(len, page.splitlines())) <= 100
