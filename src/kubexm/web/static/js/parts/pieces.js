// Small things that many views show: states, progress, times.

import { h } from "../dom.js";
import { BAR, CODE, GLYPH, MEANS } from "../states.js";
import { ago, moment } from "../words.js";

/** The state of a task or unit as a word with its sign. */
export const badge = (state, words = state) =>
  h("span", { className: `badge ${state}`, title: MEANS[state] ?? "" }, h("i", { "aria-hidden": "true" }, GLYPH[state] ?? "●"), words);

/** A moment, told as how long ago; kept right by `tick`. */
export const since = (time) => (time ? h("time", { title: moment(time), dataset: { since: String(time) } }, ago(time)) : "–");

/** Sets every `since` right. */
export function tick(root) {
  for (const each of root.querySelectorAll("time[data-since]")) each.textContent = ago(Number(each.dataset.since));
}

/** A bar with a part for each state; `show(counts by code)` sets it. */
export function bar(label) {
  const parts = BAR.map((state) => h("i", { className: state }));
  const element = h("div", { className: "bar", role: "img", "aria-label": label }, parts);
  let before = "";
  const show = (counts) => {
    let all = 0;
    for (const state of BAR) all += counts[CODE[state]];
    const key = BAR.map((state) => counts[CODE[state]]).join();
    if (key === before) return;
    before = key;
    const words = [];
    BAR.forEach((state, at) => {
      const number = counts[CODE[state]];
      parts[at].style.flexGrow = String(number);
      parts[at].hidden = !number;
      if (number) words.push(`${number.toLocaleString("en")} ${state}`);
    });
    element.setAttribute("aria-label", `${label}: ${words.join(", ") || "nothing yet"}`);
    element.title = words.join(", ");
  };
  return { element, show };
}

/** Counts by name, as REST tells them, as counts by code. */
export function byCode(tally, units = 0) {
  const found = new Uint32Array(Object.keys(CODE).length);
  let ended = 0;
  for (const [state, number] of Object.entries(tally)) {
    found[CODE[state]] = number;
    ended += number;
  }
  found[CODE.pending] = Math.max(0, units - ended);
  return found;
}

/** Asks before something is done that matters; resolves to the form's values, or null. */
export function ask({ title, words, fields = [], doIt, danger = false }) {
  return new Promise((resolve) => {
    const form = h("form", { method: "dialog" },
      h("h2", {}, title), h("div", { className: "words" }, words), fields,
      h("div", { className: "row end" },
        h("button", { type: "button", onclick: () => dialog.close("") }, "Not now"),
        h("button", { value: "do", className: danger ? "danger" : "primary" }, doIt)));
    const dialog = h("dialog", { className: "sheet", "aria-label": title, onclose: () => {
      const values = dialog.returnValue === "do" ? new FormData(form) : null;
      dialog.remove();
      resolve(values);
    } }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}
