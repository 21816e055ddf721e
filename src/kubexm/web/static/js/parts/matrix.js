// Every (node, host) on a canvas: only what is in sight is painted, so that a thousand hosts are as quick as five.
// Rows are nodes under their modules, columns are hosts.

import { eachFrame, h } from "../dom.js";
import { CODE, MEANS, SHOWN } from "../states.js";
import { MatrixPaint } from "./matrix_paint.js";

const HEAD = 26; // a module's row
const SIZES = [1, 2, 3, 4, 6, 8, 11, 14, 18, 24, 36, 60, 88];
const LABELS = 250;
const ROTATED = 84;

export class Matrix extends MatrixPaint {
  constructor(model, { open }) {
    super();
    this.model = model;
    this.open = open;
    this.closed = new Set();
    this.rows = [];
    this.columns = [];
    this.filter = "";
    this.only = "";
    this.cursor = null;
    this.size = 18;
    this.draw = eachFrame(() => this.paint());
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.space = h("div", { className: "matrix-space" });
    this.said = h("div", { className: "matrix-said", "aria-live": "polite" });
    this.view = h("div", {
      className: "matrix-view", tabIndex: 0, role: "application",
      "aria-label": "Matrix of nodes and hosts. Arrow keys move, Enter opens.",
      onscroll: this.draw, onkeydown: (event) => this.key(event), onclick: (event) => this.click(event),
      onmousemove: (event) => this.hover(event), onmouseleave: () => { this.over = null; this.tip.hidden = true; this.draw(); },
    }, this.space, this.canvas);
    this.tip = h("div", { className: "tip", hidden: true });
    this.chips = h("div", { className: "chips", role: "group", "aria-label": "Only in one state" });
    this.sought = h("input", { type: "search", placeholder: "Nodes or hosts", "aria-label": "Find nodes or hosts", oninput: () => { this.filter = this.sought.value.trim().toLowerCase(); this.arrange(); } });
    this.element = h("div", { className: "matrix" },
      h("div", { className: "tools" }, this.sought, this.chips, h("span", { className: "grow" }),
        h("button", { className: "small", title: "Farther (-)", "aria-label": "Smaller cells", onclick: () => this.zoom(-1) }, "−"),
        h("button", { className: "small", title: "Closer (+)", "aria-label": "Larger cells", onclick: () => this.zoom(1) }, "+"),
        h("button", { className: "small", title: "All hosts (0)", onclick: () => this.fit() }, "Fit"),
        h("button", { className: "small", onclick: () => this.fold() }, "Modules")),
      this.view, this.said, this.tip);
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(this.view);
    this.themed = () => { this.paints = null; this.draw(); };
    window.addEventListener("themechange", this.themed);
  }

  close() {
    this.sizes.disconnect();
    this.draw.cancel();
    window.removeEventListener("themechange", this.themed);
  }

  /** The graph is known: choose what fits. */
  ready() {
    const hosts = this.model.graph.hosts.length;
    if (this.model.graph.nodes.length > 400) this.model.graph.modules.forEach((each) => this.closed.add(each));
    this.fitted = false;
    this.arrange();
    if (this.view.clientWidth && !this.fitted) this.fit(hosts);
  }

  update() {
    const { totals } = this.model;
    const key = SHOWN.map((state) => totals[CODE[state]]).join();
    if (key !== this.tallied) {
      this.tallied = key;
      this.chips.replaceChildren(...SHOWN.filter((state) => totals[CODE[state]]).map((state) =>
        h("button", { className: `chip ${state}`, "aria-pressed": String(this.only === state), title: MEANS[state], onclick: () => {
          this.only = this.only === state ? "" : state;
          this.tallied = "";
          this.update();
          this.arrange();
        } }, h("i", {}), `${totals[CODE[state]].toLocaleString("en")} ${state}`)));
    }
    if (this.only) this.arrange();
    else this.draw();
  }

  /** Which rows and columns there are, by what is sought. */
  arrange() {
    const { graph, cells } = this.model;
    if (!graph) return;
    const words = this.filter, wanted = this.only ? CODE[this.only] : -1, wide = graph.hosts.length;
    const hostHits = words ? graph.hosts.map((host, at) => (host.toLowerCase().includes(words) ? at : -1)).filter((at) => at >= 0) : [];
    let nodes = graph.nodes.filter((node) => !words || node.id.toLowerCase().includes(words));
    let columns = graph.hosts.map((_, at) => at);
    if (words && hostHits.length) {
      columns = hostHits;
      if (!nodes.length) nodes = graph.nodes;
    }
    if (wanted >= 0) {
      const used = new Set();
      nodes = nodes.filter((node) => {
        let any = false;
        for (const at of columns) if (cells[node.at * wide + at] === wanted) { any = true; used.add(at); }
        return any;
      });
      columns = columns.filter((at) => used.has(at));
    }
    this.columns = columns;
    this.rows = [];
    let y = 0;
    for (const module of graph.modules) {
      const mine = nodes.filter((node) => node.module === module);
      if (!mine.length) continue;
      this.rows.push({ module, nodes: mine.map((node) => node.at), y, tall: HEAD });
      y += HEAD;
      if (this.closed.has(module) && !words) continue;
      for (const node of mine) {
        this.rows.push({ node: node.at, y, tall: 0 });
        y += this.tall;
      }
    }
    this.high = y;
    this.resized();
  }

  /** Rows are as high as their names, however narrow the columns of a thousand hosts are. */
  get tall() { return Math.max(Math.min(this.size, 22), 16); }
  get labels() { return this.view.clientWidth < 600 ? 132 : LABELS; }
  get top() { return this.size >= 60 || this.size < 9 ? 26 : ROTATED; }

  resized() {
    if (!this.view.clientWidth) return;
    if (!this.fitted && this.model.graph) return this.fit();
    for (let at = 0, y = 0; at < this.rows.length; at++) {
      const row = this.rows[at];
      row.y = y;
      row.tall = row.module ? HEAD : this.tall;
      y += row.tall;
      this.high = y;
    }
    this.space.style.width = `${this.labels + this.columns.length * this.size + 12}px`;
    this.space.style.height = `${this.top + this.high + 8}px`;
    const dots = window.devicePixelRatio || 1;
    this.canvas.width = this.view.clientWidth * dots;
    this.canvas.height = this.view.clientHeight * dots;
    this.canvas.style.width = `${this.view.clientWidth}px`;
    this.canvas.style.height = `${this.view.clientHeight}px`;
    this.draw();
  }

  zoom(step) {
    const at = SIZES.indexOf(this.size);
    this.size = SIZES[Math.max(0, Math.min(SIZES.length - 1, at + step))];
    this.resized();
  }

  /** The largest cells with which all hosts are in sight. */
  fit() {
    const room = this.view.clientWidth - this.labels - 16, many = Math.max(1, this.columns.length);
    if (room <= 0) return;
    this.fitted = true;
    this.size = SIZES.findLast((size) => size * many <= room) ?? SIZES[0];
    this.resized();
  }

  fold(open) {
    const all = this.model.graph.modules;
    if (open ?? this.closed.size) this.closed.clear();
    else all.forEach((each) => this.closed.add(each));
    this.arrange();
  }

  key(event) {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e9], End: [0, 1e9], PageUp: [-20, 0], PageDown: [20, 0] };
    const nodes = this.rows.filter((row) => row.node !== undefined);
    if (event.key in moves && nodes.length) {
      const [down, right] = moves[event.key];
      const from = this.cursor ? nodes.findIndex((row) => row.node === this.cursor.node) : 0;
      const column = this.cursor ? this.columns.indexOf(this.cursor.host) : -right;
      const row = nodes[Math.max(0, Math.min(nodes.length - 1, (from < 0 ? 0 : from) + (this.cursor ? down : 0)))];
      const host = this.columns[Math.max(0, Math.min(this.columns.length - 1, column + right))];
      this.cursor = { node: row.node, host };
      this.reveal(row, host);
      this.say();
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor) this.choose(this.cursor);
    else if (event.key === "+" || event.key === "=") this.zoom(1);
    else if (event.key === "-") this.zoom(-1);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.draw();
  }

  reveal(row, host) {
    const x = this.columns.indexOf(host) * this.size, { view } = this;
    if (row.y < view.scrollTop) view.scrollTop = row.y;
    else if (row.y + this.top + row.tall > view.scrollTop + view.clientHeight) view.scrollTop = row.y + this.top + row.tall - view.clientHeight + 4;
    if (x < view.scrollLeft) view.scrollLeft = x;
    else if (x + this.labels + this.size > view.scrollLeft + view.clientWidth) view.scrollLeft = x + this.labels + this.size - view.clientWidth + 4;
  }

  say() {
    const { graph } = this.model, { node, host } = this.cursor;
    this.said.textContent = `${graph.nodes[node].id} on ${graph.hosts[host]}: ${this.model.at(node, host)}`;
  }

  choose({ node, host }) {
    const { graph } = this.model;
    if (this.model.at(node, host) !== "absent") this.open(graph.nodes[node].id, graph.hosts[host]);
  }

  /** What lies under the pointer. */
  under(event) {
    const box = this.view.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    if (y < this.top) return null;
    const inY = y - this.top + this.view.scrollTop;
    const row = this.rows.findLast((each) => each.y <= inY);
    if (!row || inY > row.y + row.tall) return null;
    if (x < this.labels) return { row };
    const at = Math.floor((x - this.labels + this.view.scrollLeft) / this.size);
    return at < this.columns.length ? { row, host: this.columns[at] } : { row };
  }

  click(event) {
    const found = this.under(event);
    if (!found) return;
    if (found.row.module) {
      if (!this.closed.delete(found.row.module)) this.closed.add(found.row.module);
      return this.arrange();
    }
    const host = found.host ?? this.worst(found.row.node);
    if (host === undefined) return;
    this.cursor = { node: found.row.node, host };
    this.choose(this.cursor);
    this.draw();
  }

  /** Of a node's hosts the one a person would want to see. */
  worst(node) {
    let best, rank = -1;
    for (const at of this.columns) {
      const code = this.model.cells[node * this.model.graph.hosts.length + at];
      if (code > rank && code !== CODE.absent) { best = at; rank = code; }
    }
    return best;
  }

  hover(event) {
    this.over = this.under(event);
    this.draw();
    const { over, model } = this;
    if (over?.row.node === undefined || over.host === undefined) {
      this.tip.hidden = !(over?.row.node !== undefined);
      if (!this.tip.hidden) this.tip.textContent = `${model.graph.nodes[over.row.node].id} – ${model.graph.nodes[over.row.node].does}`;
    } else {
      this.tip.hidden = false;
      this.tip.textContent = `${model.graph.nodes[over.row.node].id} on ${model.graph.hosts[over.host]}: ${model.at(over.row.node, over.host)}`;
    }
    const box = this.element.getBoundingClientRect();
    this.tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 8)}px`;
    this.tip.style.top = `${event.clientY - box.top + 16}px`;
  }
}
