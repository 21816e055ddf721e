// Times and numbers as people say them.

/** 3 s, 1 min 20 s, 2 h 5 min. */
export function duration(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds < 0.095) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  const minutes = Math.round(whole / 60);
  if (minutes < 60 * 48) return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  return `${Math.floor(minutes / 1440)} d`;
}

/** 0:07, 12:03, 1:02:03: for what counts on. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const pair = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  return `${hours ? `${hours}:${pair(Math.floor(whole / 60) % 60)}` : Math.floor(whole / 60)}:${pair(whole % 60)}`;
}

/** just now, 5 min ago, 3 d ago. */
export function ago(time, now = Date.now() / 1000) {
  const seconds = now - time;
  if (seconds < 10) return "just now";
  return `${age(time, now)} ago`;
}

/** 12 s, 5 min, 3 h, 8 d. */
export function age(time, now = Date.now() / 1000) {
  const seconds = Math.max(0, now - time);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A moment in full, for tooltips. */
export const moment = (time) => new Date(time * 1000).toLocaleString();

/** 1 host, 3 hosts. */
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Module, task and own name of a node: etcd.install.start, or, for a batch of hosts, etcd.keep.start.n1. */
export function idParts(id) {
  const [module, task, ...name] = id.split(".");
  return name.length ? { module, task, name: name.join(".") } : { module, task: "", name: task ?? id };
}

/** A node as it is called within its module. */
export const within = (id) => { const { task, name } = idParts(id); return task ? `${task}.${name}` : name; };

/** The text on one line, cut to so many characters. */
export const shorten = (words, most) => (words.length <= most ? words : `${words.slice(0, most - 1)}…`);
