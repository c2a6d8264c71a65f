"""The style sheet of the report page: phone first, dark on request, tidy on paper.

No size is below 15 px (0.9375rem at a browser's 16 px). On a phone every row of a table is a card,
so that no column is out of sight; between phone and desk what is wide scrolls in a box of its own.
Charts take their colours from here: blue with privacy, grey without.
"""

SHEET = """
:root {
  color-scheme: light dark;
  --ink: #1d2329; --soft: #4d5761; --paper: #ffffff; --line: #d5dbe1; --box: #f4f6f8;
  --link: #0b57a4; --info: #e9f2fb; --info-line: #1f6fbf; --warn: #fff3dc; --warn-line: #b26a00;
  --shade: #0000004d; --with: #1f5fa8; --without: #8a939c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ec; --soft: #aab4be; --paper: #14181c; --line: #3a434c; --box: #1e242a;
    --link: #7fb8f5; --info: #172839; --info-line: #5ea5ea; --warn: #33270f; --warn-line: #e0a030;
    --shade: #ffffff4d; --with: #6aaef2; --without: #7b858f;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 1.0625rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header, nav, main, footer { max-width: 44rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 2rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .4rem; text-wrap: balance; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.5rem 0 .6rem; }
p { margin: .7rem 0; }
a { color: var(--link); }
.subtitle { color: var(--soft); margin-top: 0; font-size: 1.125rem; }
nav ul {
  columns: 16rem; border-radius: 8px;
  margin: 1rem 0 0; padding: .7rem 1rem .7rem 2rem; background: var(--box);
}
nav li { padding: .1rem 0; }
figure { margin: 1.4rem 0; }
svg.chart { display: block; width: 100%; overflow: visible; font-size: 15px; }
svg.chart text { fill: var(--soft); font-variant-numeric: tabular-nums; }
svg.chart .strong { fill: var(--ink); font-weight: 600; }
svg.chart .with, svg.chart .chosen { fill: var(--with); }
svg.chart .without { fill: var(--without); }
svg.chart .dot { fill: var(--paper); }
svg.chart .line { fill: none; stroke: var(--with); stroke-width: 2; }
svg.chart .sep { stroke: var(--line); }
svg.chart .zero { stroke: var(--soft); stroke-dasharray: 4 4; }
details { margin: 1rem 0; }
summary { cursor: pointer; color: var(--link); }
figcaption, footer { font-size: .9375rem; line-height: 1.5; color: var(--soft); }
figcaption { margin: .5rem 0 0; }
.table figcaption { max-width: none; margin: 0 0 .5rem; }
.scroll {
  overflow-x: auto; border: 1px solid var(--line); border-radius: 8px;
  /* A shadow at the right edge while there is more to see there. */
  background:
    linear-gradient(to left, var(--paper) 30%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat;
}
.scroll:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td {
  padding: .45rem .8rem; text-align: right; vertical-align: top;
}
tr + tr, tbody tr { border-top: 1px solid var(--line); }
th { font-weight: 600; overflow-wrap: normal; }
td { white-space: nowrap; }
thead th { background: var(--box); vertical-align: bottom; }
th:first-child { text-align: left; }
tbody th { font-weight: 500; min-width: 8rem; overflow-wrap: anywhere; }
.facts td { white-space: normal; text-align: left; overflow-wrap: anywhere; }
.facts th { text-align: left; }
.note {
  margin: 1.2rem 0; padding: .7rem 1rem; border-radius: 0 8px 8px 0;
  background: var(--info); border-left: 5px solid var(--info-line);
}
.note.warning { background: var(--warn); border-left-color: var(--warn-line); }
.note p { margin: 0; }
pre {
  margin: 1.2rem 0; padding: .8rem 1rem; background: var(--box); border: 1px solid var(--line);
  border-radius: 8px; white-space: pre-wrap;
}
pre code { display: block; padding-left: 1.2rem; text-indent: -1.2rem; }
pre span { display: inline-block; max-width: 100%; text-indent: 0; }
code { font: .9375rem/1.6 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
footer { padding: 2rem 1rem 2.5rem; }
@media (max-width: 34rem) {
  h1 { font-size: 1.5rem; }
}
@media screen and (max-width: 34rem) {
  .scroll { overflow: visible; border: 0; background: none; }
  table, tbody, tbody tr, tbody th, tbody td { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr {
    border: 1px solid var(--line); border-radius: 8px; margin: 0 0 .6rem; padding: .3rem 0;
  }
  tbody th { font-weight: 600; padding: .2rem .8rem; }
  tbody td {
    display: flex; justify-content: space-between; gap: 1rem; padding: .1rem .8rem;
    white-space: normal;
  }
  .facts tbody td { display: block; }
  .facts tbody td::before { display: none; }
  tbody td::before {
    content: attr(data-label); color: var(--soft); text-align: left; flex: none; max-width: 60%;
  }
}
@page { margin: 17mm 16mm; }
@media print {
  :root {
    color-scheme: light;
    --ink: #000; --soft: #333; --paper: #fff; --line: #bbb; --box: #fff;
    --link: #000; --info: #fff; --warn: #fff; --info-line: #555; --warn-line: #000;
    --with: #1f5fa8; --without: #8a939c;
  }
  body { font-size: 10.5pt; line-height: 1.42; }
  p { margin: .45rem 0; }
  header, main, footer { max-width: none; padding-left: 0; padding-right: 0; }
  header { padding-top: 0; }
  nav { display: none; }
  h2 { break-after: avoid; margin-top: 1.2rem; }
  figure, .note, tr, pre { break-inside: avoid; }
  figure { margin: .8rem 0; }
  figcaption { max-width: none; margin: 0; font-size: 9.5pt; }
  .scroll { overflow: visible; background: none; }
  thead { display: table-header-group; }
  p { orphans: 3; widows: 3; }
}
""".strip()
