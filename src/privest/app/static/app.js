// Small things that a page cannot do by itself. Everything works without them.
"use strict";

document.addEventListener("submit", (event) => {
  // A form that is sent twice by a double click does its work twice: once is enough.
  const form = event.target;
  if (form.dataset.sent) { event.preventDefault(); return; }
  if (form.method === "post" && (form.id === "choose" || !form.hasAttribute("hx-post"))) { form.dataset.sent = "yes"; works(true); }
});

window.addEventListener("pageshow", () => {
  // Back with the browser: forms can be sent again.
  for (const form of document.forms) { delete form.dataset.sent; }
  works(false);
});

// Whether the app answers: it is asked now and then, and each request tells.
const gone = document.getElementById("gone"), busy = document.getElementById("busy");
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

for (const button of document.querySelectorAll("button[data-copy]")) {
  // Take it along: a text to the clipboard. Without this it is selected and copied by hand.
  button.hidden = !navigator.clipboard;
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy);
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      window.getSelection().selectAllChildren(text);
      said = "Selected: press Ctrl-C";
    }
    button.textContent = said;
    setTimeout(() => { button.textContent = label; }, 2500);
  });
}

// Data: a file can be dropped anywhere on its card, and one sees how much of it was sent.
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const card = event.target.closest ? event.target.closest("[data-upload]") : null;
    if (!card) { return; }
    if (kind !== "dragleave") { event.preventDefault(); }
    card.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) {
      card.querySelector("input[type=file]").files = event.dataTransfer.files;
      card.requestSubmit();
    }
  });
}
document.addEventListener("htmx:xhr:progress", (event) => {
  const card = event.target.closest("[data-upload]");
  if (!card || !event.detail.lengthComputable) { return; }
  const { loaded, total } = event.detail;
  const bar = card.querySelector("progress"), said = card.querySelector("[role=status]");
  card.querySelector(".sending").hidden = false;
  card.querySelector("button").disabled = true;
  if (loaded < total) {
    bar.value = loaded / total;
  } else if (bar.hasAttribute("value")) {
    bar.removeAttribute("value");  // how long it takes to look at it nobody knows
    said.textContent = "It is here. Looking at it …";
  }
});

// Privacy: what was moved is stored before one goes on to another page.
let changes = 0, sent = 0, saved = 0, next = null;
const ofChoice = (event) => event.target.id === "choose";
document.addEventListener("input", (event) => {
  if (event.target.form && event.target.form.id === "choose") { changes += 1; }
});
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
  if (!link || saved === changes || event.ctrlKey || event.metaKey || event.shiftKey) { return; }
  event.preventDefault();
  next = link.href;
});

// What the slider stands for now, for those who hear it.
document.addEventListener("htmx:afterSwap", () => {
  const slider = document.getElementById("position");
  const answers = document.querySelector("#numbers [data-spoken]");
  if (slider && answers) { slider.setAttribute("aria-valuetext", answers.dataset.spoken); }
});
