// A text area for YAML with line numbers, a little colour, and problems marked at their lines.

import { eachFrame, h, put } from "../dom.js";

export class Editor {
  constructor({ value = "", changed }) {
    this.marks = new Map();
    this.changed = changed;
    this.gutter = h("div", { className: "gutter", "aria-hidden": "true" });
    this.back = h("pre", { "aria-hidden": "true" });
    this.area = h("textarea", {
      id: "spec", name: "spec", spellcheck: false, autocapitalize: "off", autocomplete: "off", wrap: "off", value, "aria-label": "cluster.yaml",
      oninput: () => { this.draw(); this.changed(); }, onscroll: () => this.scroll(), onkeydown: (event) => this.key(event),
    });
    this.element = h("div", { className: "editor" }, this.gutter, h("div", { className: "paper" }, this.back, this.area));
    this.draw = eachFrame(() => this.paint());
    this.paint();
  }

  get value() { return this.area.value; }
  set value(words) { this.area.value = words; this.paint(); this.changed(); }

  /** Problems as REST tells them: [{line, severity, message, hint}]. */
  mark(problems) {
    this.marks.clear();
    for (const each of problems) if (each.line && this.marks.get(each.line)?.severity !== "error") this.marks.set(each.line, each);
    this.paint();
  }

  /** Puts the caret where a problem is. */
  go(line, column = 1) {
    const lines = this.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + Math.max(0, column - 1);
    this.area.focus();
    this.area.setSelectionRange(at, at);
    this.area.scrollTop = Math.max(0, (line - 6) * 21);
    this.scroll();
  }

  key(event) {
    if (event.key !== "Tab" || event.shiftKey || event.ctrlKey) return;
    if (!this.area.value) return; // an empty one lets the keyboard pass
    event.preventDefault();
    this.area.setRangeText("  ", this.area.selectionStart, this.area.selectionEnd, "end");
    this.area.dispatchEvent(new Event("input"));
  }

  scroll() {
    this.gutter.scrollTop = this.area.scrollTop;
    this.back.scrollTop = this.area.scrollTop;
    this.back.scrollLeft = this.area.scrollLeft;
  }

  paint() {
    const lines = this.area.value.split("\n");
    put(this.gutter, lines.map((_, at) => h("i", { className: this.marks.get(at + 1)?.severity ?? "", title: this.marks.get(at + 1)?.message ?? "" }, String(at + 1))), h("i", {}, " "));
    put(this.back, lines.map((line, at) => h("span", { className: `line ${this.marks.get(at + 1)?.severity ?? ""}` }, coloured(line), "\n")));
    this.scroll();
  }
}

const PARTS = /(?<comment>(?:^|\s)#.*$)|(?<string>"(?:[^"\\]|\\.)*"|'[^']*')|(?<key>[\w./*-]+(?=\s*:(?:\s|$|\{|\[)))/g;

function coloured(line) {
  const found = [];
  let from = 0;
  for (const match of line.matchAll(PARTS)) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    found.push(line.slice(from, match.index), h("span", { className: `y-${kind}` }, match[0]));
    from = match.index + match[0].length;
  }
  found.push(line.slice(from));
  return found;
}
