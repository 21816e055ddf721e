// Where the time went: a lane for each host, spans in it, and the chain of spans that decided how long it took.

import { get } from "../api.js";
import { colour, eachFrame, h, put } from "../dom.js";
import { count, duration, shorten, within } from "../words.js";

const LOOK = 4000;
const SLOT = 11;
const AXIS = 26;
const LETTER = 5.5;
const MOST_SLOTS = 6; // in a lane; of few hosts each has more room

export class Timeline {
  constructor(model, { open }) {
    this.model = model;
    this.open = open;
    this.lanes = [];
    this.from = 0;
    this.to = 1;
    this.loaded = -1;
    this.draw = eachFrame(() => this.paint());
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.space = h("div", { className: "matrix-space" });
    this.tip = h("div", { className: "tip", hidden: true });
    this.view = h("div", { className: "timeline-view", tabIndex: 0, role: "img", "aria-label": "Timeline of the run; the critical path is listed below", onscroll: this.draw,
      onwheel: (event) => this.wheel(event), onmousemove: (event) => this.hover(event), onmouseleave: () => { this.tip.hidden = true; this.over = null; this.draw(); }, onclick: () => this.over && this.open(this.over.node, this.over.host) }, this.space, this.canvas);
    this.facts = h("p", { className: "row timeline-facts" });
    this.chain = h("div", { className: "chain" });
    this.element = h("div", { className: "timeline" },
      h("div", { className: "tools" }, this.facts, h("span", { className: "grow" }),
        h("button", { className: "small", title: "Farther (-)", "aria-label": "Zoom out", onclick: () => this.zoom(1.5) }, "−"),
        h("button", { className: "small", title: "Closer (+)", "aria-label": "Zoom in", onclick: () => this.zoom(1 / 1.5) }, "+"),
        h("button", { className: "small", title: "All of it (0)", onclick: () => this.fit() }, "Fit")),
      this.view, this.tip, this.chain);
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(this.view);
    this.themed = () => { this.paints = null; this.draw(); };
    window.addEventListener("themechange", this.themed);
  }

  close() {
    clearTimeout(this.timer);
    this.sizes.disconnect();
    this.draw.cancel();
    window.removeEventListener("themechange", this.themed);
  }

  ready() {}

  /** Called while it is in sight: fetches what is new, not too often. */
  update() {
    const { seq } = this.model.task;
    if (seq === this.loaded || this.timer || !this.model.graph) return;
    const work = async () => {
      this.loaded = this.model.task.seq;
      try {
        this.take(await get(`${this.model.path}/timeline`));
      } finally {
        this.timer = setTimeout(() => { this.timer = 0; if (this.element.isConnected) this.update(); }, LOOK);
      }
    };
    this.timer = -1;
    work().catch(() => { this.loaded = -1; });
  }

  take(found) {
    const whole = !this.data || (this.from <= 0 && this.to >= this.span);
    this.data = found;
    this.span = Math.max(0.1, found.ended - found.started);
    if (whole) [this.from, this.to] = [0, this.span];
    const hosts = new Map();
    for (const span of found.spans) {
      if (!hosts.has(span.host)) hosts.set(span.host, []);
      hosts.get(span.host).push(span);
    }
    const order = this.model.graph.hosts.filter((host) => hosts.has(host));
    let y = 0;
    this.lanes = order.map((host) => {
      const ends = [];
      for (const span of hosts.get(host)) {
        let slot = ends.findIndex((end) => end <= span.started + 1e-6);
        if (slot < 0) slot = ends.length < (order.length > 12 ? MOST_SLOTS : 3 * MOST_SLOTS) ? ends.length : ends.indexOf(Math.min(...ends));
        ends[slot] = span.ended;
        span.slot = slot;
      }
      const lane = { host, spans: hosts.get(host), y, high: Math.max(2, ends.length) * SLOT + 8 };
      y += lane.high;
      return lane;
    });
    this.high = y;
    this.describe();
    this.resized();
  }

  describe() {
    const chain = this.data.spans.filter((span) => span.critical).sort((one, other) => one.started - other.started);
    put(this.facts, h("span", {}, "took ", h("b", {}, duration(this.span))), h("span", {}, "longest path ", h("b", {}, duration(this.data.longest))), h("span", {}, "kubexm's own ", h("b", {}, duration(this.data.added))), h("span", { className: "dim" }, count(this.data.spans.length, "span")));
    let before = this.data.started;
    const longest = Math.max(...chain.map((span) => span.ended - span.started), 0.001);
    put(this.chain, h("h3", {}, `Critical path: ${count(chain.length, "step")}`), h("ol", {}, chain.map((span) => {
      const seconds = span.ended - span.started, gap = Math.max(0, span.started - before);
      before = span.ended;
      const share = h("i", { className: "share" });
      share.style.width = `${(seconds / longest) * 100}%`;
      return h("li", {}, h("button", { className: "quiet", onclick: () => this.open(span.node, span.host) }, h("span", { className: "mono" }, span.node), h("span", { className: "dim" }, span.host), share,
        h("span", { className: "number dim at" }, `at ${duration(span.started - this.data.started)}`), h("span", { className: "number dim at" }, gap >= 0.05 ? `waited ${duration(gap)}` : ""), h("span", { className: "number" }, duration(seconds))));
    })));
  }

  get labels() { return this.view.clientWidth < 600 ? 74 : 130; }

  resized() {
    if (!this.view.clientWidth) return;
    const dots = window.devicePixelRatio || 1;
    this.space.style.height = `${AXIS + (this.high ?? 0) + 6}px`;
    this.canvas.width = this.view.clientWidth * dots;
    this.canvas.height = this.view.clientHeight * dots;
    this.canvas.style.width = `${this.view.clientWidth}px`;
    this.canvas.style.height = `${this.view.clientHeight}px`;
    this.draw();
  }

  fit() { [this.from, this.to] = [0, this.span]; this.draw(); }

  zoom(by, at = (this.from + this.to) / 2) {
    if (!this.data) return;
    const wide = Math.min(this.span, Math.max(0.05, (this.to - this.from) * by));
    this.from = Math.max(0, at - ((at - this.from) * wide) / (this.to - this.from));
    this.to = Math.min(this.span, this.from + wide);
    this.from = Math.max(0, this.to - wide);
    this.draw();
  }

  key(event) {
    const step = (this.to - this.from) / 8;
    if (event.key === "+" || event.key === "=") this.zoom(1 / 1.5);
    else if (event.key === "-") this.zoom(1.5);
    else if (event.key === "0") this.fit();
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.shift(event.key === "ArrowLeft" ? -step : step);
    else return false;
    return true;
  }

  shift(by) {
    const wide = this.to - this.from;
    this.from = Math.max(0, Math.min(this.span - wide, this.from + by));
    this.to = this.from + wide;
    this.draw();
  }

  wheel(event) {
    if (!this.data) return;
    const perPixel = (this.to - this.from) / Math.max(1, this.view.clientWidth - this.labels);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const x = event.clientX - this.view.getBoundingClientRect().left - this.labels;
      this.zoom(Math.exp(event.deltaY * 0.008), this.from + x * perPixel);
    } else if (event.shiftKey || event.deltaX) {
      event.preventDefault();
      this.shift((event.deltaX || event.deltaY) * perPixel);
    }
  }

  hover(event) {
    const box = this.view.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top - AXIS + this.view.scrollTop;
    const lane = this.lanes.findLast((each) => each.y <= y);
    const per = (this.to - this.from) / (box.width - this.labels), time = (this.data?.started ?? 0) + this.from + (x - this.labels) * per;
    const slot = lane ? Math.floor((y - lane.y - 4) / SLOT) : -1;
    this.over = x < this.labels ? null : lane?.spans.find((span) => span.slot === slot && span.started - 3 * per <= time && span.ended + 3 * per >= time) ?? null;
    this.tip.hidden = !this.over;
    this.view.style.cursor = this.over ? "pointer" : "";
    if (this.over) {
      const { node, host, state, started, ended } = this.over;
      this.tip.textContent = `${node} on ${host}: ${state} in ${duration(ended - started)}`;
      const outer = this.element.getBoundingClientRect();
      this.tip.style.left = `${Math.min(event.clientX - outer.left + 14, outer.width - this.tip.offsetWidth - 8)}px`;
      this.tip.style.top = `${event.clientY - outer.top + 16}px`;
    }
    this.draw();
  }

  paint() {
    const { view, data, labels } = this;
    if (!data || !view.clientWidth) return;
    const paints = (this.paints ??= Object.fromEntries(["ink", "dim", "line", "panel", "raised", "accent", "s-pending", "s-running", "s-succeeded", "s-satisfied", "s-failed", "s-interrupted", "s-blocked", "s-cancelled", "s-excluded"].map((name) => [name, colour(`--${name}`)])));
    const pen = this.canvas.getContext("2d"), dots = window.devicePixelRatio || 1, wide = view.clientWidth, high = view.clientHeight, up = view.scrollTop;
    this.canvas.style.transform = `translate(0, ${up}px)`;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.fillStyle = paints.panel;
    pen.fillRect(0, 0, wide, high);
    const scale = (wide - labels - 10) / (this.to - this.from), x = (time) => labels + (time - data.started - this.from) * scale;
    this.grid(pen, paints, scale, wide, high);
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, wide, high - AXIS);
    pen.clip();
    const chain = [];
    for (const lane of this.lanes) {
      const top = lane.y - up + AXIS;
      for (const span of lane.spans) if (span.critical) chain.push([span, top + 4 + span.slot * SLOT]);
      if (top + lane.high < AXIS || top > high) continue;
      pen.fillStyle = paints.line;
      pen.fillRect(0, top + lane.high - 1, wide, 1);
      for (const span of lane.spans) {
        const left = x(span.started), long = Math.max(2, (span.ended - span.started) * scale);
        if (left + long < labels || left > wide) continue;
        pen.globalAlpha = span.critical || span === this.over ? 1 : 0.62;
        pen.fillStyle = paints[`s-${span.state}`] ?? paints.dim;
        pen.fillRect(left, top + 4 + span.slot * SLOT, long, SLOT - 2);
        pen.globalAlpha = 1;
        if (span.critical || span === this.over) {
          pen.strokeStyle = span === this.over ? paints.accent : paints.ink;
          pen.lineWidth = 1.5;
          pen.strokeRect(left + 0.5, top + 4 + span.slot * SLOT + 0.5, long - 1, SLOT - 3);
        }
        this.name(pen, paints, span, left, long, top + 4 + span.slot * SLOT + (SLOT - 2) / 2 + 0.5);
      }
    }
    this.chainLine(pen, paints, chain, x);
    this.names(pen, paints, up, high);
    pen.restore();
  }

  /** The name in its bar: whole, or what tells it from others; beside it where that bar decides and is too short. */
  name(pen, paints, span, left, long, y) {
    const from = Math.max(left, this.labels) + 4, room = Math.floor((left + long - from - 4) / LETTER), own = within(span.node);
    pen.font = "9px ui-monospace, 'DejaVu Sans Mono', monospace";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    if (room >= 4) {
      pen.fillStyle = span.critical && span.state !== "satisfied" ? "#fff" : paints.ink; // the others are pale
      pen.fillText(span.node.length <= room ? span.node : shorten(own, room), from, y);
    } else if (span.critical || span === this.over) {
      pen.fillStyle = paints.ink;
      pen.fillText(shorten(own, 24), left + long + 3, y);
    }
  }

  chainLine(pen, paints, chain, x) {
    chain.sort((one, other) => one[0].started - other[0].started);
    pen.strokeStyle = paints.ink;
    pen.globalAlpha = 0.45;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let at = 1; at < chain.length; at++) {
      const [one, y1] = chain[at - 1], [other, y2] = chain[at];
      pen.moveTo(x(one.ended), y1 + SLOT / 2);
      pen.lineTo(x(other.started), y2 + SLOT / 2);
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  names(pen, paints, up, high) {
    pen.fillStyle = paints.panel;
    pen.fillRect(0, AXIS, this.labels - 4, high);
    pen.fillStyle = paints.ink;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (const lane of this.lanes) {
      const top = lane.y - up + AXIS;
      if (top + lane.high < AXIS || top > high) continue;
      pen.fillStyle = paints.line;
      pen.fillRect(0, top + lane.high - 1, this.labels, 1);
      pen.fillStyle = paints.ink;
      pen.fillText(shorten(lane.host, Math.floor(this.labels / 7.5)), 10, top + lane.high / 2);
    }
  }

  grid(pen, paints, scale, wide, high) {
    const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200];
    const step = steps.find((each) => each * scale >= 70) ?? 7200;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      const x = this.labels + (time - this.from) * scale;
      pen.fillStyle = paints.line;
      pen.fillRect(Math.round(x), AXIS - 5, 1, high);
      pen.fillStyle = paints.dim;
      pen.fillText(duration(Math.round(time * 1000) / 1000), x + 4, 12);
    }
  }
}
