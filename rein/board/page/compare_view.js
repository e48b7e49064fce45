// Some runs side by side: curves, facts and settings, with differences marked.

import { ask } from "./api.js";
import { Curves } from "./curves.js";
import { h, show, table } from "./dom.js";
import { count, duration, interval, matches, number } from "./format.js";
import { statusMark } from "./runs_view.js";

const MOST = 12;

export class CompareView {
  constructor(board, ids) {
    this.board = board;
    this.ids = ids ? ids.split(",").slice(0, MOST) : [...board.selected].slice(0, MOST);
    this.onlyDifferences = true;
    this.words = "";
    this.curves = new Curves({ grouped: false });
    this.picker = h("div", {});
    this.facts = h("div", {});
    this.settings = h("div", { class: "tall" });
    this.element = h("div", {}, h("h1", {}, "Compare"), this.picker, this.facts,
      h("h2", {}, "Settings"),
      h("div", { class: "controls" },
        h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (event) => { this.onlyDifferences = event.target.checked; this.drawSettings(); } }), "Differences only"),
        h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", oninput: (event) => { this.words = event.target.value; this.drawSettings(); } })),
      this.settings, h("h2", {}, "Curves"), this.curves.element);
  }

  async refresh() {
    const known = new Map(this.board.runs.map((run) => [run.id, run]));
    const runs = this.ids.map((id) => known.get(id)).filter(Boolean);
    const stamp = JSON.stringify(runs);
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.drawPicker(runs);
    if (runs.length < 2) {
      show(this.facts);
      show(this.settings, h("p", { class: "quiet" }, "Choose two runs or more."));
      return this.curves.update(runs.map((run) => run.id));
    }
    this.runs = runs;
    this.drawFacts(runs);
    this.compared = await ask("compare", { runs: runs.map((run) => run.id).join(",") });
    this.drawSettings();
    await this.curves.update(runs.map((run) => run.id));
  }

  drawPicker(runs) {
    const chosen = new Set(this.ids);
    const go = (ids) => { this.board.selected = new Set(ids); location.hash = `#/compare/${ids.join(",")}`; };
    const others = this.board.runs.filter((run) => !chosen.has(run.id));
    show(this.picker, h("div", { class: "controls" },
      runs.map((run) => h("button", { type: "button", class: "choice", title: "Leave out", onclick: () => go(this.ids.filter((id) => id !== run.id)) }, `${run.place} ×`)),
      others.length > 0 && runs.length < MOST && h("label", {}, "Add", h("select", { onchange: (event) => event.target.value && go([...this.ids, event.target.value]) },
        h("option", { value: "" }, "a run …"), others.map((run) => h("option", { value: run.id }, run.place))))));
  }

  drawFacts(runs) {
    const rows = [
      ["Status", statusMark, (run) => run.status], ["Algorithm", (run) => run.algorithm], ["Environment", (run) => run.env],
      ["Seed", (run) => run.seed === undefined ? "" : String(run.seed)], ["Steps", (run) => count(run.env_steps)],
      ["Score", (run) => h("span", { title: run.score_of }, number(run.score), h("small", {}, interval(run.interval))), (run) => run.score],
      ["Time", (run) => duration(run.seconds)], ["Parameters", (run) => count(run.parameters)],
    ];
    show(this.facts, sideBySide(runs, rows.map(([title, cell, key]) => ({
      title, cells: runs.map(cell), differs: new Set(runs.map(key ?? cell)).size > 1,
    }))));
  }

  drawSettings() {
    if (!this.compared) return;
    const rows = this.compared.settings.filter((row) => (row.differs || !this.onlyDifferences) && matches(this.words, row.name, ...row.values));
    const differing = this.compared.settings.filter((row) => row.differs).length;
    show(this.settings, h("p", { class: "quiet" }, `${differing} of ${this.compared.settings.length} settings differ.`),
      rows.length > 0 && sideBySide(this.runs, rows.map((row) => ({
        title: h("span", { title: row.name }, row.short), differs: row.differs,
        cells: row.values.map((value) => (value === null ? h("span", { class: "quiet" }, "not used") : h("code", {}, value))),
      }))));
  }
}

function sideBySide(runs, rows) {
  return table([
    { title: "", cell: (row) => [row.differs && h("span", { class: "mark", title: "differs" }, "≠ "), row.title] },
    ...runs.map((run, i) => ({ title: run.place, cell: (row) => row.cells[i] })),
  ], rows, { rowClass: (row) => row.differs && "differs" });
}
