// Small things that a page cannot do by itself. Everything works without them.
"use strict";
const byId = (id) => document.getElementById(id);
const put = (name, text) => { for (const e of document.querySelectorAll(`[data-out="${name}"]`)) { e.textContent = text; } };

// Theme: the system's, or light, or dark
const themes = ["auto", "light", "dark"];
const keep = {
  get: () => { try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; } },
  set: (name) => { try { localStorage.setItem("theme", name); } catch { /* not kept */ } },
};
const paint = (name) => {
  if (name === "auto") { delete document.documentElement.dataset.theme; } else { document.documentElement.dataset.theme = name; }
  if (byId("theme")) { byId("theme").textContent = "Theme: " + name; }
};
paint(keep.get());
byId("theme")?.addEventListener("click", () => { const next = themes[(themes.indexOf(keep.get()) + 1) % 3]; keep.set(next); paint(next); });

// A form that is sent twice by a double click does its work twice: once is enough.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) { event.preventDefault(); return; }
  if (form.method === "post") { form.dataset.sent = "yes"; works(true); }
});
window.addEventListener("pageshow", () => {  // back with the browser: forms can be sent again
  for (const form of document.forms) { delete form.dataset.sent; }
  works(false);
});

// Whether the app answers: it is asked now and then, and each request tells.
const gone = byId("gone"), busy = byId("busy");
function answers(yes) { gone.hidden = yes; }
function works(yes) {
  clearTimeout(works.soon);
  if (yes) { works.soon = setTimeout(() => { busy.hidden = false; }, 300); } else { busy.hidden = true; }
}
async function ask() {
  if (document.hidden) { return; }
  try {
    answers((await fetch(gone.dataset.alive, { method: "HEAD", cache: "no-store" })).ok);
  } catch { answers(false); }
}
setInterval(ask, 5000);
document.addEventListener("visibilitychange", ask);
document.addEventListener("htmx:sendError", () => answers(false));
document.addEventListener("htmx:afterOnLoad", () => answers(true));
document.addEventListener("htmx:beforeRequest", () => works(true));
document.addEventListener("htmx:afterRequest", () => works(false));

// 1 Start: a file is dropped; what the answer means is said beside the button
for (const one of document.querySelectorAll("[data-says]")) {
  const say = () => { if (one.checked) { put("form", one.dataset.says); } };
  one.addEventListener("change", say);
  window.addEventListener("pageshow", say);  // the browser may have kept another answer
}
for (const form of document.querySelectorAll("[data-upload]")) {
  const file = form.querySelector("input[type=file]");
  const box = form.querySelector(".drop");
  for (const kind of ["dragover", "dragleave", "drop"]) {
    box.addEventListener(kind, (event) => {
      event.preventDefault();
      box.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) { file.files = event.dataTransfer.files; }
    });
  }
}

// 2 Columns: what will be estimated, and the width of the range, as they are typed
const roles = [...document.querySelectorAll("select[data-role]")];
const named = (role) => roles.filter((one) => one.value === role).map((one) => one.dataset.role);
const count = () => {
  put("roles", `${named("private").length} private, ${named("public").length} public, ${named("unused").length} not used`);
  put("equation", named("private").length === 1 ? `${named("private")[0]} = baseline${named("public").map((one) => " + " + one).join("")}` : "Choose exactly one private column.");
};
for (const one of roles) { one.addEventListener("change", count); }
if (roles.length) { count(); }
const number = (text) => {
  const plain = text.replace(/\s/g, "");
  if (/^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/.test(plain)) { return Number(plain.replace(/,/g, "")); }
  return plain === "" ? NaN : Number(plain.replace(",", "."));
};
for (const said of document.querySelectorAll("[data-range]")) {
  const usual = said.textContent, [low, high] = said.parentElement.querySelectorAll("input[id^=low], input[id^=high]");
  const check = () => {
    const a = number(low.value), b = number(high.value), wrong = a >= b;
    said.className = wrong ? "check bad" : "check";
    said.textContent = wrong ? "The lowest value must be below the highest." : b > a ? `Width ${(b - a).toLocaleString("en-US", { maximumFractionDigits: 6 })}. ${usual}` : usual;
  };
  for (const one of [low, high]) { one.addEventListener("input", check); }
  check();
}

// 3 Privacy: slider and number are one ε; the server computes all else
const slider = byId("position"), typed = byId("epsilon"), choose = byId("choose");
if (slider && typed) {
  const borders = slider.dataset.borders.split(" ").map(Number), most = Number(slider.max), parts = borders.length - 1;
  const at = (position) => {
    const place = position / most * parts, k = Math.min(Math.floor(place), parts - 1);
    return borders[k] * (borders[k + 1] / borders[k]) ** (place - k);
  };
  const where = (epsilon) => {
    const e = Math.min(Math.max(epsilon, borders[0]), borders[parts]);
    const k = Math.max(0, borders.findIndex((one) => e <= one) - 1);
    return most / parts * (k + Math.log(e / borders[k]) / Math.log(borders[k + 1] / borders[k]));
  };
  slider.addEventListener("input", () => { typed.value = String(Number(at(Number(slider.value)).toPrecision(3))); });
  typed.addEventListener("input", () => { const e = number(typed.value); if (e > 0) { slider.value = Math.round(where(e)); } });
  byId("of").addEventListener("change", () => htmx.trigger(choose, "input"));
  choose.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target === typed) { event.preventDefault(); htmx.trigger(choose, "input"); } });
  const dial = document.querySelector(".dial");
  addEventListener("scroll", () => dial.classList.toggle("lifted", dial.getBoundingClientRect().top <= 0), { passive: true });
  let open = [];  // folds stay as they are while ε moves
  document.addEventListener("htmx:beforeSwap", () => { open = [...document.querySelectorAll("#panel details")].map((one) => one.open); });
  document.addEventListener("htmx:afterSettle", () => {
    [...document.querySelectorAll("#panel details")].forEach((one, k) => { one.open = open[k] || false; });
    const note = document.querySelector("#live [data-word]");
    if (!note) { return; }
    slider.setAttribute("aria-valuetext", note.dataset.spoken);
    for (const one of document.querySelectorAll(".zones span")) { one.classList.toggle("now", one.textContent === note.dataset.word); }
  });

  // What was moved is stored before one goes on to another page.
  let changes = 0, sent = 0, saved = 0, next = null;
  const ofChoice = (event) => event.target === choose;
  choose.addEventListener("input", () => { changes += 1; });
  document.addEventListener("htmx:beforeRequest", (event) => { if (ofChoice(event)) { sent = changes; } });
  document.addEventListener("htmx:sendError", () => { saved = changes; next = null; });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!ofChoice(event)) { return; }
    const { successful, failed } = event.detail;  // neither: the next one took its place
    if (successful || failed) { saved = sent; }
    if (failed) { next = null; }
    if (next && saved === changes) { window.location.assign(next); }
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || saved === changes || event.ctrlKey || event.metaKey || event.shiftKey || link.getAttribute("href").startsWith("#")) { return; }
    event.preventDefault();
    next = link.href;
  });
}
