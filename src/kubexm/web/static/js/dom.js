// Elements from plain calls. Text only ever becomes text nodes: nothing a host or a spec says is taken for markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in element && !(element instanceof SVGElement) && !name.startsWith("aria") && name !== "list") element[name] = value;
    else element.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** An HTML element: h("p", {className: "x", onclick}, "text", other). */
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** An SVG element. */
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Puts other children in the place of an element's own. */
export function put(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Calls a function at most once for each frame, however often it is asked for. */
export function eachFrame(work) {
  let asked = 0;
  const wake = () => {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; work(); });
  };
  wake.cancel = () => cancelAnimationFrame(asked);
  return wake;
}

/** Calls a function once it was not asked for again for so long. */
export function later(milliseconds, work) {
  let timer = 0;
  const wake = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), milliseconds);
  };
  wake.cancel = () => clearTimeout(timer);
  return wake;
}

/** Words in which `this` is meant as code. */
export const prose = (words) => String(words ?? "").split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

let probe;
/** The colour a custom property stands for right now, as a canvas can take it. */
export function colour(name) {
  const found = getComputedStyle(document.documentElement);
  probe ??= document.body.appendChild(h("i", { hidden: true }));
  probe.style.color = found.getPropertyValue(name);
  return getComputedStyle(probe).color;
}
