// One task as it is known here: the matrix as it was loaded, and every event behind it. Knows nothing of how it is shown.

import { get, part } from "./api.js";
import { ACTIVE, CODE, NOT_WELL, UNIT } from "./states.js";
import { Stream } from "./stream.js";
import { idParts } from "./words.js";

const KINDS = UNIT.length;
const LOOK_AGAIN = 5_000;
const NO_GRAPH_YET = 400;

export class TaskModel extends EventTarget {
  constructor(id) {
    super();
    this.id = id;
    this.path = `/tasks/${part(id)}`;
    this.task = null;
    this.graph = null; // {nodes, hosts, links, modules} once planning is done
    this.cells = new Uint8Array(0);
    this.counts = new Uint32Array(0); // for each node, how many hosts are in each state
    this.totals = new Uint32Array(KINDS);
    this.failures = [];
    this.running = new Map(); // "node host" -> since when
    this.lost = new Map();
    this.connecting = null; // how far hosts are, while there is no graph
    this.times = []; // for each node {seconds, ended}: what its hosts took
    this.stopping = "";
    this.connection = "opening"; // then live, away or over
    this.seen = 0; // events taken, for those who test
    this.stream = null;
    this.timer = 0;
    this.closed = false;
  }

  /** Loads what there is, then follows. */
  async open() {
    this.task = await get(this.path);
    this.tell("task");
    await this.load();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.stream?.close();
  }

  get active() { return ACTIVE.has(this.task.state); }
  get units() { return this.task.units || this.totals.reduce((sum, each) => sum + each, 0); }

  tell(what) { this.dispatchEvent(new CustomEvent(what)); }

  async load() {
    if (!this.task.units) return this.wait(); // there is no graph yet
    const [matrix, outline, failures, lost] = await Promise.all([
      ...["matrix", "outline", "failures"].map((what) => get(`${this.path}/${what}`)),
      get(`${this.path}/history`, { kind: ["host.lost", "run.resumed"] }),
    ]);
    if (this.closed) return;
    this.take(matrix, outline);
    this.failures = failures.map((each) => ({ ...each, exit_code: each.more.exit_code, command: each.more.command }));
    this.lost = new Map(lost.slice(lost.findLastIndex((each) => each.kind === "run.resumed") + 1).map((each) => [each.host, each.data.reason]));
    this.tell("graph");
    this.tell("change");
    this.follow(matrix.seq);
  }

  /** Looks now and then: for a graph that is being made, or for somebody who resumes the task. */
  wait() {
    clearTimeout(this.timer);
    if (this.closed) return;
    this.timer = setTimeout(async () => {
      const resumed = this.task.resumed;
      try {
        if (!document.hidden) this.task = await get(this.path);
      } catch {
        return this.wait();
      }
      if (!this.graph && this.task.state === "running" && !document.hidden) this.connecting = await get(`${this.path}/connecting`).catch(() => null);
      if (this.closed) return;
      this.tell("task");
      if (!this.graph && this.task.units) return this.load().catch(() => this.wait());
      if (this.graph && (this.active || this.task.resumed !== resumed)) return this.follow(this.stream?.last ?? 0);
      this.wait();
    }, this.active ? NO_GRAPH_YET : LOOK_AGAIN);
  }

  follow(after) {
    this.stream?.close();
    if (!this.active && after >= this.task.seq) {
      this.stream = { last: after, close() {} };
      this.connection = "over";
      this.tell("connection");
      return this.wait();
    }
    this.stream = new Stream(`${this.path}/events`, {
      after,
      on: (events) => this.apply(events),
      state: (word) => {
        this.connection = word;
        this.tell("connection");
        if (word === "over") this.wait();
      },
    });
  }

  take(matrix, outline) {
    const hosts = matrix.hosts, nodes = matrix.nodes.map((id, at) => ({ ...outline.nodes[at], id, ...idParts(id), at }));
    const known = Object.fromEntries(Object.entries(matrix.letters).map(([letter, state]) => [letter.charCodeAt(0), CODE[state]]));
    known[46] = CODE.absent;
    known[45] = CODE.pending;
    this.graph = {
      nodes, hosts, links: outline.links,
      nodeAt: new Map(nodes.map((node) => [node.id, node.at])),
      hostAt: new Map(hosts.map((host, at) => [host, at])),
      modules: [...new Set(nodes.map((node) => node.module))],
    };
    this.cells = new Uint8Array(nodes.length * hosts.length);
    this.counts = new Uint32Array(nodes.length * KINDS);
    this.totals = new Uint32Array(KINDS);
    this.times = nodes.map(() => ({ seconds: 0, ended: 0 }));
    this.running.clear();
    matrix.rows.forEach((row, node) => {
      for (let host = 0; host < row.length; host++) {
        const code = known[row.charCodeAt(host)] ?? CODE.pending;
        this.cells[node * hosts.length + host] = code;
        this.counts[node * KINDS + code]++;
        this.totals[code]++;
        if (code === CODE.running) this.running.set(`${nodes[node].id} ${hosts[host]}`, null);
      }
    });
  }

  /** The state of one unit, by places. */
  at(node, host) { return UNIT[this.cells[node * this.graph.hosts.length + host]]; }

  /** How many hosts of a node are in each state. */
  countsOf(node) { return this.counts.subarray(node * KINDS, (node + 1) * KINDS); }

  /** The same over several nodes. */
  countsOfAll(nodes) {
    const sum = new Uint32Array(KINDS);
    for (const node of nodes) for (let code = 0; code < KINDS; code++) sum[code] += this.counts[node * KINDS + code];
    return sum;
  }

  set(node, host, code) {
    const place = node * this.graph.hosts.length + host, before = this.cells[place];
    if (before === code) return;
    this.cells[place] = code;
    this.counts[node * KINDS + before]--;
    this.counts[node * KINDS + code]++;
    this.totals[before]--;
    this.totals[code]++;
  }

  apply(events) {
    for (const { kind, data } of events) {
      if (kind === "task") this.task = data;
      else if (kind === "end") this.task.state = data.state;
      else this.event(data);
    }
    this.tell("task");
    this.tell("change");
  }

  event({ kind, time, node, host, data, seq }) {
    this.seen++;
    const at = this.graph.nodeAt.get(node), where = this.graph.hostAt.get(host), unit = `${node} ${host}`;
    this.task.seq = seq;
    switch (kind) {
      case "unit.running":
        this.set(at, where, CODE.running);
        this.running.set(unit, time);
        break;
      case "unit.done": {
        this.set(at, where, CODE[data.state]);
        this.running.delete(unit);
        if (data.started) {
          this.times[at].seconds += time - data.started;
          this.times[at].ended++;
        }
        this.failed(node, host, time, data);
        break;
      }
      case "host.lost":
        this.lost.set(host, data.reason);
        break;
      case "run.cancelling":
        this.stopping = data.now ? "stopping now" : "stopping after what it is at";
        break;
      case "run.resumed":
        this.again();
        break;
      case "run.ended":
        this.stopping = "";
        this.running.clear();
        break;
    }
  }

  /** Notes a root cause, or that something is blocked by one. */
  failed(node, host, time, data) {
    this.failures = this.failures.filter((each) => each.node !== node || each.host !== host);
    if (data.state === "failed" || data.state === "interrupted") {
      const { message = "", hint = "", command, exit_code } = data.error ?? {};
      const error = message || data.reason || "";
      const found = { node, host, state: data.state, error, hint, command, exit_code, blocked: 0, started: data.started ?? null, ended: time };
      this.failures.push(found);
    } else if (data.state === "blocked" && data.root_cause) {
      const cause = this.failures.find((each) => each.node === data.root_cause[0] && each.host === data.root_cause[1]);
      if (cause) cause.blocked++;
    }
  }

  /** A resume: what did not end well gets another try. */
  again() {
    const hosts = this.graph.hosts.length;
    this.failures = [];
    this.lost.clear();
    this.running.clear();
    this.stopping = "";
    this.cells.forEach((code, place) => {
      if (NOT_WELL.has(code) || code === CODE.running) this.set(Math.floor(place / hosts), place % hosts, CODE.pending);
    });
  }

  isRoot(node) { return this.failures.some((each) => each.node === node); }
}
