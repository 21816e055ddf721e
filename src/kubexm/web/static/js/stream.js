// Server-sent events that miss nothing: after a cut, a sleep or a restart of the server they go on behind the last one
// that was seen. Read with fetch, not EventSource: that one gives up for good on the first error of a proxy.

import { address, get } from "./api.js";

const QUIET = 40_000; // the server says something every 15 s
const FIRST_WAIT = 500;
const LONGEST_WAIT = 8_000;

/**
 * Follows a stream. `on(events)` gets them in order, many at once: [{id, kind, data}]. `state(word)` says `live`,
 * `away` or `over`. While nobody looks at the page the stream is closed: it goes on when somebody does.
 */
export class Stream {
  constructor(path, { after = 0, on, state = () => {} }) {
    this.path = path;
    this.last = after;
    this.on = on;
    this.state = state;
    this.over = false;
    this.wait = FIRST_WAIT;
    this.abort = null;
    this.timer = 0;
    this.look = () => (document.hidden ? this.pause() : this.open());
    document.addEventListener("visibilitychange", this.look);
    window.addEventListener("online", this.look);
    this.look();
  }

  close() {
    this.over = true;
    document.removeEventListener("visibilitychange", this.look);
    window.removeEventListener("online", this.look);
    this.pause();
  }

  pause() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  async open() {
    if (this.over || this.abort) return;
    clearTimeout(this.timer);
    const abort = (this.abort = new AbortController());
    try {
      const answer = await fetch(`${address(this.path)}?after=${this.last}`, {
        headers: { Accept: "text/event-stream", "Last-Event-ID": String(this.last) },
        signal: abort.signal,
      });
      if (answer.status === 204) return this.end();
      if (answer.status === 401) await get("/session"); // says so to whoever shows the login
      if (!answer.ok) throw new Error(`the stream answered ${answer.status}`);
      this.state("live");
      this.wait = FIRST_WAIT;
      await this.read(answer.body.getReader(), abort);
    } catch {
      // Whatever it was, it is tried again: see below.
    }
    if (this.abort !== abort) return; // paused, or opened anew
    this.abort = null;
    if (this.over) return;
    this.state("away");
    this.timer = setTimeout(() => this.look(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  async read(reader, abort) {
    const decoder = new TextDecoder();
    let rest = "";
    let quiet = setTimeout(() => abort.abort(), QUIET);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(quiet);
        quiet = setTimeout(() => abort.abort(), QUIET);
        rest += decoder.decode(value, { stream: true });
        const whole = rest.lastIndexOf("\n\n");
        if (whole < 0) continue;
        this.take(rest.slice(0, whole));
        rest = rest.slice(whole + 2);
        if (this.over) return;
      }
    } finally {
      clearTimeout(quiet);
    }
  }

  take(frames) {
    const events = [];
    let ended = false;
    for (const frame of frames.split("\n\n")) {
      let id = null, kind = "message", data = "";
      for (const line of frame.split("\n")) {
        if (/^id: \d+$/.test(line)) id = Number(line.slice(4));
        else if (line.startsWith("event: ")) kind = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (!data) continue;
      if (id !== null) {
        if (id <= this.last) continue;
        this.last = id;
      }
      ended ||= kind === "end";
      events.push({ id, kind, data: JSON.parse(data) });
    }
    if (events.length) this.on(events);
    if (ended) this.end();
  }

  end() {
    this.close();
    this.state("over");
  }
}
