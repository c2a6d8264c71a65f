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
