// Words about what happened: in passing, or in the place where it matters.

import { h, prose } from "../dom.js";

const STAY = 6000;

/** Tells something in passing. */
export function notice(words, kind = "info") {
  const box = h("div", { className: `notice ${kind}` }, words);
  document.getElementById("notices").append(box);
  setTimeout(() => box.remove(), STAY);
}

/** An error with its remedy. */
export function trouble(error) {
  return h("div", { className: "trouble", role: "alert" },
    h("p", { className: "what" }, prose(error.message)),
    error.hint && h("p", { className: "remedy" }, prose(error.hint)),
    error.task && h("p", {}, h("a", { href: `#/tasks/${error.task}` }, `Task ${error.task}`)));
}

/** Does something that may fail, and says so if it does; true if it did not. */
export async function attempt(work, place) {
  try {
    await work();
    return true;
  } catch (error) {
    if (place) place.replaceChildren(trouble(error));
    else notice([error.message, error.hint].filter(Boolean).join(" – "), "bad");
    return false;
  }
}
