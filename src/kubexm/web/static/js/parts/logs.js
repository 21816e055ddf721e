// Looking for text in everything the steps of a task printed.

import { get } from "../api.js";
import { h, later, put } from "../dom.js";
import { coloured, plain } from "./output.js";
import { badge, since } from "./pieces.js";

const LINES = 4;
const SAID = ["succeeded", "failed", "interrupted"]; // what was so already has little to say

export class Logs {
  constructor(model, { open }) {
    this.model = model;
    this.open = open;
    this.again = later(250, () => this.load());
    this.text = h("input", { type: "search", placeholder: "Text in output and errors", "aria-label": "Text to look for", oninput: this.again });
    this.node = h("input", { placeholder: "Node, task or module", "aria-label": "Node, task or module", oninput: this.again });
    this.host = h("input", { placeholder: "Host", "aria-label": "Host", oninput: this.again });
    this.list = h("div", { className: "found", "aria-live": "polite" });
    this.more = h("button", { hidden: true, onclick: () => this.load(true) }, "More");
    this.element = h("div", { className: "logs" }, h("div", { className: "tools" }, this.text, this.node, this.host), this.list, h("div", { className: "row center" }, this.more));
  }

  close() { this.again.cancel(); }
  ready() {}

  update() {
    if (this.seq === this.model.task.seq) return;
    this.seq = this.model.task.seq;
    if (!this.cursor) this.again();
  }

  async load(further = false) {
    const text = this.text.value.trim();
    const query = { text, node: this.node.value.trim(), host: this.host.value.trim(), limit: 50 };
    const page = await get(`${this.model.path}/logs`, text ? { ...query, cursor: further ? this.cursor : undefined } : { ...query, tail: true, state: SAID }).catch(() => null);
    if (!page) return put(this.list, h("p", { className: "empty" }, "This cannot be looked for."));
    this.cursor = page.next;
    this.more.hidden = !page.next;
    const items = (text ? page.items : page.items.toReversed()).map((each) => this.item(each, text));
    if (further) this.list.append(...items);
    else put(this.list, items.length ? items : h("p", { className: "empty" }, text ? "Nobody said that." : "Nothing was printed yet."));
  }

  item(log, text) {
    const lines = excerpt(log, text);
    return h("button", { className: "hit", onclick: () => this.open(log.node, log.host, text) },
      h("span", { className: "row" }, badge(log.state, ""), h("span", { className: "mono" }, log.node), h("span", { className: "dim" }, log.host), h("span", { className: "grow" }), since(log.ended)),
      lines.length ? h("pre", {}, lines.map(([kind, line], at) => [at ? "\n" : "", h("span", { className: kind, title: kind === "stderr" ? "standard error" : undefined }, coloured(line, text))])) : null);
  }
}

/** The lines around the first hit, else the last ones; what went wrong comes last, so that it is among them. */
function excerpt(log, text) {
  const lines = [["stdout", log.stdout], ["stderr", log.stderr], ["error", log.error]].flatMap(([kind, words]) => (words ? words.trimEnd().split("\n").map((line) => [kind, line]) : []));
  const low = text.toLowerCase();
  const at = text ? Math.max(0, lines.findIndex(([, line]) => plain(line).toLowerCase().includes(low)) - 1) : Math.max(0, lines.length - LINES);
  return lines.slice(at, at + LINES);
}
