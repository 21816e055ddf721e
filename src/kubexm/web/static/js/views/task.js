// A task, live: how far it is, what it does, what failed and why; stopping and resuming it.

import { part, post } from "../api.js";
import { h, put } from "../dom.js";
import { TaskModel } from "../model.js";
import { Cost } from "../parts/cost.js";
import { Failures } from "../parts/failures.js";
import { Graph } from "../parts/graph.js";
import { Logs } from "../parts/logs.js";
import { Matrix } from "../parts/matrix.js";
import { attempt, notice } from "../parts/notices.js";
import { Pane } from "../parts/pane.js";
import { ask, badge, bar, since } from "../parts/pieces.js";
import { Steps } from "../parts/steps.js";
import { Timeline } from "../parts/timeline.js";
import { earlier, remaining } from "../remaining.js";
import { CODE } from "../states.js";
import { clock, count, duration, moment } from "../words.js";

const SOME = 8; // hosts that are named
const TABS = [["graph", "Graph", Graph], ["matrix", "Matrix", Matrix], ["timeline", "Timeline", Timeline], ["steps", "Steps", Steps], ["logs", "Logs", Logs]];

export async function view({ task, words, session }) {
  const model = new TaskModel(task);
  await model.open();
  const page = new TaskPage(model, words, session);
  page.begin();
  return page;
}

class TaskPage {
  constructor(model, words, session) {
    this.model = model;
    this.may = session.may("operator", model.task.cluster);
    const open = (node, host, sought) => this.pane.show(node, host, sought);
    this.pane = new Pane(model, { open, moved: (node, host) => this.note({ node, host }) });
    this.failures = new Failures(model, { open });
    this.cost = new Cost(model);
    this.progress = bar("Progress");
    this.head = h("div", { className: "task-head" });
    this.figures = h("div", { className: "figures" });
    this.buttons = h("div", { className: "row buttons" });
    this.connection = h("span", { className: "connection" });
    this.empty = h("div", { className: "empty tab-empty" });
    this.place = h("div", { className: "tab-place", role: "tabpanel" });
    this.words = words;
    this.tabs = {};
    this.open = open;
    const narrow = matchMedia("(max-width: 720px)").matches;
    this.tab = TABS.some(([name]) => name === words.get("tab")) ? words.get("tab") : narrow ? "steps" : model.graph?.hosts.length > 60 ? "matrix" : "graph";
    this.tablist = h("div", { className: "tabs", role: "tablist", "aria-label": "Ways to look at it" }, TABS.map(([name, label], turn) =>
      h("button", { role: "tab", id: `tab-${name}`, title: `${label} (${turn + 1})`, onclick: () => this.choose(name), onkeydown: (event) => this.tabKey(event, turn) }, label)));
    this.element = h("div", { className: "task" },
      h("div", { className: "task-top" }, this.head, this.progress.element, this.failures.element, this.cost.element),
      h("div", { className: "task-body" }, h("div", { className: "task-main" }, this.tablist, this.empty, this.place), this.pane.element));
    this.title = `${model.task.pipeline || model.task.action} ${model.task.cluster}`;
  }

  begin() {
    const { model } = this;
    put(this.head,
      h("div", { className: "task-name" },
        h("p", { className: "crumbs" }, h("a", { href: `#/clusters/${model.task.cluster}` }, model.task.cluster), " / ", h("span", { className: "mono" }, model.task.id)),
        h("h1", {}, name(model.task))),
      this.figures, this.connection, this.buttons);
    model.addEventListener("task", () => this.update());
    model.addEventListener("change", () => this.update());
    model.addEventListener("connection", () => this.update());
    model.addEventListener("graph", () => this.ready());
    this.timer = setInterval(() => this.tick(), 500);
    earlier(model.task).then((known) => { this.known = known; }, () => {});
    if (model.graph) this.ready();
    this.update();
  }

  close() {
    clearInterval(this.timer);
    this.model.close();
    this.pane.close();
    Object.values(this.tabs).forEach((each) => each.close());
  }

  ready() {
    Object.values(this.tabs).forEach((each) => each.close());
    this.tabs = {};
    this.choose(this.tab, false);
    const node = this.words.get("node");
    if (node && !this.pane.shown) this.pane.show(node, this.words.get("host") ?? undefined);
  }

  choose(name, told = true) {
    this.tab = name;
    for (const each of this.tablist.children) {
      const on = each.id === `tab-${name}`;
      each.setAttribute("aria-selected", String(on));
      each.tabIndex = on ? 0 : -1;
    }
    if (told) this.note({ tab: name });
    if (!this.model.graph) return;
    if (!this.tabs[name]) {
      const [, , Made] = TABS.find(([each]) => each === name);
      this.tabs[name] = new Made(this.model, { open: this.open });
      put(this.place, this.tabs[name].element);
      this.tabs[name].ready();
    } else put(this.place, this.tabs[name].element);
    this.place.setAttribute("aria-labelledby", `tab-${name}`);
    this.tabs[name].update();
  }

  tabKey(event, turn) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const next = TABS[(turn + step + TABS.length) % TABS.length][0];
    this.choose(next);
    document.getElementById(`tab-${next}`).focus();
    event.preventDefault();
    event.stopPropagation();
  }

  /** Keeps in the address what is shown, so that it can be shared. */
  note(what) {
    for (const [name, value] of Object.entries({ node: undefined, host: undefined, ...("tab" in what ? { node: this.pane.node, host: this.pane.host } : {}), ...what })) {
      if (value) this.words.set(name, value);
      else if (name !== "tab") this.words.delete(name);
    }
    if (this.words.size) history.replaceState(null, "", `#/tasks/${part(this.model.id)}?${this.words}`);
  }

  key(event) {
    if (event.key === "Escape" && this.pane.shown) this.pane.hide();
    else if (/^[1-5]$/.test(event.key)) this.choose(TABS[Number(event.key) - 1][0]);
    else if (event.key === "f" && this.model.failures.length) {
      this.turn = ((this.turn ?? -1) + 1) % this.model.failures.length;
      const { node, host } = this.model.failures[this.turn];
      this.pane.show(node, host);
      if (this.tab === "graph") this.tabs.graph?.show(node);
    } else return this.tabs[this.tab]?.key?.(event) ?? false;
    return true;
  }

  update() {
    const { model } = this, { task } = model;
    this.failures.update();
    this.cost.update();
    this.pane.update();
    this.progress.show(model.totals);
    this.progress.element.hidden = !model.graph;
    this.place.hidden = !model.graph;
    this.empty.hidden = Boolean(model.graph);
    if (!model.graph) this.waiting();
    else this.tabs[this.tab]?.update();
    const stopping = model.active ? model.stopping : "";
    this.connection.className = `connection ${model.connection}`;
    this.connection.textContent = model.active && model.connection === "away" && model.graph ? "reconnecting…" : model.connection === "live" ? "live" : "";
    const key = [task.state, task.resumable, stopping, task.plan].join();
    if (key !== this.key_) {
      const before = this.state_;
      this.key_ = key;
      this.state_ = task.state;
      this.setButtons(stopping);
      if (before && before !== task.state && !model.active) notice(`${name(task)} ${task.state}`, task.state === "succeeded" ? "good" : "bad");
    }
    this.tick();
  }

  waiting() {
    const { task } = this.model;
    const words = { queued: "Waits for its turn.", running: planning(task, this.model.connecting) }[task.state];
    const key = JSON.stringify([task.state, task.plan, this.model.connecting]);
    if (this.waited === key) return;
    this.waited = key;
    put(this.empty, words ?? (task.action === "plan" && task.state === "succeeded"
      ? h("a", { className: "button primary", href: `#/plans/${task.plan}` }, "See the plan")
      : task.action === "facts" && task.state === "succeeded" ? h("a", { className: "button", href: `#/clusters/${task.cluster}` }, "See the hosts") : "There is no graph: it never came to one."));
    if (task.action === "plan" && task.state === "succeeded" && this.words.get("then") === "plan") location.hash = `#/plans/${task.plan}`;
  }

  tick() {
    const { model } = this, { task } = model, now = Date.now() / 1000;
    const running = model.active && task.started;
    const took = task.started ? (model.active ? now : task.ended ?? now) - task.started : 0;
    const left = running ? this.left(now) : null;
    const done = model.totals[CODE.succeeded] + model.totals[CODE.satisfied] + model.totals[CODE.excluded];
    const state = model.active && model.stopping ? model.stopping : task.state;
    const key = [state, clock(took), left && Math.round(left), done, model.units, model.running.size].join();
    if (key === this.figured) return;
    this.figured = key;
    put(this.figures,
      figure("State", badge(task.state, state)),
      task.started && figure(running ? "Elapsed" : "Took", h("span", { className: "number", title: moment(task.started) }, running ? clock(took) : duration(took))),
      running && figure("Remaining", h("span", { className: "number" }, left === null ? "–" : `about ${clock(left)}`)),
      model.graph && figure("Done", h("span", { className: "number" }, `${done.toLocaleString("en")} of ${model.units.toLocaleString("en")}`)),
      running && model.running.size ? figure("Right now", h("span", { className: "number" }, count(model.running.size, "change"))) : null,
      !model.active && task.ended && figure("Ended", since(task.ended)));
  }

  left(now) {
    if (!this.guess || now - this.guess.at > 2) this.guess = { at: now, left: remaining(this.model, this.known, now) };
    return this.guess.left === null ? null : Math.max(0, this.guess.left - (now - this.guess.at));
  }

  setButtons(stopping) {
    const { model } = this, { task } = model;
    const path = model.path;
    put(this.buttons,
      this.may && model.active && h("button", { className: "danger-quiet", onclick: () => this.stop(stopping) }, stopping ? "Stop now" : "Cancel"),
      this.may && task.resumable && h("button", { className: "primary", onclick: () => attempt(async () => { model.task = await post(`${path}/resume`); model.wait(); this.update(); }) }, "Resume"),
      task.action === "plan" && task.plan && h("a", { className: "button primary", href: `#/plans/${task.plan}` }, "See the plan"));
  }

  async stop(stopping) {
    const sure = await ask({
      title: stopping ? "Stop it now?" : "Cancel this task?",
      words: h("p", {}, stopping ? "What is being changed right now is stopped midway. It can be resumed." : "It finishes what it is at and starts nothing else. It can be resumed."),
      doIt: stopping ? "Stop now" : "Cancel the task", danger: true,
    });
    if (sure) await attempt(async () => { await post(`${this.model.path}/cancel`); notice(stopping ? "Stopping now." : "It will stop after what it is at."); });
  }
}

/** What a task does that has no graph yet: which hosts have answered, and which are waited for. */
function planning({ action }, found) {
  if (!found?.hosts) return "Starting …";
  const { hosts, ready, waiting, failed } = found, some = (names) => `${names.slice(0, SOME).join(", ")}${names.length > SOME ? ` and ${count(names.length - SOME, "other")}` : ""}`;
  return h("div", { className: "planning", role: "status" },
    h("p", {}, waiting.length ? "Connecting to the hosts and gathering facts …" : action === "facts" ? "All hosts were asked." : "The hosts have answered. Planning …"),
    h("progress", { max: hosts, value: ready + failed.length, "aria-label": "Hosts that have answered" }),
    h("p", { className: "number" }, `${ready} of ${count(hosts, "host")} connected`),
    waiting.length ? h("p", {}, "Waiting for ", h("b", {}, some(waiting))) : null,
    failed.length ? h("p", { className: "warning" }, `Not reached: ${some(failed)}`) : null);
}

const name = (task) => `${task.action === "plan" ? "Plan " : ""}${task.pipeline || task.action}${task.dry_run ? " (dry run)" : ""}`;
const figure = (label, value) => h("div", { className: "figure" }, h("span", { className: "label" }, label), value);
