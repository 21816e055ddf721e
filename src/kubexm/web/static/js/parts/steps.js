// The nodes as a list under their modules: what each does, how far it is. The same as the graph, for reading and phones.

import { eachFrame, h, put } from "../dom.js";
import { CODE, SHOWN, together } from "../states.js";
import { count, duration, within } from "../words.js";
import { badge, bar } from "./pieces.js";

export class Steps {
  constructor(model, { open }) {
    this.model = model;
    this.open = open;
    this.list = h("div", { className: "steps-list" });
    this.sought = h("input", { type: "search", placeholder: "Find a step", "aria-label": "Find a step", oninput: () => this.find() });
    this.element = h("div", { className: "steps" }, h("div", { className: "tools" }, this.sought), this.list);
    this.wake = eachFrame(() => this.set());
  }

  close() { this.wake.cancel(); }

  ready() {
    const { graph } = this.model;
    this.groups = graph.modules.map((module) => {
      const nodes = graph.nodes.filter((node) => node.module === module);
      const progress = bar(`Progress of ${module}`), state = h("span", { className: "group-state" });
      const body = h("div", { className: "group-nodes" });
      const group = { module, nodes, progress, state, body, rows: null };
      group.element = h("details", { ontoggle: () => this.fill(group) },
        h("summary", {}, h("span", { className: "group-name" }, module), h("span", { className: "dim" }, count(nodes.length, "node")), h("span", { className: "grow" }), state, progress.element), body);
      return group;
    });
    put(this.list, this.groups.map((group) => group.element));
    this.set();
  }

  fill(group) {
    if (group.rows || !group.element.open) return;
    group.rows = group.nodes.map((node) => {
      const progress = bar(`Progress of ${node.id}`), state = h("span", { className: "step-state" }), took = h("span", { className: "number dim" });
      const element = h("button", { className: "step", onclick: () => this.open(node.id) },
        state, h("span", { className: "step-name mono" }, within(node.id)), h("span", { className: "step-does dim" }, node.excluded ? `left out: ${node.excluded}` : node.does),
        h("span", { className: "dim step-hosts" }, node.host ?? count(node.hosts, "host")), took, progress.element);
      return { node, progress, state, took, element };
    });
    put(group.body, group.rows.map((row) => row.element));
    this.set();
    this.find();
  }

  update() { this.wake(); }

  set() {
    for (const group of this.groups ?? []) {
      const counts = this.model.countsOfAll(group.nodes.map((node) => node.at));
      group.progress.show(counts);
      const state = together(counts), left = counts[CODE.failed] || counts[CODE.running];
      if (group.last !== `${state} ${left}`) {
        group.last = `${state} ${left}`;
        put(group.state, badge(state === "partly" ? "running" : state, state === "partly" ? "under way" : state));
        if (state === "failed" || (state === "running" && !group.shownOnce)) { group.shownOnce = true; if (state === "failed") group.element.open = true; }
      }
      for (const row of group.rows ?? []) this.setRow(row);
    }
  }

  setRow(row) {
    const counts = this.model.countsOf(row.node.at), key = SHOWN.map((state) => counts[CODE[state]]).join();
    if (row.key === key) return;
    row.key = key;
    row.progress.show(counts);
    const state = together(counts);
    put(row.state, badge(state === "partly" ? "running" : state, ""));
    row.element.setAttribute("aria-label", `${row.node.id}: ${state}`);
    const times = this.model.times[row.node.at];
    row.took.textContent = times.ended ? duration(times.seconds / times.ended) : "";
  }

  find() {
    const words = this.sought.value.trim().toLowerCase();
    for (const group of this.groups) {
      const hits = group.nodes.filter((node) => !words || node.id.toLowerCase().includes(words) || node.does.toLowerCase().includes(words));
      group.element.hidden = !hits.length;
      if (words && hits.length) group.element.open = true;
      const shown = new Set(hits.map((node) => node.at));
      for (const row of group.rows ?? []) row.element.hidden = !shown.has(row.node.at);
    }
  }
}
