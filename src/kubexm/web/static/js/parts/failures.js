// Every root cause once, with its hosts and its remedy; and why a task could not even begin.

import { h, prose, put } from "../dom.js";
import { count } from "../words.js";
import { plain } from "./output.js";

const FEW = 3;
const SOME = 5; // hosts of one cause that are named

export class Failures {
  constructor(model, { open }) {
    this.model = model;
    this.open = open;
    this.all = false;
    this.element = h("section", { className: "failures", hidden: true, "aria-label": "What failed" });
  }

  update() {
    const { failures, task, lost } = this.model;
    const key = JSON.stringify([failures, task.error, [...lost], this.all]);
    if (key === this.key) return;
    this.key = key;
    const error = task.error && !failures.length ? task.error : null;
    const causes = grouped(failures, this.model);
    this.element.hidden = !failures.length && !error && !lost.size;
    put(this.element,
      error && h("div", { className: "trouble" }, h("p", { className: "what" }, prose(plain(error.message))), error.hint && h("p", { className: "remedy" }, prose(error.hint)),
        (error.problems ?? []).map((each) => h("p", {}, `${each.line ? `line ${each.line}: ` : ""}${each.message}`))),
      (this.all ? causes : causes.slice(0, FEW)).map((each) => this.one(each)),
      causes.length > FEW && h("button", { className: "small", onclick: () => { this.all = !this.all; this.update(); } }, this.all ? "Only the first" : `All ${causes.length} root causes`),
      [...lost].map(([host, reason]) => h("p", { className: "lost" }, h("b", {}, `${host} was lost: `), reason)));
  }

  one({ first, nodes, hosts, blocked }) {
    return h("div", { className: "trouble failure" },
      h("p", { className: "row" }, h("button", { className: "link mono", onclick: () => this.open(first.node, first.host) }, first.node),
        nodes.length > 1 ? h("span", { title: nodes.join("\n") }, `and ${count(nodes.length - 1, "other node")}`) : null, h("span", {}, "on"), this.hosts(first.node, hosts),
        first.exit_code !== undefined && first.exit_code !== null && h("span", { className: "kind" }, `exit code ${first.exit_code}`),
        blocked ? h("span", { className: "kind warning" }, `blocks ${count(blocked, "other")}`) : null),
      h("p", { className: "what" }, prose(plain(first.error) || first.state)),
      first.hint && h("p", { className: "remedy" }, prose(plain(first.hint))));
  }

  hosts(node, hosts) {
    if (hosts.length === 1) return h("b", {}, hosts[0]);
    const more = hosts.length - SOME;
    return [h("b", {}, count(hosts.length, "host")),
      hosts.slice(0, SOME).map((host) => h("button", { className: "link", onclick: () => this.open(node, host) }, host)),
      more > 0 && h("span", { title: hosts.slice(SOME).join("\n") }, `and ${count(more, "other")}`)];
  }
}

/**
 * By cause, in the plan's order: a node with all the hosts on which it failed in the same words. Nodes that failed so on
 * the same hosts are one, too: a host that is gone fails everything it was at.
 */
function grouped(failures, { graph }) {
  const causes = new Map(), found = new Map();
  for (const each of failures) {
    const key = JSON.stringify([each.node, each.state, each.error, each.hint]);
    if (!causes.has(key)) causes.set(key, { first: each, nodes: [each.node], hosts: [], blocked: 0 });
    causes.get(key).hosts.push(each.host);
    causes.get(key).blocked += each.blocked;
  }
  const place = (cause) => graph?.nodeAt.get(cause.first.node) ?? 0;
  for (const cause of [...causes.values()].sort((one, other) => place(one) - place(other))) {
    const key = JSON.stringify([cause.first.error, cause.first.hint, cause.hosts.toSorted()]);
    if (!found.has(key)) found.set(key, cause);
    else {
      found.get(key).nodes.push(...cause.nodes);
      found.get(key).blocked += cause.blocked;
    }
  }
  return [...found.values()];
}
