// How long it still takes: the longest chain of what is left, by what the same nodes took in an earlier run of this
// cluster at the pace seen so far, or by that pace alone. A guess, and shown as one.

import { get, part } from "./api.js";
import { CODE } from "./states.js";

const SURE_AFTER = 3;

/** Seconds each node took, over all hosts, in the run of this kind that did most; null if there was none. */
export async function earlier(task) {
  const page = await get("/tasks", { cluster: task.cluster, state: "succeeded", limit: 30 });
  const alike = page.items.filter((each) => each.id !== task.id && !each.dry_run && each.pipeline === task.pipeline && each.tally.succeeded);
  const last = alike.sort((one, other) => other.tally.succeeded - one.tally.succeeded)[0];
  if (!last) return null;
  const nodes = await get(`/tasks/${part(last.id)}/nodes`);
  return new Map(nodes.filter((each) => each.started && each.ended).map((each) => [each.node, each.ended - each.started]));
}

/** Seconds that are probably left; null as long as nobody can say. */
export function remaining(model, known, now) {
  const { task, graph } = model;
  if (!graph || !task.started || now - task.started < SURE_AFTER) return null;
  let seconds = 0, ended = 0;
  for (const each of model.times) {
    seconds += each.seconds;
    ended += each.ended;
  }
  if (!known && !ended) return null;
  const pace = ended ? seconds / ended : 1;
  const ratio = known ? speed(model, known) : 1;
  const down = graph.nodes.map(() => []);
  for (const [from, to] of graph.links) down[from].push(to);
  const path = new Float64Array(graph.nodes.length);
  for (let at = graph.nodes.length - 1; at >= 0; at--) {
    let below = 0;
    for (const other of down[at]) below = Math.max(below, path[other]);
    path[at] = below + still(model, at, known, pace, ratio);
  }
  return path.reduce((most, each) => Math.max(most, each), 0);
}

function still(model, at, known, pace, ratio) {
  const counts = model.countsOf(at), own = model.times[at];
  const left = counts[CODE.pending] + counts[CODE.running];
  if (!left) return 0;
  const all = left + counts[CODE.succeeded] + counts[CODE.satisfied];
  const whole = known?.get(model.graph.nodes[at].id);
  if (whole !== undefined) return (ratio * whole * left) / all;
  return own.ended ? own.seconds / own.ended : pace;
}

/** How much longer than then it takes now, by what has ended while somebody looked. */
function speed(model, known) {
  let now = 0, then = 0;
  model.times.forEach(({ seconds, ended }, at) => {
    const whole = known.get(model.graph.nodes[at].id);
    if (!ended || whole === undefined) return;
    now += seconds / ended;
    then += whole;
  });
  return then > 0.5 ? Math.min(4, Math.max(0.05, now / then)) : 1;
}
