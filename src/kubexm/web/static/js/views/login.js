// Logging in with a token.

import { Session } from "../api.js";
import { h } from "../dom.js";
import { attempt } from "../parts/notices.js";

export async function view({ entered }) {
  const problem = h("div");
  const token = h("input", { id: "token", name: "token", type: "password", required: true, autocomplete: "current-password", spellcheck: false, autofocus: true, placeholder: "kx_…" });
  const button = h("button", { className: "primary" }, "Log in");
  const form = h("form", { className: "card login", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    await attempt(async () => entered(await Session.open(token.value.trim())), problem);
    button.disabled = false;
    token.value = "";
  } },
    h("img", { src: "/icon.svg", alt: "", width: 48, height: 48 }),
    h("h1", {}, "kubexm"),
    h("label", { htmlFor: "token" }, "Token"),
    token,
    h("p", { className: "hint" }, "The server prints the first one when it starts; ", h("code", {}, "kubexm serve token create"), " makes more."),
    problem,
    button);
  return { title: "Log in", element: form };
}
