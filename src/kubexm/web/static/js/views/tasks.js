// What was asked for lately, over all clusters or of one.

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { badge, since } from "../parts/pieces.js";
import { duration } from "../words.js";

const LOOK = 3000;
const STATES = ["queued", "running", "succeeded", "partial", "failed", "cancelled", "interrupted"];

/** A table of tasks. */
export function table(tasks, { cluster = true } = {}) {
  return h("div", { className: "scroll" }, h("table", { className: "list" },
    h("thead", {}, h("tr", {}, ["State", cluster && "Cluster", "What", "By", "When", "Took"].filter(Boolean).map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, tasks.map((task) => h("tr", {},
      h("td", {}, badge(task.state)),
      cluster && h("td", {}, h("a", { href: `#/clusters/${task.cluster}` }, task.cluster)),
      h("td", {}, h("a", { href: `#/tasks/${task.id}` }, `${task.action === "plan" ? "plan " : ""}${task.pipeline || task.action}`), task.dry_run && h("span", { className: "dim" }, " dry run"), task.resumed ? h("span", { className: "dim" }, ` resumed ${task.resumed}×`) : null),
      h("td", {}, task.actor),
      h("td", {}, since(task.created)),
      h("td", { className: "number" }, task.started ? duration((task.ended ?? Date.now() / 1000) - task.started) : "–"))))));
}

export async function view({ words }) {
  const list = h("div");
  const more = h("button", { onclick: () => load(true) }, "Older ones");
  const state = h("select", { "aria-label": "State", onchange: () => load() }, h("option", { value: "" }, "any state"), STATES.map((each) => h("option", { value: each, selected: words.get("state") === each }, each)));
  const cluster = h("input", { type: "search", placeholder: "Cluster", "aria-label": "Cluster", value: words.get("cluster") ?? "", onchange: () => load() });
  let items = [], next = null;

  async function load(further = false) {
    const page = await get("/tasks", { state: state.value, cluster: cluster.value.trim(), limit: 50, cursor: further ? next : undefined });
    items = further ? [...items, ...page.items] : page.items;
    next = page.next;
    more.hidden = !next;
    put(list, items.length ? table(items) : h("p", { className: "empty" }, "No such task."));
  }

  await load();
  const timer = setInterval(() => { if (!document.hidden && items.length <= 50) load().catch(() => {}); }, LOOK);
  return {
    title: "Tasks",
    close: () => clearInterval(timer),
    element: h("div", { className: "page" }, h("div", { className: "head" }, h("h1", {}, "Tasks"), h("span", { className: "grow" }), state, cluster), list, h("div", { className: "row center" }, more)),
  };
}
