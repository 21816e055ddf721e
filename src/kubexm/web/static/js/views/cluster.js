// One cluster: how it is, what can be done with it, what was done, and its spec.

import { address, get, part, post, putJson, remove, upload } from "../api.js";
import { h, put } from "../dom.js";
import { attempt, notice } from "../parts/notices.js";
import { button, offer, pipelines } from "../parts/offers.js";
import { ask, badge, bar, byCode, since, tick } from "../parts/pieces.js";
import { table } from "./tasks.js";
import { ACTIVE } from "../states.js";
import { age, count, moment } from "../words.js";

const LOOK = 2000;

export async function view({ name, session }) {
  const page = new ClusterPage(name, session.may("operator", name));
  await page.load(true);
  return page;
}

class ClusterPage {
  constructor(name, may) {
    this.name = this.title = name;
    this.path = `/clusters/${part(name)}`;
    this.may = may;
    this.head = h("div");
    this.missing = h("div");
    this.latest = h("section");
    this.tasks = h("section");
    this.plans = h("section");
    this.spec = h("section");
    this.hosts = h("section");
    this.about = h("section", { className: "card" });
    this.element = h("div", { className: "page" }, this.head, h("div", { className: "columns" },
      h("div", { className: "stack" }, this.missing, this.latest, this.tasks, this.spec), h("div", { className: "stack" }, this.about, this.plans, this.hosts)));
    this.timer = setInterval(() => { if (!document.hidden) this.load().catch(() => {}); }, LOOK);
  }

  close() { clearInterval(this.timer); }

  async load(first = false) {
    const [cluster, tasks, offers] = await Promise.all([get(this.path), get("/tasks", { cluster: this.name, limit: 12 }), pipelines()]);
    this.offers = offers.filter((each) => each.button);
    const key = JSON.stringify([cluster, tasks]);
    if (key === this.key) return tick(this.element);
    const version = this.cluster?.version;
    this.key = key;
    this.cluster = cluster;
    this.draw(tasks.items);
    if (first || version !== cluster.version) await this.showSpec();
    const [plans, facts] = await Promise.all([get(`${this.path}/plans`, { limit: 5 }), get(`${this.path}/facts`)]);
    this.drawPlans(plans.items);
    this.drawHosts(facts);
  }

  draw(tasks) {
    const { cluster } = this, busy = cluster.task && ACTIVE.has(cluster.task.state) && cluster.task.changes;
    const missing = [...(cluster.missing_secrets ?? []), ...(cluster.missing_files ?? [])].length > 0;
    put(this.head,
      h("p", { className: "crumbs" }, h("a", { href: "#/" }, "Clusters")),
      h("div", { className: "head" }, h("h1", {}, this.name),
        h("span", { className: `badge cluster-${cluster.state}` }, h("i", { "aria-hidden": "true" }, "●"), cluster.state),
        h("span", { className: "grow" }),
        this.may && h("div", { className: "row" },
          this.offers.map((each) => button(each, { exists: cluster.state !== "registered", disabled: missing, busy, onclick: () => this.offer(each) })))));
    put(this.missing, missing && this.may ? this.giveMissing() : missing ? h("p", { className: "trouble" }, "Its spec names secrets or files that nobody stored yet.") : null);
    this.drawLatest();
    put(this.tasks, h("h2", {}, "Tasks"), tasks.length ? table(tasks, { cluster: false }) : h("p", { className: "dim" }, "Nothing was asked for yet."));
    put(this.about, h("dl", { className: "facts" },
      ["State", cluster.state, "Spec", `version ${cluster.version}`].map((each, at) => h(at % 2 ? "dd" : "dt", {}, each)),
      h("dt", {}, "Age"), h("dd", { title: moment(cluster.created) }, age(cluster.created)),
      h("dt", {}, "By"), h("dd", {}, cluster.created_by),
      h("dt", {}, "Changed"), h("dd", {}, since(cluster.updated))),
    this.may && h("div", { className: "row", style: { marginTop: "14px" } },
      h("a", { className: "button small", href: `#/clusters/${this.name}/spec` }, "Edit spec"),
      cluster.state !== "registered" && h("a", { className: "button small", href: address(`${this.path}/kubeconfig`), download: `${this.name}.kubeconfig` }, "Kubeconfig"),
      h("button", { className: "small danger-quiet", disabled: busy, onclick: () => this.forget() }, "Forget")));
  }

  drawLatest() {
    const { task } = this.cluster;
    if (!task || !ACTIVE.has(task.state)) return put(this.latest);
    const progress = bar("Progress");
    progress.show(byCode(task.tally, task.units));
    put(this.latest, h("a", { className: "card cluster active", href: `#/tasks/${task.id}` },
      h("span", { className: "row" }, badge(task.state, `${task.pipeline || task.action} ${task.state}`), h("span", { className: "grow" }), since(task.started ?? task.created)), progress.element));
  }

  giveMissing() {
    const fields = new Map();
    const one = (name, file) => {
      const input = file ? h("input", { type: "file", id: `give-${name}` }) : h("textarea", { id: `give-${name}`, rows: 2, spellcheck: false, autocomplete: "off" });
      fields.set(name, [input, file]);
      return h("div", { className: "secret" }, h("label", { htmlFor: `give-${name}` }, file ? `File ${name}` : `Secret ${name}`), input);
    };
    const problem = h("div");
    return h("form", { className: "card stack", onsubmit: async (event) => {
      event.preventDefault();
      await attempt(async () => {
        for (const [name, [input, file]] of fields) {
          if (file && input.files[0]) await upload(`${this.path}/files/${part(name)}`, input.files[0]);
          else if (!file && input.value) await putJson(`${this.path}/secrets/${part(name)}`, { value: input.value });
        }
        this.key = "";
        await this.load();
      }, problem);
    } }, h("h2", {}, "The spec names what is not here yet"), this.cluster.missing_secrets.map((name) => one(name, false)), this.cluster.missing_files.map((name) => one(name, true)), problem, h("div", {}, h("button", { className: "primary" }, "Store")));
  }

  async showSpec() {
    const [spec, versions] = await Promise.all([get(`${this.path}/spec`), get(`${this.path}/specs`, { limit: 10 })]);
    put(this.spec, h("h2", {}, "Spec"), h("pre", { className: "text" }, spec.text),
      versions.items.length > 1 && h("details", { className: "card", style: { marginTop: "12px" } }, h("summary", {}, count(versions.items.length, "version")),
        versions.items.map((each) => h("div", { style: { marginTop: "12px" } },
          h("p", {}, h("b", {}, `${each.version} `), h("span", { className: "dim" }, each.created_by, " "), since(each.created), each.note && ` – ${each.note}`),
          edits(each.edits)))));
  }

  drawPlans(plans) {
    put(this.plans, h("h2", {}, "Plans"), plans.length
      ? h("ul", { className: "edits" }, plans.map((each) => h("li", {}, h("a", { href: `#/plans/${each.id}` }, each.pipeline), h("span", { className: "dim" }, ` ${count(each.nodes, "node")}, `), since(each.created))))
      : h("p", { className: "dim" }, "None yet."));
  }

  drawHosts(facts) {
    put(this.hosts, h("div", { className: "row", style: { marginBottom: "10px" } }, h("h2", {}, "Hosts"), h("span", { className: "grow" }), this.may && h("button", { className: "small", onclick: () => this.start("facts") }, "Ask them")),
      facts.length ? h("ul", { className: "edits" }, facts.map((each) => h("li", {}, h("b", {}, each.host), " ",
        each.error ? h("span", { className: "warning" }, each.error) : h("span", { className: "dim" }, [each.facts.os?.pretty_name ?? each.facts.os?.id, each.facts.kernel, each.facts.cpus && count(each.facts.cpus, "CPU")].filter((word) => typeof word === "string").join(", ")))))
        : h("p", { className: "dim" }, "Nobody asked them yet."));
  }

  async start(what, body) {
    await attempt(async () => {
      const task = await post(`${this.path}/${what}`, body);
      location.hash = `#/tasks/${task.id}`;
    });
  }

  async offer(pipeline) {
    await attempt(async () => {
      const next = await offer(pipeline, this.name);
      if (next) location.hash = next;
    });
  }

  async forget() {
    const { state } = this.cluster;
    const values = await ask({
      title: `Forget ${this.name}?`,
      words: h("p", {}, "The server forgets its specs, secrets and files. On its hosts nothing changes."),
      fields: state === "registered" ? [] : [h("label", { className: "check" }, h("input", { type: "checkbox", name: "force" }), "though it still exists on its hosts")],
      doIt: "Forget it", danger: true,
    });
    if (!values) return;
    await attempt(async () => {
      await remove(this.path, { force: values.has("force") || undefined });
      notice(`${this.name} is forgotten.`);
      location.hash = "#/";
    });
  }
}

/** What an edit of a spec comes to. */
export function edits(list) {
  const value = (each) => (each === null || each === undefined ? "–" : typeof each === "object" ? JSON.stringify(each) : String(each));
  return h("ul", { className: "edits" }, list.map((each) => h("li", {}, h("span", { className: `kind ${each.kind}` }, each.kind), h("code", {}, each.path), each.kind === "live" || each.kind === "fixed" || each.kind === "upgrade" ? `: ${value(each.old)} → ${value(each.new)}` : "", each.note && h("span", { className: "dim" }, ` ${each.note}`))));
}
