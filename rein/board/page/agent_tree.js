// The agent as a tree: components, what goes in and out, parameters, optimizers.

import { h, table } from "./dom.js";
import { COLORS, count } from "./format.js";

function ports(word, given) {
  return Object.entries(given ?? {}).slice(0, 8).map(([path, text]) => h("li", { class: "quiet" }, `${word} ${path ? `${path}: ` : ""}${text}`));
}

function node(one, optimizers, path) {
  const own = (one.optimizers ?? []).map((number) => h("span", {
    class: "chip", color: COLORS[(number - 1) % COLORS.length], title: optimizers[number - 1]?.name,
  }, `#${number}`));
  const whole = `${path}/${one.name}`;
  const line = [h("b", {}, one.name ?? "unnamed"), " ", h("span", {}, one.type), " ",
    one.parameters ? h("small", {}, `${count(one.parameters)} parameter${one.parameters === 1 ? "" : "s"}${one.trained ? "" : ", not trained"}`) : null, own];
  const inside = [...ports("in", one.inputs), ...ports("out", one.outputs), ...ports("state", one.state),
    ...(one.children ?? []).map((child) => h("li", {}, node(child, optimizers, whole)))];
  if (!inside.length) return h("div", { class: "leaf" }, line);
  return h("details", { open: path.split("/").length < 4, "data-path": whole }, h("summary", {}, line), h("ul", {}, inside));
}

export function agentTree(agent) {
  if (!agent?.root) return h("p", { class: "quiet" }, "This run keeps no description of its agent.");
  const optimizers = agent.optimizers ?? [];
  return [
    h("div", { class: "tree card" }, node(agent.root, optimizers, "")),
    optimizers.length > 0 && [h("h2", {}, "Optimizers"), table([
      { title: "Number", cell: (one) => h("span", { class: "chip", color: COLORS[(one.number - 1) % COLORS.length] }, `#${one.number}`) },
      { title: "Optimizer", cell: (one) => one.name },
      { title: "Learning rate", cell: (one) => one.learning_rate },
      { title: "Parameters", number: true, cell: (one) => count(one.parameters) },
      { title: "Of", cell: (one) => (one.components ?? []).join(", ") },
      { title: "Settings", cell: (one) => Object.entries(one.settings ?? {}).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ") },
    ], optimizers)],
  ];
}
