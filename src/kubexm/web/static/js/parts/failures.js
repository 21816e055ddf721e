// Every root cause once, with its remedy; and why a task could not even begin.

import { h, prose, put } from "../dom.js";
import { count } from "../words.js";

const FEW = 3;

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
    const causes = grouped(failures);
    this.element.hidden = !failures.length && !error && !lost.size;
    put(this.element,
      error && h("div", { className: "trouble" }, h("p", { className: "what" }, prose(error.message)), error.hint && h("p", { className: "remedy" }, prose(error.hint)),
        (error.problems ?? []).map((each) => h("p", {}, `${each.line ? `line ${each.line}: ` : ""}${each.message}`))),
      (this.all ? causes : causes.slice(0, FEW)).map((each) => this.one(each)),
      causes.length > FEW && h("button", { className: "small", onclick: () => { this.all = !this.all; this.update(); } }, this.all ? "Only the first" : `All ${causes.length} root causes`),
      [...lost].map(([host, reason]) => h("p", { className: "lost" }, h("b", {}, `${host} was lost: `), reason)));
  }

  one([failure, ...others]) {
    const blocked = others.reduce((sum, each) => sum + each.blocked, failure.blocked);
    return h("div", { className: "trouble failure" },
      h("p", { className: "row" }, h("button", { className: "link mono", onclick: () => this.open(failure.node, failure.host) }, failure.node),
        others.length ? h("span", { title: others.map((each) => each.node).join("\n") }, `and ${count(others.length, "other node")}`) : null, h("span", {}, "on"), h("b", {}, failure.host),
        failure.exit_code !== undefined && failure.exit_code !== null && h("span", { className: "kind" }, `exit code ${failure.exit_code}`),
        blocked ? h("span", { className: "kind warning" }, `blocks ${count(blocked, "other")}`) : null),
      h("p", { className: "what" }, prose(failure.error || failure.state)),
      failure.hint && h("p", { className: "remedy" }, prose(failure.hint)));
  }
}

/** What failed on one host with the same words failed of the same: a host that is gone fails everything it was at. */
function grouped(failures) {
  const found = new Map();
  for (const each of failures) {
    const key = `${each.host} ${each.error}`;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(each);
  }
  return [...found.values()];
}
