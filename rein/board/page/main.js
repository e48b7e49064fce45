// The page: which view is shown, what is asked again while runs go on, light or dark.

import { ask } from "./api.js";
import { h, show } from "./dom.js";
import { CompareView } from "./compare_view.js";
import { RunView } from "./run_view.js";
import { RunsView } from "./runs_view.js";
import { EntryView, ZooView } from "./zoo_view.js";

const SECONDS_BETWEEN = 3;
const main = document.getElementById("main");
const live = document.getElementById("live");
const board = { runs: [], selected: new Set() };
let view = null;

const ROUTES = [
  [/^#\/run\/([0-9a-f]+)(?:\/(\w+))?$/, (id, tab) => new RunView(board, id, tab)],
  [/^#\/compare(?:\/([0-9a-f,]+))?$/, (ids) => new CompareView(board, ids)],
  [/^#\/zoo$/, () => new ZooView()],
  [/^#\/zoo\/(\w+)$/, (name) => new EntryView(name)],
  [/.*/, () => new RunsView(board)],
];

function route() {
  const hash = location.hash || "#/";
  if (hash === "#main") return;
  for (const [pattern, make] of ROUTES) {
    const found = pattern.exec(hash);
    if (!found) continue;
    if (view?.take?.(hash)) break;
    view = make(...found.slice(1));
    show(main, view.element);
    window.scrollTo(0, 0);
    break;
  }
  const root = `#/${hash.split("/")[1] ?? ""}`.replace("#/run", "#/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === root) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  refresh();
}

async function refresh() {
  try {
    const answer = await ask("runs");
    board.runs = answer.runs;
    board.folders = answer.folders;
    const running = answer.runs.filter((run) => run.status === "running").length;
    show(live, running ? h("span", { class: "dot-running" }, `${running} running`) : "");
    await view?.refresh?.();
  } catch (error) {
    show(live, h("span", { class: "bad" }, "no answer: has `rein board` ended?"));
    console.warn(error);
  }
}

function applyTheme(theme) {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (theme) document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = dark ? "Light" : "Dark";
  button.onclick = () => {
    localStorage.setItem("theme", dark ? "light" : "dark");
    applyTheme(dark ? "light" : "dark");
  };
}

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing) {
    const field = main.querySelector("input[type=search]");
    if (field) { event.preventDefault(); field.focus(); }
  }
});
window.addEventListener("hashchange", route);
setInterval(() => { if (!document.hidden) refresh(); }, SECONDS_BETWEEN * 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
applyTheme(localStorage.getItem("theme"));
route();
