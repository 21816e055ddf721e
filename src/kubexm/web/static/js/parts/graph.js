// The graph as it goes: modules that open and close, nodes coloured by state, root causes marked, zoom and pan.

import { eachFrame, h, put, s } from "../dom.js";
import { picture } from "../layout.js";
import { BAR, CODE, GLYPH, together } from "../states.js";
import { count, shorten, within } from "../words.js";

const MOST_OPEN = 70; // nodes: more of them and modules begin closed
const MOST_AT_ALL = 1500;
const MOST_OPENED = 2; // by themselves, because something failed in them
const NEAREST = 2.2;
const EASY = 0.55; // smaller, and nobody can read it: then one looks at the beginning, not at all of it

export class Graph {
  /** `open(node)` is told which node was chosen. */
  constructor(model, { open, live = true }) {
    this.model = model;
    this.choose = open;
    this.live = live;
    this.opened = new Set();
    this.boxes = [];
    this.scale = 1;
    this.x = this.y = 0;
    this.touched = false;
    this.over = new AbortController();
    this.world = s("g", {});
    this.svg = s("svg", { class: "graph-svg", role: "group", "aria-label": "Graph of modules and nodes" },
      s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 1 L7 4 L0 7", class: "arrow" }))),
      this.world);
    this.view = h("div", { className: "graph-view" }, this.svg);
    this.all = h("button", { className: "small", title: "Open or close all modules (e)", onclick: () => this.fold() }, "Open all");
    this.sought = h("input", { type: "search", placeholder: "Find a node", "aria-label": "Find a node", oninput: () => this.find() });
    this.element = h("div", { className: "graph" },
      h("div", { className: "tools" }, this.sought, legend(live), h("span", { className: "grow" }), this.all,
        h("button", { className: "small", title: "Farther (-)", "aria-label": "Zoom out", onclick: () => this.zoom(1 / 1.3) }, "−"),
        h("button", { className: "small", title: "Closer (+)", "aria-label": "Zoom in", onclick: () => this.zoom(1.3) }, "+"),
        h("button", { className: "small", title: "All of it (0)", onclick: () => this.fit() }, "Fit")),
      this.view);
    this.wake = eachFrame(() => this.colour());
    this.sizes = new ResizeObserver(() => { if (!this.touched) this.fit(EASY); });
    this.sizes.observe(this.view);
    this.pointers();
  }

  close() {
    this.sizes.disconnect();
    this.wake.cancel();
    this.over.abort();
  }

  ready() {
    const { nodes, modules } = this.model.graph;
    this.opened = new Set(nodes.length <= MOST_OPEN ? modules : []);
    this.openFailed();
    this.draw();
  }

  update() {
    if (this.openFailed()) this.draw();
    else this.wake();
  }

  /** Opens the modules in which something failed, once; true if that changed anything. */
  openFailed() {
    this.shownFailed ??= new Set();
    let more = false;
    for (const { node } of this.model.failures ?? []) {
      const { module } = this.model.graph.nodes[this.model.graph.nodeAt.get(node)];
      if (this.shownFailed.has(module)) continue;
      this.shownFailed.add(module);
      if (this.shownFailed.size <= MOST_OPENED && !this.opened.has(module)) { this.opened.add(module); more = true; }
    }
    return more;
  }

  fold() {
    const { nodes, modules } = this.model.graph;
    if (this.opened.size) this.opened.clear();
    else if (nodes.length <= MOST_AT_ALL) this.opened = new Set(modules);
    this.touched = false;
    this.draw();
  }

  /** Opens or closes a module, which stays where it is on the screen. */
  toggle(module) {
    const place = () => this.picture.modules.find((each) => each.module === module);
    const before = place();
    const [x, y] = [this.x + before.x * this.scale, this.y + before.y * this.scale];
    if (!this.opened.delete(module)) this.opened.add(module);
    this.touched = true;
    this.draw();
    this.scale = Math.max(this.scale, EASY);
    this.x = x - place().x * this.scale;
    this.y = y - place().y * this.scale;
    this.move();
    this.world.querySelector(`[data-module="${CSS.escape(module)}"]`)?.focus({ preventScroll: true });
  }

  draw() {
    const { graph } = this.model;
    this.picture = picture(graph, this.opened);
    this.boxes = [];
    this.all.textContent = this.opened.size ? "Close all" : "Open all";
    const links = s("g", { class: "links", "aria-hidden": "true" }, this.picture.links.map((link) => this.link(link)));
    const frames = this.picture.modules.filter((each) => each.open).map((each) => this.frame(each));
    const closed = this.picture.modules.filter((each) => !each.open).map((each) => this.moduleBox(each));
    const nodes = [...this.picture.nodes].map(([at, place]) => this.nodeBox(graph.nodes[at], place));
    put(this.world, frames, links, closed, nodes);
    this.colour();
    if (!this.touched) this.fit(EASY);
    if (this.sought.value) this.find();
  }

  link({ from, to, sameHost }) {
    const end = (each) => (each.node !== undefined ? this.picture.nodes.get(each.node) : this.picture.modules[each.module]);
    const one = end(from), other = end(to);
    const x1 = one.x + one.wide, y1 = one.y + one.high / 2, x2 = other.x - 2, y2 = other.y + other.high / 2;
    const bend = x2 > x1 ? Math.max(18, (x2 - x1) / 2) : 60;
    return s("path", { class: sameHost ? "link same" : "link", d: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "marker-end": "url(#tip)" });
  }

  frame(place) {
    const fold = () => this.toggle(place.module);
    const counts = () => this.model.countsOfAll?.(place.members);
    const head = s("g", { class: "fold", tabindex: 0, role: "button", "aria-expanded": "true", "aria-label": `Close module ${place.module}`, "data-module": place.module, onclick: fold, onkeydown: pressed(fold) },
      s("rect", { class: "hit", x: place.x, y: place.y, width: place.wide, height: 30 }),
      s("text", { class: "module-name", x: place.x + 14, y: place.y + 21 }, `▾ ${place.module}`));
    const element = s("g", { class: "module open" }, s("rect", { class: "frame", x: place.x, y: place.y, width: place.wide, height: place.high, rx: 12 }), head);
    this.boxes.push({ element, counts, members: place.members });
    return element;
  }

  moduleBox(place) {
    const fold = () => this.toggle(place.module);
    const meter = this.meter(place.x + 14, place.y + 47, place.wide - 28);
    const hosts = Math.max(...place.members.map((at) => this.model.graph.nodes[at].hosts));
    const element = s("g", { class: "module box", tabindex: 0, role: "button", "aria-expanded": "false", "data-module": place.module, onclick: fold, onkeydown: pressed(fold) },
      s("rect", { class: "body", x: place.x, y: place.y, width: place.wide, height: place.high, rx: 10 }),
      s("text", { class: "module-name", x: place.x + 14, y: place.y + 21 }, `▸ ${shorten(place.module, 17)}`),
      s("text", { class: "sign", x: place.x + place.wide - 14, y: place.y + 21, "text-anchor": "end" }),
      s("text", { class: "more", x: place.x + 14, y: place.y + 38 }, `${count(place.members.length, "node")}, ${count(hosts, "host")}`),
      this.live ? meter.element : null);
    this.boxes.push({ element, meter, name: place.module, members: place.members, counts: () => this.model.countsOfAll?.(place.members) });
    return element;
  }

  nodeBox(node, place) {
    const chosen = () => this.choose(node.id);
    const meter = this.meter(place.x + 12, place.y + place.high - 7, place.wide - 24, 3);
    const where = node.host ?? count(node.hosts, "host");
    const element = s("g", { class: `node box${node.excluded ? " left-out" : ""}${node.on_demand ? " on-demand" : ""}`, tabindex: 0, role: "button", onclick: chosen, onkeydown: pressed(chosen), "data-node": node.id },
      s("title", {}, `${node.id}\n${node.does}\n${where}${node.closes ? `\ncloses ${node.closes}, whatever happens in between` : ""}${node.excluded ? `\nleft out: ${node.excluded}` : ""}`),
      s("rect", { class: "body", x: place.x, y: place.y, width: place.wide, height: place.high, rx: 8 }),
      s("rect", { class: "edge", x: place.x, y: place.y + 7, width: 4, height: place.high - 14, rx: 2 }),
      s("text", { class: "name", x: place.x + 12, y: place.y + 16 }, shorten(within(node.id), 20)),
      s("text", { class: "sign", x: place.x + place.wide - 11, y: place.y + 16, "text-anchor": "end" }),
      s("text", { class: "more", x: place.x + 12, y: place.y + 31 }, shorten(`${where} · ${node.does}`, 27)),
      node.hosts > 1 && this.live ? meter.element : null);
    this.boxes.push({ element, meter: node.hosts > 1 ? meter : null, name: node.id, node: node.id, members: [node.at], counts: () => this.model.countsOf?.(node.at) });
    return element;
  }

  /** A thin bar with a part for each state. */
  meter(x, y, wide, high = 5) {
    const parts = BAR.filter((state) => state !== "pending").map((state) => s("rect", { class: `s-${state}`, x, y, height: high, width: 0 }));
    const element = s("g", { class: "meter" }, s("rect", { class: "s-pending", x, y, width: wide, height: high, rx: high / 2 }), parts);
    const show = (counts) => {
      let all = 0, from = x;
      for (const state of BAR) all += counts[CODE[state]];
      BAR.filter((state) => state !== "pending").forEach((state, turn) => {
        const part = all ? (counts[CODE[state]] / all) * wide : 0;
        parts[turn].setAttribute("x", from);
        parts[turn].setAttribute("width", part);
        from += part;
      });
    };
    return { element, show };
  }

  /** Sets every box to how it stands. */
  colour() {
    if (!this.live) return;
    const roots = new Set(this.model.failures.map((each) => each.node));
    for (const box of this.boxes) {
      const counts = box.counts();
      const key = counts.join() + box.members.some((at) => roots.has(this.model.graph.nodes[at].id));
      if (box.key === key) continue;
      box.key = key;
      const state = together(counts), root = box.members.some((at) => roots.has(this.model.graph.nodes[at].id));
      box.element.dataset.state = state;
      box.element.classList.toggle("root", root);
      box.meter?.show(counts);
      if (!box.name) continue;
      const sign = box.element.querySelector(".sign");
      sign.textContent = root ? "✕" : state === "partly" ? "" : GLYPH[state] ?? "";
      const more = box.element.querySelector(".more");
      box.about ??= more.textContent;
      more.textContent = root ? shorten(`root cause · ${box.about}`, 27) : box.about;
      const done = counts[CODE.succeeded] + counts[CODE.satisfied];
      box.element.setAttribute("aria-label", `${box.name}: ${root ? "root cause, " : ""}${state}, ${done} done`);
    }
  }

  find() {
    const words = this.sought.value.trim().toLowerCase();
    let first = null;
    for (const box of this.boxes) {
      if (!box.name) continue;
      const hit = words && (box.node ? box.name.toLowerCase().includes(words) : box.members.some((at) => this.model.graph.nodes[at].id.toLowerCase().includes(words)));
      box.element.classList.toggle("hit-by-search", Boolean(hit));
      box.element.classList.toggle("faded", Boolean(words) && !hit);
      if (hit) first ??= box;
    }
    if (first) this.centre(first);
  }

  centre(box) {
    const place = box.node ? this.picture.nodes.get(box.members[0]) : this.picture.modules.find((each) => each.module === box.name);
    this.touched = true;
    this.scale = Math.max(this.scale, 0.8);
    this.x = this.view.clientWidth / 2 - (place.x + place.wide / 2) * this.scale;
    this.y = this.view.clientHeight / 2 - (place.y + place.high / 2) * this.scale;
    this.move();
  }

  /** Opens the node's module and brings it into sight. */
  show(id) {
    const node = this.model.graph.nodes[this.model.graph.nodeAt.get(id)];
    if (!this.opened.has(node.module)) { this.opened.add(node.module); this.draw(); }
    const box = this.boxes.find((each) => each.node === id);
    if (box) this.centre(box);
  }

  // Zoom and pan

  fit(smallest = 0.05) {
    if (!this.picture || !this.view.clientWidth) return;
    const room = 22, { wide, high } = this.picture;
    const scale = Math.min((this.view.clientWidth - 2 * room) / wide, (this.view.clientHeight - 2 * room) / high, 1.15);
    this.touched = false;
    this.scale = Math.max(scale, smallest);
    this.x = Math.max(room, (this.view.clientWidth - wide * this.scale) / 2);
    this.y = (this.view.clientHeight - high * this.scale) / 2;
    this.move();
  }

  zoom(by, x = this.view.clientWidth / 2, y = this.view.clientHeight / 2) {
    const next = Math.min(NEAREST, Math.max(0.05, this.scale * by));
    this.x = x - ((x - this.x) * next) / this.scale;
    this.y = y - ((y - this.y) * next) / this.scale;
    this.scale = next;
    this.touched = true;
    this.move();
  }

  move() { this.world.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`); }

  key(event) {
    if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "e") this.fold();
    else return false;
    return true;
  }

  pointers() {
    const { view } = this, down = new Map();
    let moved = 0;
    view.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = view.getBoundingClientRect();
      if (event.ctrlKey || !event.shiftKey) this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
      else { this.x -= event.deltaY; this.touched = true; this.move(); }
    }, { passive: false });
    view.addEventListener("pointerdown", (event) => { down.set(event.pointerId, event); moved = 0; });
    window.addEventListener("pointerup", (event) => down.delete(event.pointerId), { signal: this.over.signal });
    view.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
    view.addEventListener("pointermove", (event) => {
      const before = down.get(event.pointerId);
      if (!before) return;
      const others = [...down.values()].filter((each) => each.pointerId !== event.pointerId);
      if (others.length) {
        const apart = (one) => Math.hypot(one.clientX - others[0].clientX, one.clientY - others[0].clientY);
        const box = view.getBoundingClientRect();
        this.zoom(apart(event) / Math.max(1, apart(before)), (event.clientX + others[0].clientX) / 2 - box.left, (event.clientY + others[0].clientY) / 2 - box.top);
      } else {
        this.x += event.clientX - before.clientX;
        this.y += event.clientY - before.clientY;
        this.touched = true;
        this.move();
      }
      moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
      down.set(event.pointerId, event);
    });
    view.addEventListener("click", (event) => { if (moved > 6) event.stopPropagation(); }, { capture: true });
  }
}

const pressed = (work) => (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  event.stopPropagation();
  work();
};

const legend = (live) => live && h("div", { className: "legend", "aria-label": "Colours" },
  ["running", "succeeded", "satisfied", "failed", "blocked", "pending"].map((state) => h("span", {}, h("i", { className: `dot ${state}` }), state)));
