// A cluster from a cluster.yaml, or a further version of its spec: checked as one types, problems marked at their lines.

import { get, part, post, putJson } from "../api.js";
import { h, later, prose, put } from "../dom.js";
import { Editor } from "../parts/editor.js";
import { attempt, notice, trouble } from "../parts/notices.js";
import { count } from "../words.js";
import { edits } from "./cluster.js";

const START = `apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata:
  name: demo
spec:
  global:
    user: root
    privateKey: secret:key        # stored with the cluster, and never shown again
  hosts:
    - {name: n1, address: 192.0.2.11}
    - {name: n2, address: 192.0.2.12}
  roleGroups:
    etcd: [n1]
    controlPlane: [n1]
    worker: [n1, n2]
`;

export async function view({ name }) {
  const before = name ? await get(`/clusters/${part(name)}/spec`) : null;
  const bundles = await get("/bundles").catch(() => []);
  return new SpecPage(name, before, bundles);
}

class SpecPage {
  constructor(name, before, bundles) {
    this.name = name;
    this.before = before;
    this.title = name ? `Edit ${name}` : "New cluster";
    this.bundles = new Set(bundles.map((each) => each.name));
    this.given = new Map();
    this.check = later(350, () => this.validate());
    this.editor = new Editor({ value: before?.text ?? START, changed: () => { this.state.textContent = "checking …"; this.check(); } });
    this.state = h("p", { role: "status", "aria-live": "polite" });
    this.problems = h("ul", { className: "problems" });
    this.edits = h("section");
    this.wants = h("section", { className: "stack" });
    this.trouble = h("div");
    this.file = h("input", { type: "file", accept: ".yaml,.yml,.json,text/yaml", hidden: true, onchange: async () => { if (this.file.files[0]) this.editor.value = await this.file.files[0].text(); this.file.value = ""; } });
    this.note = h("input", { id: "note", placeholder: name ? "What changes, and why" : "What it is for", maxLength: 200 });
    this.button = h("button", { className: "primary", disabled: true }, name ? "Keep this version" : "Register");
    this.element = h("form", { className: "page", onsubmit: (event) => { event.preventDefault(); this.save(); } },
      h("p", { className: "crumbs" }, h("a", { href: "#/" }, "Clusters"), name && [" / ", h("a", { href: `#/clusters/${name}` }, name)]),
      h("div", { className: "head" }, h("h1", {}, this.title), h("span", { className: "grow" }),
        h("button", { type: "button", onclick: () => this.file.click() }, "Open a cluster.yaml …"), this.file),
      h("div", { className: "columns" },
        h("div", { className: "stack" }, this.editor.element),
        h("div", { className: "stack" }, this.state, this.problems, this.edits, this.wants,
          bundles.length ? h("section", {}, h("h2", {}, "Bundles on the server"), h("ul", { className: "edits" }, bundles.map((each) => h("li", {}, h("code", {}, each.name))))) : null,
          h("div", { className: "secret" }, h("label", { htmlFor: "note" }, "Note"), this.note),
          this.trouble, h("div", { className: "row" }, this.button, h("span", { className: "dim" }, "Nothing happens on any host.")))));
    this.validate();
  }

  close() { this.check.cancel(); }

  async validate() {
    const text = this.editor.value;
    let found;
    try {
      found = await post("/validate", { spec: text });
    } catch (error) {
      return put(this.problems, h("li", {}, trouble(error)));
    }
    if (text !== this.editor.value) return;
    const renamed = this.name && found.valid && found.name !== this.name, taken = !this.name && found.exists, wrongName = renamed || taken;
    const about = { severity: "error", line: lineOf(text, found.name), column: 1, path: "metadata.name" };
    const problems = [...found.problems];
    if (renamed) problems.push({ ...about, message: `this is the spec of ${this.name}, and metadata.name says ${found.name}`, hint: "register another cluster instead" });
    if (taken) problems.push({ ...about, message: `there is a cluster ${found.name} already`, hint: "choose another name, or edit the spec of that cluster" });
    this.editor.mark(problems);
    this.button.disabled = !found.valid || wrongName || (this.before && text === this.before.text);
    const errors = problems.filter((each) => each.severity === "error").length;
    put(this.state, errors ? h("b", { className: "warning" }, count(errors, "problem")) : h("span", { className: "ok" }, `✓ ${found.name} is valid`));
    put(this.problems, problems.map((each) => h("li", { className: each.severity }, h("button", { type: "button", onclick: () => each.line && this.editor.go(each.line, each.column) },
      h("span", { className: "where" }, each.line ? `Line ${each.line}` : each.severity), h("span", {}, each.path && h("code", {}, `${each.path} `), prose(each.message)), each.hint && h("span", { className: "hint" }, prose(each.hint))))));
    put(this.edits, found.edits.length && !taken ? [h("h2", {}, "What this edit comes to"), edits(found.edits)] : null);
    if (!this.name) this.ask(found.secrets ?? [], (found.files ?? []).filter((each) => !this.bundles.has(each)));
  }

  /** Fields for the secrets and files the spec names; what was typed stays. */
  ask(secrets, files) {
    const key = JSON.stringify([secrets, files]);
    if (key === this.asked) return;
    this.asked = key;
    const field = (name, file) => {
      if (!this.given.has(name)) this.given.set(name, file ? h("input", { type: "file" }) : h("textarea", { rows: 2, spellcheck: false, autocomplete: "off", placeholder: "a password, or a private key with its lines" }));
      const input = this.given.get(name);
      input.id = `secret-${name}`;
      return h("div", { className: "secret" }, h("label", { htmlFor: input.id }, file ? `File ${name}` : `Secret ${name}`), input);
    };
    this.named = { secrets, files };
    put(this.wants, secrets.length || files.length ? h("h2", {}, "What it names") : null, secrets.map((name) => field(name, false)), files.map((name) => field(name, true)));
  }

  async save() {
    this.button.disabled = true;
    const done = await attempt(async () => {
      if (this.name) await putJson(`/clusters/${part(this.name)}/spec`, { spec: this.editor.value, note: this.note.value, version: this.before.version });
      const made = this.name ? { name: this.name } : await post("/clusters", { spec: this.editor.value, note: this.note.value, ...(await this.content()) });
      notice(this.name ? "The new version is kept." : `${made.name} is registered.`, "good");
      location.hash = `#/clusters/${made.name}`;
    }, this.trouble);
    if (!done) this.button.disabled = false;
  }

  async content() {
    const secrets = {}, files = {};
    for (const name of this.named?.secrets ?? []) if (this.given.get(name).value) secrets[name] = keyed(this.given.get(name).value);
    for (const name of this.named?.files ?? []) if (this.given.get(name).files[0]) files[name] = await base64(this.given.get(name).files[0]);
    return { secrets, files };
  }
}

/** The line of metadata.name, as well as it can be told from the text. */
const lineOf = (text, name) => text.split("\n").findIndex((line) => /\bname:/.test(line) && line.includes(name)) + 1;

/** A private key ends with a newline, whatever the clipboard thought of it. */
const keyed = (value) => (value.startsWith("-----BEGIN") && !value.endsWith("\n") ? `${value}\n` : value);

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
