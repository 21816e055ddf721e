// All clusters: how each is, how old, and what is going on with it.

import { all } from "../api.js";
import { h, put } from "../dom.js";
import { badge, bar, byCode, since, tick } from "../parts/pieces.js";
import { ACTIVE } from "../states.js";
import { age, count, moment } from "../words.js";

const LOOK = 3000;
const STATES = {
  registered: "known here; nothing was done on its hosts yet",
  up: "as its spec says",
  partial: "up, except for hosts that were lost",
  incomplete: "the last task that changed it did not finish",
};

export async function view({ session }) {
  const list = h("div", { className: "cards" });
  const sought = h("input", { type: "search", placeholder: "Find a cluster", "aria-label": "Find a cluster", oninput: () => draw() });
  const summary = h("p", { className: "sub" });
  let clusters = await all("/clusters");
  let before = "";

  function draw() {
    const words = sought.value.trim().toLowerCase();
    const shown = clusters.filter((each) => each.name.includes(words));
    const going = clusters.filter((each) => each.task && ACTIVE.has(each.task.state)).length;
    summary.textContent = [count(clusters.length, "cluster"), going && `${going} being worked on`].filter(Boolean).join(", ");
    const key = JSON.stringify(shown);
    if (key === before) return tick(list);
    before = key;
    put(list, shown.map(card));
    if (!clusters.length) put(list, empty(session));
    else if (!shown.length) put(list, h("p", { className: "empty" }, "No cluster is called so."));
  }

  draw();
  const timer = setInterval(async () => {
    if (document.hidden) return;
    clusters = await all("/clusters").catch(() => clusters);
    draw();
  }, LOOK);
  return {
    title: "Clusters",
    close: () => clearInterval(timer),
    element: h("div", { className: "page" },
      h("div", { className: "head" },
        h("div", {}, h("h1", {}, "Clusters"), summary),
        h("span", { className: "grow" }),
        sought,
        session.mayAnywhere("operator") && h("a", { className: "button primary", href: "#/new" }, "New cluster")),
      list),
  };
}

function card(cluster) {
  const { task } = cluster;
  const active = task && ACTIVE.has(task.state);
  const progress = bar(`Progress of ${cluster.name}`);
  if (task?.units) progress.show(byCode(task.tally, task.units));
  return h("article", { className: `card cluster${active ? " active" : ""}` },
    h("h2", {}, h("a", { href: `#/clusters/${cluster.name}` }, cluster.name)),
    h("p", { className: "row" },
      h("span", { className: `badge cluster-${cluster.state}`, title: STATES[cluster.state] ?? "" }, h("i", { "aria-hidden": "true" }, "●"), cluster.state),
      h("span", { className: "dim", title: moment(cluster.created) }, `${age(cluster.created)} old`),
      h("span", { className: "dim" }, `spec ${cluster.version}`)),
    task
      ? h("a", { className: "latest", href: `#/tasks/${task.id}` },
        h("span", { className: "row" }, badge(task.state, `${task.pipeline || task.action}${task.dry_run ? " (dry run)" : ""} ${task.state}`), h("span", { className: "grow" }), since(task.ended ?? task.started ?? task.created)),
        task.units ? progress.element : null)
      : h("p", { className: "latest dim" }, "Nothing was done yet."));
}

function empty(session) {
  return h("div", { className: "card welcome" },
    h("h2", {}, "No cluster yet"),
    h("p", {}, session.mayAnywhere("operator")
      ? "Start from a cluster.yaml: it is checked as you type, and nothing happens on any host before you have seen the plan."
      : "None that you may see. Ask an administrator for a role on one."),
    session.mayAnywhere("operator") && h("a", { className: "button primary", href: "#/new" }, "New cluster"));
}
