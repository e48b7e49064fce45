// The zoo's evidence: what every entry was measured at, against its bar.

import { ask } from "./api.js";
import { LineChart } from "./chart.js";
import { h, show, table } from "./dom.js";
import { count, duration, interval, matches, number } from "./format.js";

function score(value, isShare) {
  return isShare ? `${number(100 * value, 3)} %` : number(value);
}

function verdict(record) {
  if (!record) return h("span", { class: "status unknown" }, "unverified");
  if (record.is_stale) return h("span", { class: "status stopped" }, "stale");
  return record.met ? h("span", { class: "status finished" }, "met") : h("span", { class: "status failed" }, "not met");
}

export class ZooView {
  constructor() {
    this.words = "";
    this.title = h("h1", {}, "Zoo");
    this.body = h("div", { class: "runs" }, h("p", { class: "quiet" }, "Reading the records …"));
    this.element = h("div", {}, h("div", { class: "heading" }, this.title,
      h("input", { type: "search", placeholder: "Search entries ( / )", "aria-label": "Search entries", oninput: (event) => { this.words = event.target.value; this.draw(); } })),
    h("p", { class: "quiet" }, "What `rein verify` measured: mean over seeds of the deterministic policy on held-out episodes."), this.body);
  }

  async refresh() {
    if (this.entries) return;
    this.entries = await ask("zoo");
    this.draw();
  }

  draw() {
    if (!this.entries) return;
    const found = this.entries.filter((one) => matches(this.words, one.name, one.algorithm, one.env, one.summary));
    const isShare = (one) => ["success_rate", "test_acc"].includes(one.measure);
    show(this.title, `${found.length} entries of the zoo`);
    show(this.body, table([
      { title: "Entry", span: "first", cell: (one) => h("a", { href: `#/zoo/${one.name}` }, one.name, h("small", {}, one.summary)) },
      { title: "Evidence", cell: (one) => verdict(one.record) },
      { title: "Score", number: true, cell: (one) => (one.record ? score(one.record.score, isShare(one)) : "–") },
      { title: "Bar", number: true, cell: (one) => one.bar_text },
      { title: "Seeds", number: true, cell: (one) => (one.record ? String(one.record.seeds.length) : "") },
      { title: "Steps", number: true, cell: (one) => (one.epochs ? `${one.epochs} epochs` : count(one.env_steps)) },
      { title: "Minutes", number: true, cell: (one) => (one.record ? number(one.record.minutes, 3) : "") },
      { title: "Reference", span: "alone", cell: (one) => one.reference },
    ], found));
  }
}

export class EntryView {
  constructor(name) {
    this.name = name;
    this.element = h("div", {}, h("h1", {}, name));
  }

  async refresh() {
    if (this.done) return;
    this.done = true;
    let entry;
    try {
      entry = await ask(`zoo/${this.name}`);
    } catch (error) {
      return show(this.element, h("h1", {}, "There is no such entry"), h("p", { class: "quiet" }, error.message));
    }
    show(this.element, h("h1", {}, entry.name, " ", verdict(entry.record)), h("p", {}, entry.summary),
      ...(entry.record ? this.record(entry, entry.record) : [h("p", { class: "quiet" }, "There is no record of it yet: ", h("code", {}, `rein verify ${entry.name}`))]),
      h("h2", {}, "Conf"), h("pre", { tabindex: 0 }, entry.conf));
  }

  record(entry, record) {
    const chart = new LineChart({ height: 320 });
    const bands = record.seeds.filter((seed) => seed.x.length).map((seed) => ({
      label: `seed ${seed.seed}`, whole_label: `seed ${seed.seed}`, x: seed.x, mean: seed.y, low: null, high: null, runs: [],
    }));
    const [title, xLabel] = record.epochs ? ["Loss", "passes"]
      : record.env_steps ? ["Training return", "environment steps"] : ["Evaluation return", "iterations"];
    chart.update({ title, x_label: xLabel, bars: entry.bars, bands });
    const facts = [["score", score(record.score, record.is_share)], ["bar", entry.bar_text || "none"],
      ["IQM over episodes", `${number(record.iqm)} (${interval(record.iqm_interval)})`], ["reference", entry.reference ?? "none"],
      ["measured", [record.date, `version ${record.version}`].filter(Boolean).join(", ")]];
    return [
      h("dl", { class: "facts" }, facts.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)))),
      bands.length > 0 && h("div", { class: "card" }, chart.element),
      table([
        { title: "Seed", number: true, cell: (seed) => String(seed.seed) },
        { title: "Score", number: true, cell: (seed) => score(seed.score, record.is_share) },
        { title: "Steps", number: true, cell: (seed) => count(seed.env_steps) },
        { title: "Time", number: true, cell: (seed) => duration(seed.seconds) },
      ], record.seeds),
      h("h2", {}, "Again"), h("pre", { tabindex: 0 }, record.again),
    ];
  }
}
