// Names for screen readers, where theme and gallery leave them out.
document.addEventListener("DOMContentLoaded", () => {
  const name = (element, text) => element.setAttribute("aria-label", text.trim());
  document.querySelectorAll(".search-button-field").forEach((one) =>
    name(one, one.textContent.replace(/\s+/g, " ")));
  document.querySelectorAll(".sphx-glr-thumbcontainer a.internal").forEach((one) => name(one, one.textContent));
  document.querySelectorAll("nav summary").forEach((one) =>
    name(one, "Pages of " + (one.closest("li")?.querySelector("a")?.textContent ?? "this section")));
});
