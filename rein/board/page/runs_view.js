// All runs: a table with search, and their curves.

import { Curves } from "./curves.js";
import { h, show, table } from "./dom.js";
import { count, duration, interval, matches, number, when } from "./format.js";

const MOST_ROWS = 200;

export function statusMark(run) {
  return h("span", { class: `status ${/^[a-z]+$/.test(run.status) ? run.status : "unknown"}` }, run.status);
}

export function progress(run) {
  if (run.fraction === null || run.fraction === undefined) return count(run.env_steps);
  const percent = Math.round(run.fraction * 100);
  return h("span", { class: "progress", title: `${percent}%` },
    h("span", { class: "track", role: "progressbar", "aria-valuenow": percent, "aria-valuemin": 0, "aria-valuemax": 100 },
      h("span", { class: "done", "width%": percent })),
    count(run.env_steps ?? run.iterations));
}

export class RunsView {
  constructor(board) {
    this.board = board;
    this.words = "";
    this.sorted = null;
    this.all = false;
    this.shownIds = null;
    this.curves = new Curves();
    this.title = h("h1", {});
    this.compare = h("a", { class: "button", href: "#/compare" }, "Compare");
    this.rows = h("div", { class: "runs" });
    this.element = h("div", {},
      h("div", { class: "heading" }, this.title,
        h("input", { type: "search", placeholder: "Search runs ( / )", "aria-label": "Search runs",
          oninput: (event) => { this.words = event.target.value; this.refresh(); } }),
        this.compare),
      this.rows, h("h2", {}, "Curves"), this.curves.element);
    this.columns = [
      { title: "Compare", cell: (run) => h("input", { type: "checkbox", checked: board.selected.has(run.id),
        "aria-label": `Compare ${run.place}`, onchange: (event) => this.select(run.id, event.target.checked) }) },
      { title: "Run", span: "first", cell: (run) => h("a", { href: `#/run/${run.id}` }, run.name, h("small", {}, run.place)), sort: (run) => run.name },
      { title: "Status", cell: statusMark, sort: (run) => run.status },
      { title: "Seed", number: true, cell: (run) => run.seed === undefined ? "" : String(run.seed), sort: (run) => run.seed },
      { title: "Algorithm", cell: (run) => String(run.algorithm ?? "").replace(/Algorithm$/, ""), sort: (run) => run.algorithm },
      { title: "Environment", span: "alone", cell: (run) => String(run.env ?? ""), sort: (run) => run.env },
      { title: "Steps", number: true, cell: progress, sort: (run) => run.env_steps },
      { title: "Score", number: true, cell: (run) => h("span", { title: run.score_of }, number(run.score), h("small", {}, interval(run.interval))), sort: (run) => run.score },
      { title: "Time", number: true, cell: (run) => duration(run.seconds), sort: (run) => run.seconds },
      { title: "Started", span: "alone", cell: (run) => when(run.started), sort: (run) => run.started },
    ];
  }

  select(id, is) {
    if (is) this.board.selected.add(id); else this.board.selected.delete(id);
    this.showCompare();
  }

  showCompare() {
    const ids = [...this.board.selected];
    this.compare.textContent = ids.length ? `Compare ${ids.length}` : "Compare";
    this.compare.href = ids.length ? `#/compare/${ids.join(",")}` : "#/compare";
  }

  sort(column) {
    const down = this.sorted?.column === column ? !this.sorted.down : Boolean(this.columns[column].number);
    this.sorted = { column, down };
    this.refresh();
  }

  ordered(runs) {
    if (!this.sorted) return runs;
    const key = this.columns[this.sorted.column].sort;
    const sign = this.sorted.down ? -1 : 1;
    const missing = (value) => value === undefined || value === null;
    return [...runs].sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (missing(left) || missing(right)) return missing(left) - missing(right);
      return sign * (left < right ? -1 : left > right ? 1 : 0);
    });
  }

  async refresh() {
    const { runs, folders = [] } = this.board;
    const found = runs.filter((run) => matches(this.words, run.name, run.label, run.place, run.algorithm, run.env, run.status, `seed ${run.seed}`));
    show(this.title, found.length === runs.length ? `${runs.length} run${runs.length === 1 ? "" : "s"}` : `${found.length} of ${runs.length} runs`);
    this.showCompare();
    const text = JSON.stringify([found, this.sorted, this.all]);
    if (text !== this.drawn) {
      this.drawn = text;
      this.drawTable(found, runs.length, folders);
    }
    const stamp = JSON.stringify(found.map((run) => [run.id, run.changed]));
    if (stamp !== this.stamp) {
      this.stamp = stamp;
      await this.curves.update(found.length === runs.length ? null : found.map((run) => run.id));
    }
  }

  drawTable(found, whole, folders) {
    if (!found.length) {
      return show(this.rows, h("p", { class: "quiet" }, whole ? "No run matches." : `There is no run in ${folders.join(", ")} yet: it appears here when it begins.`));
    }
    const ordered = this.ordered(found);
    const rows = this.all ? ordered : ordered.slice(0, MOST_ROWS);
    const focused = document.activeElement?.closest?.(".runs button")?.textContent.replace(/ [↑↓]$/, "");
    show(this.rows, table(this.columns, rows, { sorted: this.sorted, onsort: (column) => this.sort(column) }),
      rows.length < found.length && h("button", { type: "button", onclick: () => { this.all = true; this.refresh(); } }, `Show all ${found.length}`));
    if (focused) [...this.rows.querySelectorAll("button")].find((one) => one.textContent.startsWith(focused))?.focus();
  }
}
