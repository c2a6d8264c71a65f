"""The site as `make docs` built it: links, search, accessibility, nothing from elsewhere."""

import functools
import html
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from app_watched import accessibility
from privest.paper import LABELS

SITE = Path(__file__).parents[2] / "out" / "site"
PAGES = (
    "index", "howto/workflow", "explanation/attack", "auto_gallery/index", "reference/schemas",
    "decide/comparison", "explanation/fisher-and-dp",
)  # fmt: skip
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"https?:|<link\b[^>]*stylesheet[^>]*https?:"
)

LINK = re.compile(r'<(?:a|img|link|script)\b[^>]*?\b(?:href|src)="(?!https?:|data:)([^"]+)"')

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not SITE.is_dir(), reason="`make docs` has not built the site"),
]


def test_no_page_loads_anything_from_elsewhere():
    pages = list(SITE.rglob("*.html"))
    assert len(pages) > 50
    assert [str(page) for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []


@functools.cache
def anchors(page):
    return set(re.findall(r'\b(?:id|name)="([^"]+)"', page.read_text(encoding="utf-8")))


def test_every_link_leads_to_a_file_and_a_place_in_it():
    missing = []
    for page in set(SITE.rglob("*.html")) - set((SITE / "_static").rglob("*")):
        for link in set(map(html.unescape, LINK.findall(page.read_text(encoding="utf-8")))):
            name, _, anchor = link.partition("#")
            target = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
            known = target.is_file() and (not anchor or unquote(anchor) in anchors(target))
            missing += [] if known else [f"{page.relative_to(SITE)}: {link}"]
    assert sorted(missing) == []


def test_every_label_of_the_paper_links_to_what_computes_it():
    page = (SITE / "reference" / "labels.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr\b.*?</tr>", page, re.DOTALL)
    for label, name in LABELS.items():
        (row,) = (one for one in rows if f">{html.escape(label)}<" in one)
        assert ("<a " in row) == bool(name), label


def test_the_search_finds_pages(chromium):
    page = chromium.new_page()
    for words, wanted in [("ledger budget", "ledger.html"), ("NotIdentifiable", "errors.html")]:
        page.goto(f"{(SITE / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
        page.wait_for_selector(f"#search-results a[href*='{wanted}']")
    page.close()


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
