// Small things that a page cannot do by itself. Everything works without them.
"use strict";

document.addEventListener("submit", (event) => {
  // A form that is sent twice by a double click does its work twice: once is enough.
  const form = event.target;
  if (form.dataset.sent) { event.preventDefault(); return; }
  if (form.method === "post" && !form.hasAttribute("hx-post")) { form.dataset.sent = "yes"; }
});

window.addEventListener("pageshow", () => {
  // Back with the browser: forms can be sent again.
  for (const form of document.forms) { delete form.dataset.sent; }
});
