"""The documentation site as `make docs` built it: nothing from elsewhere, and accessible."""

import re
from pathlib import Path

import pytest

from app_watched import accessibility

SITE = Path(__file__).parents[2] / "out" / "site"
PAGES = ("index", "howto/workflow", "explanation/attack", "auto_gallery/index", "reference/schemas")
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"https?:|<link\b[^>]*stylesheet[^>]*https?:"
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not SITE.is_dir(), reason="`make docs` has not built the site"),
]


def test_no_page_loads_anything_from_elsewhere():
    pages = list(SITE.rglob("*.html"))
    assert len(pages) > 50
    assert [str(page) for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("width", "dark"), [(1300, False), (1300, True), (400, False)])
def test_pages_are_accessible_and_fit(chromium, width, dark):
    size, scheme = {"width": width, "height": 1000}, "dark" if dark else "light"
    context = chromium.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page, outside = context.new_page(), []
    page.on("request", lambda one: outside.append(one.url) if one.url.startswith("http") else None)
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        assert accessibility(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
    context.close()
    assert outside == []
