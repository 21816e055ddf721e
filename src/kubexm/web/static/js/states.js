// What states there are, what they look like and what they mean. One place, so that every part of the page agrees.

/** Codes of units, as they lie in the matrix. The order is from best to worst for those that are shown as one. */
export const UNIT = ["absent", "pending", "running", "succeeded", "satisfied", "excluded", "cancelled", "blocked", "interrupted", "failed"];
export const CODE = Object.fromEntries(UNIT.map((name, code) => [name, code]));
export const SHOWN = ["failed", "interrupted", "blocked", "cancelled", "running", "succeeded", "satisfied", "excluded", "pending"];
/** From left to right in a bar: what is done, what moves, what is in trouble, what is left. */
export const BAR = ["succeeded", "satisfied", "excluded", "running", "failed", "interrupted", "blocked", "cancelled", "pending"];

export const GLYPH = {
  pending: "·", running: "▸", succeeded: "✓", satisfied: "=", excluded: "–",
  cancelled: "◌", blocked: "‖", interrupted: "◗", failed: "✕", queued: "·", partial: "◐",
};

export const MEANS = {
  pending: "has not had its turn yet",
  running: "is being changed right now",
  succeeded: "was changed, and is as it should be",
  satisfied: "was so already",
  excluded: "is not needed here",
  cancelled: "never started: the run was stopped",
  blocked: "cannot start: something it waits for failed",
  interrupted: "was stopped midway",
  failed: "failed",
  queued: "waits for its turn",
  partial: "done, except for hosts that were lost",
};

/** What resuming tries again. */
export const NOT_WELL = new Set(["failed", "blocked", "cancelled", "interrupted"].map((name) => CODE[name]));

/** States of tasks in which they go on by themselves. */
export const ACTIVE = new Set(["queued", "running"]);

/** The one state many stand for: trouble first, then what moves. */
export function together(counts) {
  for (const name of ["failed", "interrupted", "blocked", "cancelled"]) if (counts[CODE[name]]) return name;
  if (counts[CODE.running]) return "running";
  if (counts[CODE.pending]) return counts[CODE.succeeded] || counts[CODE.satisfied] ? "partly" : "pending";
  for (const name of ["succeeded", "satisfied", "excluded"]) if (counts[CODE[name]]) return name;
  return "pending";
}
