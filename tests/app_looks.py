"""What must be true of every page of the app, whatever it shows: widths, colours, axe-core."""

from app_watched import accessibility

LOOKS = [(320, False), (390, True), (800, False), (1400, True), (1400, False)]  # width, dark

MEASURE = """() => {
  const root = document.documentElement, wide = window.innerWidth;
  const inBox = e => {
    for (let p = e.parentElement; p; p = p.parentElement) {
      const o = getComputedStyle(p).overflowX;
      if (o === "auto" || o === "scroll" || o === "hidden") return true;
    }
    return false;
  };
  const seen = e => e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
  const box = e => e.getBoundingClientRect();
  const all = [...document.body.querySelectorAll("*")].filter(seen);
  const named = e => e.tagName + (e.className ? "." + e.className : "") + " " +
    (e.textContent || "").trim().slice(0, 40);
  const offscreen = e => box(e).right <= 0;  // the link to the content, until it is focused
  const rgb = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
  return {
    across: root.scrollWidth, wide,
    outside: all.filter(e => !offscreen(e) && !inBox(e) &&
      (box(e).right > wide + 0.5 || box(e).left < -0.5)).map(named),
    // Words that are wider than what holds them, and hidden there.
    cut: all.filter(e => ["hidden", "clip"].includes(getComputedStyle(e).overflowX) &&
      box(e).width > 1 && e.scrollWidth > e.clientWidth + 1).map(named),
    small: all.filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) &&
      parseFloat(getComputedStyle(e).fontSize) < 14.9).map(named),
    // A box that scrolls sideways must be reached by keys.
    unreached: all.filter(e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX) &&
      e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0 && e.tagName !== "TEXTAREA").map(named),
    broken: [...document.images].filter(i => seen(i) && i.complete && !i.naturalWidth)
      .map(i => i.alt.slice(0, 60)),
    bare: [...document.images].filter(i => seen(i) && !i.alt).length,
    paper: (rgb[0] + rgb[1] + rgb[2]) / 765,
    h1: document.querySelectorAll("h1").length, lang: root.lang, title: document.title,
  };
}"""


def looks_right(page, *, dark: bool) -> None:
    """Nothing is cut off or sticks out, no letter is small, axe-core has nothing serious."""
    page.wait_for_load_state("networkidle")
    found = page.evaluate(MEASURE)
    where = f"{page.title()} at {found['wide']} px"
    assert found["across"] <= found["wide"], f"{where} scrolls sideways: {found['outside'][:5]}"
    for fault in ("outside", "cut", "small", "unreached", "broken"):
        assert found[fault] == [], f"{where}: {fault} {found[fault][:5]}"
    assert found["bare"] == 0, f"{where}: pictures without words"
    assert (found["paper"] < 0.3) == dark, where
    assert found["h1"] == 1, where
    assert found["lang"] == "en"
    assert found["title"].endswith("privest")
    assert accessibility(page) == [], where
