// What programs printed, as text with their colours: escape sequences become classes, or nothing. Never markup.

import { h } from "../dom.js";

const STYLE = /\u001b\[([\d;]*)m/g;
// Everything else that steers a terminal: cursor, title, modes; and other control characters.
const REST = /\u001b\[[\d;?]*[A-Za-ln-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]|[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;
const OVERWRITTEN = /[^\n]*\r(?=[^\n\r])/g; // a line that a progress bar wrote again

/** The text as a terminal would leave it, without its colours. */
export const plain = (words) => (/[\u0000-\u0008\u000b-\u001f\u007f]/.test(words) ? words.replace(OVERWRITTEN, "").replace(STYLE, "").replace(REST, "").replaceAll("\r", "") : words);

/** Text with every hit in a <mark>. */
export function marked(words, text) {
  if (!text) return words;
  const parts = [], low = words.toLowerCase(), sought = text.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(sought); at >= 0; at = low.indexOf(sought, from)) {
    parts.push(words.slice(from, at), h("mark", {}, words.slice(at, at + sought.length)));
    from = at + sought.length;
  }
  parts.push(words.slice(from));
  return parts;
}

/** Text in its colours, with every hit in a <mark>. */
export function coloured(words, text = "") {
  if (!words.includes("\u001b")) return marked(plain(words), text);
  const found = [], style = { front: "", bold: false };
  let from = 0;
  const push = (piece) => {
    const clean = plain(piece), names = [style.front, style.bold && "ansi-bold"].filter(Boolean).join(" ");
    if (clean) found.push(names ? h("span", { className: names }, marked(clean, text)) : marked(clean, text));
  };
  const whole = words.replace(OVERWRITTEN, "");
  for (const match of whole.matchAll(STYLE)) {
    push(whole.slice(from, match.index));
    from = match.index + match[0].length;
    change(style, match[1]);
  }
  push(whole.slice(from));
  return found;
}

function change(style, codes) {
  const numbers = codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at];
    if (code === 0) [style.front, style.bold] = ["", false];
    else if (code === 1) style.bold = true;
    else if (code === 22) style.bold = false;
    else if (code === 39) style.front = "";
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style.front = `ansi-${code % 10}`;
    else if (code === 38 || code === 48) at += numbers[at + 1] === 5 ? 2 : 4; // one of 256, or any: left as it is
  }
}
