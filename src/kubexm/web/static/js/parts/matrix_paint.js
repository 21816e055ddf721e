// How a matrix looks: what of it is in sight, painted. The matrix says what rows, columns and sizes there are.

import { colour } from "../dom.js";
import { CODE, GLYPH, UNIT } from "../states.js";
import { count, shorten, within } from "../words.js";

export class MatrixPaint {
  colours() {
    const states = UNIT.map((state) => (state === "absent" ? "transparent" : colour(`--s-${state}`)));
    return { states, ...Object.fromEntries(["ink", "dim", "line", "panel", "raised", "accent"].map((name) => [name, colour(`--${name}`)])) };
  }

  paint() {
    const { model, view, size, labels, top } = this;
    if (!model.graph || !view.clientWidth) return;
    const paints = (this.paints ??= this.colours());
    const pen = this.canvas.getContext("2d"), dots = window.devicePixelRatio || 1;
    const wide = view.clientWidth, high = view.clientHeight, left = view.scrollLeft, up = view.scrollTop;
    this.canvas.style.transform = `translate(${left}px, ${up}px)`;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.fillStyle = paints.panel;
    pen.fillRect(0, 0, wide, high);
    const first = Math.max(0, Math.floor(left / size)), last = Math.min(this.columns.length, Math.ceil((left + wide - labels) / size));
    pen.save();
    pen.beginPath();
    pen.rect(0, top, wide, high - top);
    pen.clip();
    const root = new Set(model.failures.map((each) => `${each.node} ${each.host}`));
    for (const row of this.rows) {
      const y = row.y - up + top;
      if (y + row.tall < top || y > high) continue;
      if (row.module) this.paintModule(pen, paints, row, y, first, last, left);
      else this.paintRow(pen, paints, row, y, first, last, left, root);
    }
    pen.restore();
    this.paintHosts(pen, paints, first, last, left, wide);
  }

  paintModule(pen, paints, row, y, first, last, left) {
    pen.fillStyle = paints.raised;
    pen.fillRect(0, y, this.view.clientWidth, row.tall);
    pen.fillStyle = paints.line;
    pen.fillRect(0, y, this.view.clientWidth, 1);
    const folded = this.closed.has(row.module) && !this.filter;
    if (folded) {
      const all = this.model.graph.hosts.length, gap = this.size > 5 ? 1 : 0;
      for (let at = first; at < last; at++) {
        let worst = 0, pending = false, done = false;
        for (const node of row.nodes) {
          const code = this.model.cells[node * all + this.columns[at]];
          if (code === CODE.pending) pending = true;
          else if (code === CODE.running || code >= CODE.cancelled) worst = Math.max(worst, code === CODE.running && worst ? worst : code);
          else if (code) done = true;
        }
        const code = worst || (pending ? CODE.pending : done ? CODE.succeeded : 0);
        if (!code) continue;
        pen.fillStyle = paints.states[code];
        pen.fillRect(this.labels + at * this.size - left, y + 6, this.size - gap, row.tall - 11);
        if (!worst && pending && done) {
          pen.fillStyle = paints.states[CODE.succeeded];
          pen.fillRect(this.labels + at * this.size - left, y + 6, (this.size - gap) / 2, row.tall - 11);
        }
      }
    }
    pen.fillStyle = paints.raised;
    pen.fillRect(0, y + 1, this.labels - 6, row.tall - 1);
    pen.fillStyle = paints.ink;
    pen.font = "650 12.5px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillText(`${folded ? "▸" : "▾"} ${row.module}`, 10, y + row.tall / 2 + 1);
    pen.fillStyle = paints.dim;
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.fillText(String(row.nodes.length), this.labels - 14, y + row.tall / 2 + 1);
  }

  paintRow(pen, paints, row, y, first, last, left, root) {
    const { graph, cells } = this.model, all = graph.hosts.length, { size, labels } = this;
    const gap = size > 5 ? 1 : 0, tall = Math.max(row.tall - (row.tall > 5 ? 1 : 0), 1), words = row.tall >= 11;
    const lit = this.over?.row === row;
    if (lit) {
      pen.fillStyle = paints.raised;
      pen.fillRect(0, y, this.view.clientWidth, row.tall);
    }
    for (let at = first; at < last; at++) {
      const host = this.columns[at], code = cells[row.node * all + host];
      if (!code) continue;
      const x = labels + at * size - left;
      pen.fillStyle = paints.states[code];
      pen.fillRect(x, y, size - gap, tall);
      if (size >= 14 && tall >= 11) {
        pen.fillStyle = code === CODE.pending || code === CODE.excluded ? paints.dim : code === CODE.satisfied || code === CODE.blocked ? paints.ink : "#fff";
        pen.font = "10.5px system-ui, sans-serif";
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        if (code !== CODE.pending) pen.fillText(GLYPH[UNIT[code]], x + (size - gap) / 2, y + tall / 2 + 0.5);
      }
      if (code >= CODE.interrupted && root.has(`${graph.nodes[row.node].id} ${graph.hosts[host]}`) && size > 3) {
        pen.strokeStyle = paints.ink;
        pen.lineWidth = size > 8 ? 2 : 1;
        pen.strokeRect(x + 0.5, y + 0.5, size - gap - 1, tall - 1);
      }
      const cursor = this.cursor && this.cursor.node === row.node && this.cursor.host === host;
      if (cursor || (lit && this.over.host === host)) {
        pen.strokeStyle = cursor ? paints.accent : paints.dim;
        pen.lineWidth = 2;
        pen.strokeRect(x - 0.5, y - 0.5, size - gap + 1, tall + 1);
      }
    }
    pen.fillStyle = lit ? paints.raised : paints.panel;
    pen.fillRect(0, y, labels - 6, row.tall);
    if (!words) return;
    pen.fillStyle = lit ? paints.ink : paints.dim;
    pen.font = "12px ui-monospace, 'DejaVu Sans Mono', monospace";
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(shorten(within(graph.nodes[row.node].id), Math.floor((labels - 34) / 7.3)), 22, y + row.tall / 2);
  }

  paintHosts(pen, paints, first, last, left, wide) {
    const { size, labels, top, model } = this;
    pen.fillStyle = paints.panel;
    pen.fillRect(0, 0, wide, top);
    pen.fillStyle = paints.dim;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.save();
    pen.beginPath();
    pen.rect(labels, 0, wide - labels, top);
    pen.clip();
    for (let at = first; at < last; at++) {
      const host = model.graph.hosts[this.columns[at]], x = labels + at * size - left;
      const lit = this.over?.host === this.columns[at] || this.cursor?.host === this.columns[at];
      pen.fillStyle = model.lost.has(host) ? paints.states[CODE.failed] : lit ? paints.ink : paints.dim;
      if (size >= 60) {
        pen.textAlign = "center";
        pen.fillText(shorten(host, Math.floor(size / 7)), x + size / 2, top - 13);
      } else if (size >= 9) {
        pen.save();
        pen.translate(x + size / 2, top - 6);
        pen.rotate(-Math.PI / 2.6);
        pen.textAlign = "left";
        pen.fillText(shorten(host, 13), 0, 0);
        pen.restore();
      } else if (at % Math.ceil(90 / size) === 0) {
        pen.textAlign = "left";
        pen.fillText(shorten(host, 12), x, top - 13);
        pen.fillRect(x, top - 5, 1, 5);
      }
    }
    pen.restore();
    pen.fillStyle = paints.panel;
    pen.fillRect(0, 0, labels, top);
    pen.fillStyle = paints.dim;
    pen.textAlign = "left";
    pen.fillText(`${count(this.rows.filter((row) => row.node !== undefined).length, "node")} × ${count(this.columns.length, "host")}`, 10, top - 13);
    pen.fillStyle = paints.line;
    pen.fillRect(0, top - 1, wide, 1);
  }
}
