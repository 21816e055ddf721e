// Keys that work everywhere, and those a view has of its own.

import { h } from "./dom.js";

const EVERYWHERE = [
  ["?", "this list"],
  ["c", "clusters"],
  ["t", "tasks"],
  ["/", "search"],
  ["Esc", "close what is open"],
];
const OF_A_TASK = [
  ["1 … 5", "graph, matrix, timeline, steps, logs"],
  ["f", "the next failure"],
  ["← ↑ ↓ →, Enter", "in the matrix: move, and open"],
  ["+  −  0", "in the graph, matrix and timeline: closer, farther, all of it"],
  ["e", "in the graph: open or close all modules"],
];

const typing = (element) => element.matches?.("input, textarea, select, [contenteditable]");

/** Listens for keys for as long as the page lives. */
export function keys({ clusters, tasks, pass }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (pass(event)) return event.preventDefault();
    const search = document.querySelector("#main input[type=search]");
    if (event.key === "?") help();
    else if (event.key === "c") clusters();
    else if (event.key === "t") tasks();
    else if (event.key === "/" && search) search.focus();
    else return;
    event.preventDefault();
  });
}

/** Shows which keys there are. */
export function help() {
  const list = (items) => h("dl", { className: "keylist" }, items.map(([key, words]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)]));
  const dialog = h("dialog", { className: "sheet", "aria-label": "Keyboard shortcuts", onclose: () => dialog.remove() },
    h("h2", {}, "Keys"), list(EVERYWHERE), h("h3", {}, "On a task"), list(OF_A_TASK),
    h("form", { method: "dialog", className: "row end" }, h("button", { autofocus: true }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}
