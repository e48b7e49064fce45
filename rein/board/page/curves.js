// A grid of charts, one for each metric of some runs; a chart asks for its curves when it comes into sight.

import { ask } from "./api.js";
import { LineChart } from "./chart.js";
import { h, show } from "./dom.js";
import { COLORS, matches } from "./format.js";

const POINTS = 400;

export class Curves {
  constructor({ grouped = true, controls = true } = {}) {
    this.choice = { x: "env_steps", smooth: "1", group: grouped ? "1" : "0", words: "" };
    this.cards = new Map();
    this.colors = new Map();
    this.runs = null;
    this.grid = h("div", { class: "charts" });
    this.element = h("section", { "aria-label": "Curves" }, controls && this.controls(), this.grid);
    this.observer = new IntersectionObserver((seen) => {
      for (const one of seen) {
        const card = this.cards.get(one.target.dataset.metric);
        if (card) { card.visible = one.isIntersecting; this.load(card); }
      }
    }, { rootMargin: "200px" });
  }

  controls() {
    const select = (label, key, options) => h("label", {}, label, h("select", {
      onchange: (event) => { this.choice[key] = event.target.value; this.reload(); },
    }, options.map(([value, text]) => h("option", { value, selected: this.choice[key] === value }, text))));
    return h("div", { class: "controls" },
      h("input", { type: "search", placeholder: "Search metrics", "aria-label": "Search metrics",
        oninput: (event) => { this.choice.words = event.target.value; this.arrange(); } }),
      select("Against", "x", [["env_steps", "environment steps"], ["iterations", "iterations"], ["seconds", "seconds"]]),
      select("Smooth", "smooth", [["1", "not"], ["5", "over 5 points"], ["20", "over 20"], ["100", "over 100"]]),
      select("Seeds", "group", [["1", "in one band"], ["0", "one line each"]]));
  }

  // Shows the curves of some runs; null means all of them.
  async update(ids) {
    this.runs = ids;
    this.stamp = (this.stamp ?? 0) + 1;
    const stamp = this.stamp;
    const metrics = ids && !ids.length ? [] : await ask("metrics", this.chosen());
    if (stamp !== this.stamp) return;
    const names = new Set(metrics.map((one) => one.name));
    for (const [name, card] of this.cards) if (!names.has(name)) this.remove(name, card);
    for (const metric of metrics) if (!this.cards.has(metric.name)) this.add(metric);
    this.arrange();
    this.reload();
  }

  chosen() {
    return this.runs ? { runs: this.runs.join(",") } : {};
  }

  add({ name, title }) {
    const element = h("div", { class: "card", "data-metric": name, title: name });
    const chart = new LineChart({ onexpand: () => { element.classList.toggle("large"); chart.height = element.classList.contains("large") ? 420 : 230; chart.draw(); } });
    show(chart.title, title);
    element.append(chart.element);
    this.cards.set(name, { name, title, element, chart, visible: false });
    this.observer.observe(element);
  }

  remove(name, card) {
    this.observer.unobserve(card.element);
    card.chart.observer.disconnect();
    card.element.remove();
    this.cards.delete(name);
  }

  arrange() {
    const shown = [...this.cards.values()].filter((card) => matches(this.choice.words, card.name, card.title));
    const wanted = shown.map((card) => card.element);
    const now = [...this.grid.children];
    if (wanted.length === now.length && wanted.every((one, i) => one === now[i])) return;
    show(this.grid, wanted.length ? wanted : h("p", { class: "quiet" }, "There are no curves to show."));
  }

  reload() {
    for (const card of this.cards.values()) {
      card.fresh = false;
      this.load(card);
    }
  }

  async load(card) {
    if (!card.visible || card.fresh) return;
    card.fresh = true;
    const asked = card.asked = Symbol("request");
    const { x, smooth, group } = this.choice;
    try {
      const data = await ask("curves", { metric: card.name, x, smooth, group, points: POINTS, ...this.chosen() });
      // Answers may overtake each other; only the last question counts.
      if (card.asked === asked) card.chart.update({ ...data, title: card.title }, (band) => this.color(band.whole_label));
    } catch (error) {
      card.chart.message(error.message);
    }
  }

  color(label) {
    if (!this.colors.has(label)) this.colors.set(label, COLORS[this.colors.size % COLORS.length]);
    return this.colors.get(label);
  }
}
