// What can be run on a cluster: a button for each pipeline that declares one, and a dialog for its options.

import { get, part, post } from "../api.js";
import { h } from "../dom.js";
import { ask } from "./pieces.js";

let known = null;

/** Every pipeline the server declares; asked for once. */
export function pipelines() {
  known ??= get("/pipelines").catch((error) => { known = null; throw error; });
  return known;
}

/** The button of a pipeline. */
export function button(pipeline, { exists, disabled, busy, onclick }) {
  const className = pipeline.primary ? "primary" : pipeline.confirms ? "danger-quiet" : "";
  const label = exists ? pipeline.button : pipeline.button_first;
  return h("button", { className, disabled: disabled || (pipeline.confirms && busy), onclick }, label);
}

/** Asks for options and confirmation if there are any, then plans what applies edits and starts the rest. Where to go next, or null. */
export async function offer(pipeline, cluster) {
  const asked = pipeline.options.filter((option) => option.label), path = `/clusters/${part(cluster)}`;
  let values = new FormData();
  if (pipeline.confirms || asked.length) {
    const confirm = h("input", { name: "confirm", id: "confirm", autocomplete: "off", required: true, pattern: cluster, placeholder: cluster, autofocus: true });
    values = await ask({
      title: `${pipeline.button} ${cluster}?`,
      words: h("p", {}, pipeline.summary, pipeline.confirms && " Type the cluster's name to continue."),
      fields: [pipeline.confirms && [h("label", { htmlFor: "confirm" }, "Name of the cluster"), confirm], asked.map(field)],
      doIt: `${pipeline.button} the cluster`, danger: pipeline.confirms,
    });
    if (!values) return null;
  }
  const options = Object.fromEntries(asked.map((option) => [option.name, valueOf(option, values)]).filter(([, value]) => value !== undefined));
  if (pipeline.accepts.length) return `#/tasks/${(await post(`${path}/plan`, { pipeline: pipeline.name, options })).id}?then=plan`;
  const sure = pipeline.confirms ? { confirm: values.get("confirm") } : {};
  return `#/tasks/${(await post(`${path}/${part(pipeline.name)}`, { ...options, ...sure })).id}`;
}

function field(option) {
  const id = `option-${option.name}`, about = { name: option.name, id, title: option.help };
  if (option.widget === "checkbox") return h("label", { className: "check" }, h("input", { ...about, type: "checkbox", checked: option.default }), option.label);
  const input = option.widget === "select"
    ? h("select", about, option.choices.map((each) => h("option", { value: each, selected: each === option.default }, each)))
    : h("input", { ...about, type: option.widget, value: option.default ?? "", required: option.required, min: option.least ?? "", max: option.most ?? "", step: "any" });
  return [h("label", { htmlFor: id }, option.label), input];
}

function valueOf(option, values) {
  const text = values.get(option.name);
  if (option.kind === "flag") return values.has(option.name);
  if (text === null || text === "") return undefined;
  if (option.kind === "number" || option.kind === "count") return Number(text);
  return option.kind === "names" || option.kind === "hosts" ? text.split(",").map((word) => word.trim()).filter(Boolean) : text;
}
