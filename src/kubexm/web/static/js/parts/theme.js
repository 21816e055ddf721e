// Light, dark, or as the system has it.

import { h } from "../dom.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const SIGN = { system: "◐", light: "☀", dark: "☾" };

/** A button that goes through the three. Whoever paints on a canvas listens for `themechange` on the window. */
export function themeButton() {
  const root = document.documentElement;
  const now = () => root.dataset.theme ?? "system";
  const label = () => {
    button.textContent = SIGN[now()];
    button.title = `Theme: ${now()}`;
    button.setAttribute("aria-label", `Theme: ${now()}`);
  };
  const button = h("button", { className: "quiet icon theme", onclick: () => {
    const next = NEXT[now()];
    if (next === "system") {
      delete root.dataset.theme;
      localStorage.removeItem("kubexm.theme");
    } else {
      root.dataset.theme = next;
      localStorage.setItem("kubexm.theme", next);
    }
    label();
    window.dispatchEvent(new Event("themechange"));
  } });
  label();
  return button;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("themechange")));
