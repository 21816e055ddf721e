// One (node, host) in full: how it ended, what to do about it, what it printed, as it prints it.

import { address, get, part } from "../api.js";
import { h, prose, put } from "../dom.js";
import { CODE, MEANS } from "../states.js";
import { Stream } from "../stream.js";
import { count, duration, moment } from "../words.js";
import { coloured, plain } from "./output.js";
import { badge } from "./pieces.js";

const MOST = 400_000; // characters kept in sight; the whole is a link away
const MOST_HOSTS = 300;

export class Pane {
  /** `moved(node, host)` is told what is shown, or nothing when it closes. */
  constructor(model, { moved, open }) {
    this.model = model;
    this.moved = moved;
    this.open = open;
    this.follows = true;
    this.title = h("h2", { className: "mono" });
    this.does = h("p", { className: "dim" });
    this.hosts = h("select", { "aria-label": "Host", onchange: () => this.show(this.node, this.hosts.value) });
    this.about = h("div", { className: "about" });
    this.log = h("pre", { className: "log", tabIndex: 0, "aria-label": "Output", onscroll: () => this.scrolled() });
    this.follow = h("input", { type: "checkbox", checked: true, onchange: () => { this.follows = this.follow.checked; this.bottom(); } });
    this.sought = h("input", { type: "search", placeholder: "In this log", "aria-label": "Find in this log", oninput: () => this.write() });
    this.hits = h("span", { className: "dim number" });
    this.whole = h("a", { target: "_blank", rel: "noopener" }, "Whole log");
    this.element = h("aside", { className: "pane", hidden: true, "aria-label": "Details" },
      h("div", { className: "pane-head" }, h("div", {}, this.title, this.does), h("button", { className: "quiet icon", "aria-label": "Close (Esc)", title: "Close (Esc)", onclick: () => this.hide() }, "×")),
      h("div", { className: "row" }, this.hosts),
      this.about,
      h("div", { className: "row log-tools" }, this.sought, this.hits, h("span", { className: "grow" }), h("label", { className: "check" }, this.follow, "follow"), this.whole),
      this.log);
  }

  close() { this.stream?.close(); }

  get shown() { return !this.element.hidden; }

  hide() {
    this.close();
    this.element.hidden = true;
    this.node = this.host = null;
    this.moved();
  }

  /** Shows a node on a host, or on the one a person would want to see. */
  show(node, host, sought = "") {
    const { graph } = this.model, at = graph.nodeAt.get(node);
    if (at === undefined) return;
    host ??= this.choice(at);
    const changed = node !== this.node || host !== this.host;
    [this.node, this.host] = [node, host];
    this.element.hidden = false;
    this.title.textContent = node;
    this.does.textContent = graph.nodes[at].excluded ? `left out: ${graph.nodes[at].excluded}` : graph.nodes[at].does;
    this.fillHosts(at);
    if (sought) this.sought.value = sought;
    if (!changed) return;
    if (!sought) this.sought.value = "";
    this.text = "";
    this.state = "";
    this.write();
    this.whole.href = address(`${this.model.path}/logs/${part(node)}/${part(host)}`);
    this.listen(0);
    this.update();
    this.moved(node, host);
  }

  listen(after) {
    this.stream?.close();
    this.stream = new Stream(`${this.model.path}/logs/${part(this.node)}/${part(this.host)}/follow`, { after, on: (events) => this.more(events) });
  }

  choice(at) {
    const { graph, cells } = this.model, wide = graph.hosts.length;
    let best = 0, rank = -1;
    for (let host = 0; host < wide; host++) {
      const code = cells[at * wide + host];
      const worth = code === CODE.absent ? -1 : code === CODE.running ? 8.5 : code;
      if (worth > rank) { best = host; rank = worth; }
    }
    return graph.hosts[best];
  }

  fillHosts(at) {
    const { graph } = this.model;
    const mine = graph.hosts.filter((_, host) => this.model.at(at, host) !== "absent");
    const few = mine.slice(0, MOST_HOSTS);
    if (!few.includes(this.host)) few.unshift(this.host);
    put(this.hosts, few.map((host) => h("option", { value: host, selected: host === this.host }, host)), mine.length > few.length && h("option", { disabled: true }, `and ${count(mine.length - few.length, "other")}`));
    this.hosts.value = this.host;
    this.hosts.disabled = mine.length < 2;
  }

  /** Called on every change of the task: looks again once the unit's state is another. */
  update() {
    if (!this.shown || !this.model.graph) return;
    if (this.stream.over && this.model.active) this.listen(this.stream.last); // it was resumed, and says more
    const { graph } = this.model, state = this.model.at(graph.nodeAt.get(this.node), graph.hostAt.get(this.host));
    if (state === this.state) return;
    this.state = state;
    put(this.about, badge(state), h("span", { className: "dim" }, MEANS[state]));
    if (["pending", "running", "absent"].includes(state)) return;
    this.load(this.node, this.host, state);
  }

  async load(node, host, state) {
    const query = { node, host, limit: 10 };
    let found = null;
    for (let tries = 0; tries < 20 && !found; tries++) { // the store may be a moment behind the stream
      const page = await get(`${this.model.path}/results`, query).catch(() => ({ items: [] }));
      if (node !== this.node || host !== this.host) return;
      found = page.items.find((each) => each.node === node && each.state === state) ?? null;
      if (!found) await new Promise((resolve) => setTimeout(resolve, 250));
    }
    if (!found || node !== this.node || host !== this.host) return;
    const took = found.started && found.ended ? duration(found.ended - found.started) : null;
    const { more } = found;
    put(this.about,
      h("div", { className: "row" }, badge(found.state), took && h("span", { title: moment(found.ended) }, `in ${took}`), found.attempts > 1 && h("span", {}, count(found.attempts, "attempt")), more.prediction && h("span", { className: "kind" }, more.prediction)),
      more.reason && h("p", { className: "dim" }, more.reason),
      found.error && h("div", { className: "trouble" }, h("p", { className: "what" }, prose(plain(found.error))), found.hint && h("p", { className: "remedy" }, prose(found.hint)), more.command && !found.error.includes(more.command) && h("pre", { className: "command" }, more.command)),
      found.root_cause && h("p", {}, "Because of ", h("button", { className: "link", onclick: () => this.open(...found.root_cause) }, `${found.root_cause[0]} on ${found.root_cause[1]}`)),
      (more.warnings ?? []).map((each) => h("p", { className: "warning" }, each)),
      more.diff && diff(more.diff));
  }

  more(events) {
    for (const { kind, data } of events) if (kind === "output") this.text += data.text;
    if (this.text.length > MOST) this.text = this.text.slice(this.text.indexOf("\n", this.text.length - MOST) + 1);
    this.write();
  }

  write() {
    const sought = this.sought.value.trim();
    if (!this.text) put(this.log, h("span", { className: "dim" }, "Nothing was printed."));
    else put(this.log, coloured(this.text, sought));
    const hits = sought ? this.log.querySelectorAll("mark") : [];
    this.hits.textContent = sought ? `${hits.length}` : "";
    if (hits.length) hits[0].scrollIntoView({ block: "nearest" });
    else this.bottom();
  }

  bottom() { if (this.follows) this.log.scrollTop = this.log.scrollHeight; }

  scrolled() {
    const end = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 24;
    if (end === this.follows) return;
    this.follows = this.follow.checked = end;
  }
}

/** A unified diff, with what comes and goes marked. */
export function diff(words) {
  const kind = (line) => (/^\s*(\+\+\+|---) /.test(line) ? "plain" : /^\s*\+/.test(line) ? "plus" : /^\s*-/.test(line) ? "minus" : /^\s*[~@]/.test(line) ? "tilde" : "plain");
  return h("pre", { className: "text diff" }, String(words).trimEnd().split("\n").map((line) => h("span", { className: kind(line) }, line)));
}
