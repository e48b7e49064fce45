// One run: curves, evaluations, agent, videos, time, faults, settings.

import { agentTree } from "./agent_tree.js";
import { ask, mediaAddress } from "./api.js";
import { episodeChart } from "./chart.js";
import { Curves } from "./curves.js";
import { h, show, table } from "./dom.js";
import { bytes, count, duration, interval, matches, number, when } from "./format.js";
import { progress, statusMark } from "./runs_view.js";

const TABS = { curves: "Curves", evaluations: "Evaluations", agent: "Agent", videos: "Videos", time: "Time", faults: "Faults", settings: "Settings" };

export class RunView {
  constructor(board, id, tab) {
    this.board = board;
    this.id = id;
    this.tab = tab in TABS ? tab : "curves";
    this.words = "";
    this.head = h("div", {});
    this.panel = h("div", { role: "tabpanel", id: "panel", tabindex: 0 });
    this.tabs = h("div", { role: "tablist", class: "tabs", onkeydown: (event) => this.key(event) },
      Object.entries(TABS).map(([name, title]) => h("a", { role: "tab", href: `#/run/${id}/${name}`, "aria-controls": "panel", "data-tab": name }, title)));
    this.element = h("div", {}, this.head, this.tabs, this.panel);
    this.curves = new Curves({ grouped: false });
  }

  // Another tab of the same run does not need another view.
  take(hash) {
    const found = /^#\/run\/([0-9a-f]+)(?:\/(\w+))?$/.exec(hash);
    if (!found || found[1] !== this.id) return false;
    this.tab = found[2] in TABS ? found[2] : "curves";
    this.drawn = null;
    this.drawTabs();
    return true;
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const names = Object.keys(TABS);
    const next = names[(names.indexOf(this.tab) + step + names.length) % names.length];
    location.hash = `#/run/${this.id}/${next}`;
    this.tabs.querySelector(`[data-tab=${next}]`).focus();
  }

  async refresh() {
    let run;
    try {
      run = await ask(`run/${this.id}`);
    } catch (error) {
      return show(this.head, h("h1", {}, "There is no such run"), h("p", { class: "quiet" }, error.message));
    }
    const text = JSON.stringify(run);
    if (text === this.drawn) return;
    const stale = this.run && this.tab !== "curves" && JSON.stringify(this.run) === text && this.drawn;
    this.run = run;
    this.drawHead(run);
    this.drawTabs();
    if (!stale) await this.drawPanel(run);
    this.drawn = text;
  }

  drawHead(run) {
    const seed = run.seed === undefined ? "" : `, seed ${run.seed}`;
    show(this.head,
      h("h1", {}, run.name, seed, " ", statusMark(run)),
      h("p", { class: "quiet" }, [run.algorithm, run.env, run.place, when(run.started)].filter(Boolean).join(" · ")),
      h("dl", { class: "facts" },
        fact(run.score_of ?? "score", number(run.score), interval(run.interval) && `95% ${interval(run.interval)}`),
        fact("steps", progress(run)), fact("time", duration(run.seconds)), fact("parameters", count(run.parameters)),
        run.zoo && fact("entry of the zoo", h("a", { href: `#/zoo/${run.zoo}` }, run.zoo))),
      run.stop_reason && h("p", {}, `Stopped early: ${run.stop_reason}`),
      run.error && h("p", { class: "bad" }, run.error));
  }

  drawTabs() {
    for (const tab of this.tabs.children) {
      const is = tab.dataset.tab === this.tab;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
      if (is) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    const faults = this.run?.log?.faults ?? 0;
    const title = faults ? `Faults (${faults})` : "Faults";
    this.tabs.querySelector("[data-tab=faults]").textContent = title;
  }

  async drawPanel(run) {
    if (!run.record) return show(this.panel, h("p", { class: "bad" }, run.error ?? "The record of this run is damaged."));
    if (this.tab === "curves") {
      if (!this.panel.contains(this.curves.element)) show(this.panel, this.curves.element);
      return this.curves.update([this.id]);
    }
    if (this.tab === "settings" && this.panel.contains(document.activeElement)) return;
    const open = new Set([...this.panel.querySelectorAll("details[open]")].map((one) => one.dataset.path));
    try {
      show(this.panel, PANELS[this.tab](run, this));
    } catch (error) {
      show(this.panel, h("p", { class: "bad" }, `The files of this run are not as Rein writes them: ${error.message}`));
    }
    for (const one of this.panel.querySelectorAll("details")) if (open.has(one.dataset.path)) one.open = true;
  }
}

function fact(title, value, more) {
  return h("div", {}, h("dt", {}, title), h("dd", {}, value, more && h("small", {}, more)));
}

function evaluations(run) {
  const rows = [...run.evaluations].reverse();
  if (!rows.length) return h("p", { class: "quiet" }, "This run has not been evaluated yet.");
  const bars = Object.entries(run.record.bars ?? {}).filter(([, value]) => typeof value === "number")
    .map(([name, value]) => ({ value, label: `${name.replace("_", " ")} ${number(value)}` }));
  if (rows[0].numbers) {
    const names = Object.keys(rows[0].numbers);
    return table([{ title: "Pass", number: true, cell: (one) => count(one.iterations) },
      ...names.map((name) => ({ title: name, number: true, cell: (one) => number(one.numbers?.[name]) })),
      { title: "Kind", cell: (one) => (one.held_out ? "held-out" : "while training") }], rows);
  }
  return [episodeChart(run.evaluations.filter((one) => !one.held_out), bars), table([
    { title: "Environment steps", number: true, cell: (one) => count(one.env_steps) },
    { title: "Mean return", number: true, cell: (one) => number(one.mean_return) },
    { title: "95% interval", cell: (one) => interval(one.ci95) },
    { title: "Deviation", number: true, cell: (one) => number(one.std_return) },
    { title: "Mean length", number: true, cell: (one) => number(one.mean_length) },
    { title: "Episodes", number: true, cell: (one) => count(one.episodes) },
    { title: "Kind", cell: (one) => (one.held_out ? "held-out seeds" : "while training") },
  ], rows)];
}

function videos(run) {
  if (!run.media.length) return h("p", { class: "quiet" }, "Nothing was recorded yet: ", h("code", {}, run.again.find((one) => one.startsWith("rein play")) ?? "rein play"));
  return h("div", { class: "media" }, run.media.map((one) => {
    const address = mediaAddress(run.id, one);
    const shown = one.name.toLowerCase().endsWith(".mp4")
      ? h("video", { src: address, controls: true, loop: true, muted: true, preload: "metadata" })
      : h("img", { src: address, alt: one.name, loading: "lazy" });
    return h("figure", { class: "card" }, shown, h("figcaption", {}, `${one.folder}/${one.name} · ${bytes(one.bytes)}`));
  }));
}

function time(run) {
  const { seconds, sections } = run.timing ?? {};
  if (!sections || typeof seconds !== "number") return h("p", { class: "quiet" }, "Where the time goes is written while a run goes on, every ten seconds; this one has not written it.");
  const names = Object.keys(sections).sort();
  const top = names.filter((name) => !name.includes("/")).reduce((sum, name) => sum + sections[name].seconds, 0);
  const rows = [...names.map((name) => ({ name, ...sections[name] })), { name: "everything else", seconds: Math.max(0, seconds - top) }];
  const order = (name) => name.split("/").reduce(([path, keys], part) => {
    const whole = path ? `${path}/${part}` : part;
    return [whole, [...keys, -(sections[whole]?.seconds ?? 0), whole]];
  }, ["", []])[1];
  rows.sort((a, b) => compare(order(a.name), order(b.name)));
  return [h("p", { class: "quiet" }, `${duration(seconds)} since the run was last started.`), table([
    { title: "Section", cell: (row) => h("span", { class: `depth depth-${Math.min(4, row.name.split("/").length - 1)}` }, row.name.split("/").at(-1).replaceAll("_", " ")) },
    { title: "Share", cell: (row) => h("span", { class: "progress" }, h("span", { class: "track long" }, h("span", { class: "done", "width%": Math.min(100, 100 * row.seconds / (seconds || 1)) })), `${(100 * row.seconds / (seconds || 1)).toFixed(1)}%`) },
    { title: "Seconds", number: true, cell: (row) => number(row.seconds) },
    { title: "Of its own", number: true, cell: (row) => (row.own_seconds === undefined ? "" : number(row.own_seconds)) },
    { title: "Calls", number: true, cell: (row) => (row.calls === undefined ? "" : count(row.calls)) },
  ], rows)];
}

function compare(left, right) {
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i] < right[i] ? -1 : 1;
  }
  return left.length - right.length;
}

function faults(run) {
  const lines = run.log.text.split("\n").filter(Boolean);
  const kind = (line) => /^\S+ (ERROR|CRITICAL) /.test(line) ? "bad" : /^\S+ WARNING /.test(line) ? "warning" : null;
  return [
    h("dl", { class: "facts" }, fact("status", statusMark(run)), fact("updates left out", count(run.skipped_updates ?? 0)),
      fact("warnings and errors", count(run.log.faults))),
    run.error && h("p", { class: "bad" }, run.error),
    lines.length
      ? [run.log.is_cut && h("p", { class: "quiet" }, "The end of log.txt:"), h("pre", { class: "log", tabindex: 0 }, lines.map((line) => h("span", { class: kind(line) }, `${line}\n`)))]
      : h("p", { class: "quiet" }, "Nothing was logged."),
  ];
}

function settings(run, view) {
  const body = h("div", { class: "pairs" });
  const draw = () => show(body, table([
    { title: "Setting", cell: (one) => h("span", { title: one.name }, one.short) },
    { title: "Value", cell: (one) => h("code", {}, one.value) },
  ], run.settings.filter((one) => matches(view.words, one.name, one.value))));
  draw();
  return [
    h("h2", {}, "Again"), h("pre", { tabindex: 0 }, run.again.join("\n")),
    h("h2", {}, "Every value that was used"),
    h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", value: view.words,
      oninput: (event) => { view.words = event.target.value; draw(); } }),
    body,
    h("h2", {}, "Run"), h("div", { class: "pairs" }, table([{ title: "Fact", cell: ([name]) => name.replaceAll("_", " ") },
      { title: "Value", cell: ([, value]) => (typeof value === "string" ? value : JSON.stringify(value)) }],
    [["path", run.path], ...Object.entries(run.record)])),
  ];
}

const PANELS = { evaluations, agent: (run) => agentTree(run.agent), videos, time, faults, settings };
