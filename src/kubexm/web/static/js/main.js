// The shell: who is logged in, which view is shown, what is always at hand.

import { Session, onLost } from "./api.js";
import { h, put } from "./dom.js";
import { help, keys } from "./keys.js";
import { notice, trouble } from "./parts/notices.js";
import { themeButton } from "./parts/theme.js";

const VIEWS = [
  [/^\/?$/, "clusters", []],
  [/^\/tasks$/, "tasks", []],
  [/^\/new$/, "spec", []],
  [/^\/clusters\/([^/]+)$/, "cluster", ["name"]],
  [/^\/clusters\/([^/]+)\/spec$/, "spec", ["name"]],
  [/^\/plans\/([^/]+)$/, "plan", ["plan"]],
  [/^\/tasks\/([^/]+)$/, "task", ["task"]],
];
const LOADERS = {
  clusters: () => import("./views/clusters.js"),
  tasks: () => import("./views/tasks.js"),
  spec: () => import("./views/spec.js"),
  cluster: () => import("./views/cluster.js"),
  plan: () => import("./views/plan.js"),
  task: () => import("./views/task.js"),
  login: () => import("./views/login.js"),
};

const top = document.getElementById("top");
const main = document.getElementById("main");
let session = null;
let shown = null;
let turn = 0;
const PATIENCE = 120; // milliseconds

/** The place in the address: its path and its words. */
export function place() {
  const [path, words = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/", words: new URLSearchParams(words) };
}

async function show() {
  const mine = ++turn;
  const { path, words } = place();
  shown?.close?.();
  shown = null;
  bar(path);
  const waiting = setTimeout(() => loading(mine), PATIENCE);
  try {
    const [name, params] = session ? find(path) : ["login", {}];
    if (!name) throw Object.assign(new Error("there is no such page"), { hint: "go back to the list of clusters" });
    const { view } = await LOADERS[name]();
    const made = await view({ ...params, words, session, entered });
    if (mine !== turn) return made.close?.();
    shown = made;
    document.title = made.title ? `${made.title} – kubexm` : "kubexm";
    main.removeAttribute("aria-busy");
    put(main, made.element);
    window.scrollTo(0, 0);
    (made.element.querySelector("[autofocus]") ?? main).focus({ preventScroll: true });
    made.shown?.();
  } catch (error) {
    if (mine !== turn) return;
    main.removeAttribute("aria-busy");
    document.title = "kubexm";
    put(main, h("div", { className: "narrow" }, trouble(error), h("p", {}, h("a", { href: "#/" }, "All clusters"))));
  } finally {
    clearTimeout(waiting);
  }
}

/** What stood here belongs to another address: it goes as soon as its successor takes long. */
function loading(mine) {
  if (mine !== turn) return;
  main.setAttribute("aria-busy", "true");
  document.title = "Loading – kubexm";
  put(main, h("p", { className: "loading", role: "status" }, h("i", { "aria-hidden": "true" }), "Loading …"));
}

function find(path) {
  for (const [pattern, name, names] of VIEWS) {
    const match = pattern.exec(path);
    if (match) return [name, Object.fromEntries(names.map((each, at) => [each, decodeURIComponent(match[at + 1])]))];
  }
  return [null, {}];
}

function bar(path) {
  const link = (href, words, on) => h("a", { href: `#${href}`, "aria-current": on ? "page" : undefined }, words);
  put(
    top,
    h("a", { className: "brand", href: "#/", "aria-label": "kubexm, all clusters" },
      h("img", { src: "/icon.svg", alt: "", width: 26, height: 26 }), h("span", {}, "kubexm")),
    session && h("nav", { "aria-label": "Main" },
      link("/", "Clusters", path === "/" || path.startsWith("/clusters")),
      link("/tasks", "Tasks", path.startsWith("/tasks"))),
    h("span", { className: "grow" }),
    session && h("button", { className: "quiet icon keys", title: "Keys (?)", "aria-label": "Keyboard shortcuts", onclick: help }, "?"),
    themeButton(),
    session && h("span", { className: "who", title: `Role: ${session.role === "none" ? "on some clusters" : session.role}` }, session.name),
    session && h("button", { className: "quiet", onclick: leave }, "Log out"),
  );
}

async function leave() {
  await session.close().catch(() => {});
  session = null;
  location.hash = "#/";
  await show();
}

async function entered(found) {
  session = found;
  await show();
}

onLost(() => {
  if (!session) return;
  session = null;
  notice("The session has ended: log in again.", "warn");
  show();
});

window.addEventListener("hashchange", show);
keys({ clusters: () => { location.hash = "#/"; }, tasks: () => { location.hash = "#/tasks"; }, pass: (key) => shown?.key?.(key) });
try {
  session = await Session.current();
} catch {
  session = null; // then one logs in
}
await show();
