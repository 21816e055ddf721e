// A plan before anything is done: its graph, what differs from the last one, and the button that carries it out.

import { get, part, post, text } from "../api.js";
import { h, put } from "../dom.js";
import { Graph } from "../parts/graph.js";
import { attempt } from "../parts/notices.js";
import { pipelines } from "../parts/offers.js";
import { diff } from "../parts/pane.js";
import { ask, since } from "../parts/pieces.js";
import { count, idParts } from "../words.js";

export async function view({ plan, session }) {
  const path = `/plans/${part(plan)}`;
  const [about, outline] = await Promise.all([get(path), get(`${path}/outline`)]);
  const others = (await get(`/clusters/${part(about.cluster)}/plans`, { limit: 20 })).items.filter((each) => each.id !== plan && each.pipeline === about.pipeline && each.created < about.created);
  return new PlanPage(path, about, outline, others, session.may("operator", about.cluster));
}

class PlanPage {
  constructor(path, about, outline, others, may) {
    this.path = path;
    this.about = about;
    this.others = others;
    this.title = `Plan ${about.pipeline} ${about.cluster}`;
    const nodes = outline.nodes.map((node, at) => ({ ...node, ...idParts(node.id), at }));
    const graph = { nodes, links: outline.links, modules: [...new Set(nodes.map((node) => node.module))], nodeAt: new Map(nodes.map((node) => [node.id, node.at])) };
    this.detail = h("aside", { className: "pane", hidden: true, "aria-label": "Details" });
    this.graph = new Graph({ graph, failures: [] }, { open: (node) => this.show(node), live: false });
    this.nodes = nodes;
    this.tree = h("pre", { className: "text tree" });
    this.diff = h("div", { className: "plan-diff" });
    this.place = h("div", { className: "tab-place", role: "tabpanel" });
    this.tabs = [["graph", "Graph", this.graph.element], ["list", "List", h("div", { className: "padded" }, this.tree)], ["diff", "Changes since the last plan", h("div", { className: "padded" }, this.diff)]];
    this.tablist = h("div", { className: "tabs", role: "tablist" }, this.tabs.map(([name, label]) => h("button", { role: "tab", id: `tab-${name}`, onclick: () => this.choose(name) }, label)));
    const left = nodes.filter((node) => node.excluded).length;
    this.element = h("div", { className: "task" },
      h("div", { className: "task-top" }, h("div", { className: "task-head" },
        h("div", { className: "task-name" }, h("p", { className: "crumbs" }, h("a", { href: `#/clusters/${about.cluster}` }, about.cluster), " / plan ", h("span", { className: "mono" }, about.id)), h("h1", {}, `Plan: ${about.pipeline}`)),
        h("div", { className: "figures" }, figure("Nodes", `${about.nodes}${left ? `, ${left} left out` : ""}`), figure("Hosts", outline.hosts), figure("Units", about.units), figure("Made", since(about.created)), figure("Spec", `version ${about.spec_version}`), about.offline && figure("Hosts", "not asked")),
        may && h("div", { className: "row buttons" },
          h("button", { title: "Ask every host what would change, and change nothing", onclick: () => this.apply(true) }, "Dry run"),
          h("button", { className: "primary", onclick: () => this.apply(false) }, about.changes ? "Carry it out" : "Run it")))),
      h("div", { className: "task-body" }, h("div", { className: "task-main" }, this.tablist, this.place), this.detail));
  }

  shown() {
    this.choose("graph");
    this.graph.ready();
    text(`${this.path}/graph`, { format: "tree" }).then((words) => { this.tree.textContent = words; }, () => {});
    this.compare();
  }

  close() { this.graph.close(); }

  key(event) {
    if (event.key === "Escape" && !this.detail.hidden) this.detail.hidden = true;
    else if (/^[1-3]$/.test(event.key)) this.choose(this.tabs[Number(event.key) - 1][0]);
    else return this.graph.key(event);
    return true;
  }

  choose(name) {
    for (const each of this.tablist.children) each.setAttribute("aria-selected", String(each.id === `tab-${name}`));
    put(this.place, this.tabs.find(([each]) => each === name)[2]);
  }

  async compare(against = this.others[0]?.id) {
    if (!against) return put(this.diff, h("p", { className: "empty" }, "There is no earlier plan to compare with. A dry run says what would change on each host."));
    const choice = h("select", { "aria-label": "Compare with", onchange: () => this.compare(choice.value) }, this.others.map((each) => h("option", { value: each.id, selected: each.id === against }, `${each.id} (spec ${each.spec_version})`)));
    const words = await text(`${this.path}/diff`, { against, format: "tree" }).catch((error) => error.message);
    put(this.diff, h("p", { className: "row" }, "Compared with ", choice), diff(words));
  }

  async show(id) {
    const node = this.nodes.find((each) => each.id === id);
    this.detail.hidden = false;
    this.whole ??= get(`${this.path}/graph`);
    put(this.detail, h("p", { className: "dim" }, "Loading …"));
    const found = (await this.whole).nodes.find((each) => each.id === id);
    put(this.detail,
      h("div", { className: "pane-head" }, h("div", {}, h("h2", { className: "mono" }, id), h("p", { className: "dim" }, node.does)), h("button", { className: "quiet icon", "aria-label": "Close (Esc)", onclick: () => { this.detail.hidden = true; } }, "×")),
      node.excluded && h("p", { className: "warning" }, `Left out: ${node.excluded}`),
      h("dl", { className: "facts" },
        row("Step", h("code", {}, found.step.kind.split(".").at(-1))), row(count(found.hosts.length, "host"), found.hosts.slice(0, 60).join(", ") + (found.hosts.length > 60 ? " …" : "")),
        row("After", found.after.join(", ")), row("After, on the same host", found.after_same_host.join(", ")),
        row("Provides", found.provides.join(", ")), row("Needs", found.needs.join(", ")), row("Can be undone", found.reversible ? "yes" : "no")),
      h("h3", {}, "Fields"), h("pre", { className: "text" }, JSON.stringify(found.step.fields, null, 2).replaceAll("\\n", "\n    ")));
  }

  async apply(dry) {
    const { about } = this;
    if (!dry && about.changes) {
      const danger = (await pipelines()).some((each) => each.name === about.pipeline && each.confirms);
      const sure = await ask({ title: `Carry out this plan on ${about.cluster}?`, words: h("p", {}, `${count(about.units, "unit")} of work on its hosts. It can be cancelled, and resumed, at any time.`), doIt: "Carry it out", danger });
      if (!sure) return;
    }
    await attempt(async () => {
      const task = await post(`${this.path}/apply`, dry ? { dry_run: true } : {});
      location.hash = `#/tasks/${task.id}`;
    });
  }
}

const figure = (label, value) => h("div", { className: "figure" }, h("span", { className: "label" }, label), h("span", { className: "number" }, value));
const row = (label, value) => (value ? [h("dt", {}, label), h("dd", {}, value)] : null);
