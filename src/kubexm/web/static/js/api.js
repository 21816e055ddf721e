// REST, as the page asks it: a cookie says who it is, a word of its own goes with each change.

const PREFIX = "/api/v1";
const AGAIN = 400;
let csrf = null;
let lost = () => {};

/** An answer that is a refusal: what went wrong, and what to do next. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail ?? `the server answered ${status}`);
    this.status = status;
    this.hint = document.hint ?? "";
    this.problems = document.problems ?? [];
    this.task = document.task ?? null;
  }
}

/** What to do when the session has ended. */
export function onLost(work) { lost = work; }

/** Where something is. */
export const address = (path) => PREFIX + path;

/** `/tasks/${part(id)}`: a part of a path. */
export const part = encodeURIComponent;

async function ask(method, path, { body, headers = {}, query, signal } = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of [value].flat()) if (each !== undefined && each !== "" && each !== null) words.append(name, each);
  }
  const sent = { Accept: "application/json", ...headers };
  let content = body;
  if (body !== undefined && !(body instanceof Blob)) {
    content = JSON.stringify(body);
    sent["Content-Type"] = "application/json";
  }
  if (method !== "GET" && csrf) sent["X-CSRF-Token"] = csrf;
  const answer = await sending(`${PREFIX}${path}${words.size ? `?${words}` : ""}`, { method, headers: sent, body: content, signal });
  if (!answer.ok) {
    const document = await answer.json().catch(() => ({}));
    if (answer.status === 401 && !(method === "POST" && path === "/session")) lost();
    throw new Problem(answer.status, document);
  }
  return answer;
}

/** Sends it. What only reads is tried once more: networks change under a laptop. */
async function sending(url, options) {
  for (let tries = options.method === "GET" ? 2 : 1; ; tries--) {
    try {
      return await fetch(url, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (tries <= 1) throw new Problem(0, { detail: "the server does not answer", hint: "is `kubexm serve` running, and reachable from here?" });
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
  }
}

async function json(method, path, options) {
  const answer = await ask(method, path, options);
  return answer.status === 204 ? null : answer.json();
}

export const get = (path, query, signal) => json("GET", path, { query, signal });
export const post = (path, body = {}) => json("POST", path, { body });
export const putJson = (path, body) => json("PUT", path, { body });
export const remove = (path, query) => json("DELETE", path, { query });
export const text = async (path, query) => (await ask("GET", path, { query, headers: { Accept: "*/*" } })).text();
export const upload = (path, file) =>
  json("PUT", path, { body: file, headers: { "Content-Type": "application/octet-stream" } });

/** Every item of a list that comes in pages. */
export async function all(path, query = {}) {
  const found = [];
  for (let cursor; cursor !== null;) {
    const page = await get(path, { ...query, cursor });
    found.push(...page.items);
    cursor = page.next;
  }
  return found;
}

const RANK = { viewer: 1, operator: 2, admin: 3 };

/** Who is logged in. */
export class Session {
  constructor(found) {
    Object.assign(this, found);
    csrf = found.csrf;
  }

  /** Whether they may do what a role may, with a cluster. */
  may(role, cluster) {
    const has = this.grants[cluster] ?? this.grants["*"];
    return (RANK[has] ?? 0) >= RANK[role];
  }

  /** Whether there is any cluster, known or to come, with which they may do that. */
  mayAnywhere(role) { return Object.values(this.grants).some((has) => (RANK[has] ?? 0) >= RANK[role]); }

  static async current() { return new Session(await get("/session")); }

  static async open(token) { return new Session(await post("/session", { token })); }

  async close() {
    await remove("/session");
    csrf = null;
  }
}
