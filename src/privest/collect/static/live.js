// The state of the collection, once a second: numbers, estimates, and their course.
"use strict";
const by = id => document.getElementById(id);
// Two digits of the standard error decide how many digits a number has.
const decimals = se => Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(se))));
function cell(row, text, kind) { const made = document.createElement(kind || "td"); made.textContent = text; row.append(made); }
function show(state) {
  by("name").textContent = state.name;
  document.title = state.name + " · privest";
  by("note").textContent = state.note;
  for (const id of ["reports", "devices", "waiting", "again", "refused"]) by(id).textContent = state[id].toLocaleString("en");
  by("rate").textContent = Math.round(state.rate).toLocaleString("en");
  by("parameters").replaceChildren(...state.parameters.map(one => {
    const row = document.createElement("tr"), digits = x => Number(x).toFixed(decimals(one.se));
    cell(row, one.name, "th");
    cell(row, digits(one.value)); cell(row, digits(one.low) + " to " + digits(one.high));
    cell(row, digits(one.se)); cell(row, digits(one.bound)); cell(row, digits(one.classical));
    return row;
  }));
  by("over-time").hidden = state.course.length < 2;
  if (state.course.length > 1) draw(state.course);
}
function draw(course) {
  const [first, last] = [course[0], course[course.length - 1]], short = x => Number(x.toPrecision(2));
  by("ends").textContent = `From ${short(first[1])} (without: ${short(first[2])}) at ${first[0].toLocaleString("en")} measurements ` +
    `to ${short(last[1])} (without: ${short(last[2])}) at ${last[0].toLocaleString("en")}.`;
  const logs = course.map(one => one.map(Math.log)), all = logs.flatMap(one => one.slice(1));
  const [left, right] = [logs[0][0], logs[logs.length - 1][0]], [low, high] = [Math.min(...all), Math.max(...all)];
  const place = (x, y) => [15 + 610 * (x - left) / (right - left || 1), 185 - 170 * (y - low) / (high - low || 1)].join(",");
  by("course").replaceChildren(...[[1, "with"], [2, "without"]].map(([j, kind]) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", logs.map(one => place(one[0], one[j])).join(" "));
    line.setAttribute("class", kind);
    return line;
  }));
}
const events = new EventSource("events");
let then = "";
events.onmessage = event => { then = new Date().toLocaleTimeString("en-GB"); show(JSON.parse(event.data)); };
events.onerror = () => { by("note").textContent = "The collector does not answer." + (then && ` These numbers are of ${then}.`); };
