// What users of the cluster experienced during a run, once it has ended; nothing if nothing was measured.

import { get } from "../api.js";
import { h, prose, put } from "../dom.js";

const NAMES = {
  "api-new": "API, new connections", "api-kept": "API, kept connections", "api-write": "API writes", "pod-start": "pod creation to Running",
  "pod-udp": "pod to pod, UDP", "pod-tcp": "pod to pod, TCP", service: "ClusterIP service", dns: "DNS",
};

export class Cost {
  constructor(model) {
    this.model = model;
    this.element = h("section", { className: "cost", hidden: true, "aria-label": "What it cost" });
  }

  /** Asks once for each end of the task. */
  async update() {
    const { model } = this, { task } = model;
    const key = model.active || !model.graph ? "" : `${task.state} ${task.ended}`;
    if (key === this.key) return;
    this.key = key;
    this.element.hidden = true;
    if (!key) return;
    const { cost } = await get(`${model.path}/cost`).catch(() => ({ cost: null }));
    if (cost && key === this.key) this.show(cost);
  }

  show(cost) {
    this.element.hidden = false;
    const rows = grouped(cost.measured);
    put(this.element,
      h("details", { open: Boolean(cost.missed) || !rows.length },
        h("summary", {}, h("b", {}, "What it cost: "), summary(cost, rows)),
        rows.length ? h("table", {},
          h("thead", {}, h("tr", {}, ["Probe", "Phase", "Requests", "Missed", "Causes", "Slow", "Longest gap"].map((each) => h("th", {}, each)))),
          h("tbody", {}, rows.map((row) => h("tr", { className: row.missed ? "missed" : "" },
            h("td", {}, `${NAMES[row.name] ?? row.name}${row.target ? `, ${row.target}` : ""}`), h("td", {}, row.phase), number(row.sent), number(row.missed),
            h("td", {}, Object.entries(row.misses).map(([cause, times]) => `${times} ${cause}`).join(", ")), number(row.slow),
            h("td", { className: "number" }, row.name === "pod-start" ? "" : `${row.longest_gap.toFixed(2)} s`))))) : null,
        [...facts(cost), ...cost.problems].map((each) => h("p", {}, prose(each))),
        cost.doubts.length ? h("p", { className: "doubt" }, `The machine is too busy to judge: ${cost.doubts.join("; ")}`) : null));
  }
}

const number = (value) => h("td", { className: "number" }, value.toLocaleString("en"));

function summary(cost, rows) {
  if (!rows.length) return "not measured";
  const sent = rows.reduce((sum, row) => sum + row.sent, 0);
  return `${cost.missed.toLocaleString("en")} of ${sent.toLocaleString("en")} requests missed`;
}

function* facts(cost) {
  if (cost.writes?.acknowledged !== undefined) yield `Writes: ${cost.writes.acknowledged} acknowledged, ${cost.writes.lost.length} lost.`;
  if (cost.watch?.events !== undefined) yield `Watch: ${cost.watch.events} events, ${cost.watch.missed.length} missed, reconnected ${cost.watch.reconnects} times.`;
  const flapped = cost.nodes.filter((node) => node.flaps).map((node) => `${node.name} (${node.not_ready_seconds.toFixed(1)} s)`);
  if (flapped.length) yield `Nodes that were not Ready: ${flapped.join(", ")}.`;
  if (cost.containers?.restarted?.length) yield `Containers restarted: ${cost.containers.restarted.join(", ")}.`;
  if (cost.leader_changes) yield `Leader changes of etcd: ${cost.leader_changes}.`;
}

/** One row for each way to the API, one for pods and names on all nodes. */
function grouped(measured) {
  const found = new Map();
  for (const each of measured) {
    const target = each.name.startsWith("api-") ? each.target : "";
    const key = `${each.phase} ${each.name} ${target}`;
    const row = found.get(key);
    if (!row) found.set(key, { ...each, target, misses: { ...each.misses } });
    else {
      for (const name of ["sent", "missed", "slow"]) row[name] += each[name];
      for (const [cause, times] of Object.entries(each.misses)) row.misses[cause] = (row.misses[cause] ?? 0) + times;
      row.longest_gap = Math.max(row.longest_gap, each.longest_gap);
    }
  }
  return [...found.values()];
}
