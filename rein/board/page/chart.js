// Line charts with bands, bars, a legend, and values under the pointer or the arrow keys.

import { h, s, show } from "./dom.js";
import { COLORS, number, shortNumber } from "./format.js";

const MARGIN = { left: 52, right: 12, top: 10, bottom: 38 };

function ticks(low, high, about) {
  if (!(high > low)) {
    const spread = Math.abs(low) * 0.1 || 1;
    [low, high] = [low - spread, high + spread];
  }
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let i = Math.floor(low / step + 1e-9); i <= Math.ceil(high / step - 1e-9); i++) found.push(i * step);
  return found;
}

function ends(lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const one of list ?? []) {
    if (one < low) low = one;
    if (one > high) high = one;
  }
  return [low, high];
}

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle; else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

class Frame {
  constructor(bands, bars, width, height) {
    this.width = width;
    this.height = height;
    this.right = width - MARGIN.right;
    this.bottom = height - MARGIN.bottom;
    this.xRange = ends(bands.map((band) => band.x));
    const [low, high] = ends(bands.flatMap((band) => [band.mean, band.low, band.high, ...band.seeds.map((one) => one.y)])
      .concat([bars.map((bar) => bar.value)]));
    this.yTicks = ticks(low, high, 4);
    this.yRange = [Math.min(low, this.yTicks[0]), Math.max(high, this.yTicks.at(-1))];
    this.xTicks = ticks(...this.xRange, Math.max(2, Math.floor(width / 90)))
      .filter((one) => one >= this.xRange[0] && one <= this.xRange[1]);
  }
  x(value) {
    const [low, high] = this.xRange;
    return MARGIN.left + (value - low) / (high - low || 1) * (this.right - MARGIN.left);
  }
  y(value) {
    const [low, high] = this.yRange;
    return this.bottom - (value - low) / (high - low || 1) * (this.bottom - MARGIN.top);
  }
  path(xs, ys) {
    return xs.map((x, i) => `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(ys[i]).toFixed(1)}`).join("");
  }
}

function axes(frame, xLabel) {
  return [
    frame.yTicks.map((tick) => [
      s("line", { class: "grid", x1: MARGIN.left, x2: frame.right, y1: frame.y(tick), y2: frame.y(tick) }),
      s("text", { x: MARGIN.left - 6, y: frame.y(tick) + 4, "text-anchor": "end" }, shortNumber(tick)),
    ]),
    frame.xTicks.map((tick) => s("text", {
      x: Math.min(frame.x(tick), frame.right - 4), y: frame.bottom + 16, "text-anchor": "middle",
    }, shortNumber(tick))),
    s("text", { class: "axis", x: (MARGIN.left + frame.right) / 2, y: frame.height - 4, "text-anchor": "middle" }, xLabel),
  ];
}

function line(band, frame) {
  const color = band.color;
  const area = band.low && frame.path([...band.x, ...[...band.x].reverse()], [...band.high, ...[...band.low].reverse()]) + "Z";
  return s("g", {},
    band.seeds.map((one) => s("path", { d: frame.path(one.x, one.y), class: "seed", stroke: color })),
    area && s("path", { d: area, fill: color, class: "band" }),
    band.x.length === 1
      ? s("circle", { cx: frame.x(band.x[0]), cy: frame.y(band.mean[0]), r: 3, fill: color })
      : s("path", { d: frame.path(band.x, band.mean), class: "line", stroke: color }));
}

function barLine(bar, frame) {
  const y = frame.y(bar.value);
  return s("g", {},
    s("line", { class: "bar", x1: MARGIN.left, x2: frame.right, y1: y, y2: y }),
    s("text", { x: MARGIN.left + 6, y: y < MARGIN.top + 14 ? y + 13 : y - 4, class: "bar-label" }, bar.label));
}

// A figure that draws itself anew when its width, its data or the hidden lines change.
export class LineChart {
  constructor({ height = 230, onexpand = null } = {}) {
    this.height = height;
    this.hidden = new Set();
    this.data = null;
    this.title = h("span", {});
    const button = onexpand && h("button", { type: "button", class: "plain", title: "Larger or smaller", onclick: onexpand }, "⤢");
    this.plot = h("div", { class: "plot" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.legend = h("ul", { class: "legend" });
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, this.title, button), this.plot, this.tip, this.legend);
    this.observer = new ResizeObserver(() => { if (this.plot.clientWidth !== this.drawnWidth) this.draw(); });
    this.observer.observe(this.plot);
  }

  update(data, colorOf) {
    this.data = { ...data, bands: data.bands.map((band, i) => ({ seeds: [], ...band, color: colorOf?.(band) ?? COLORS[i % COLORS.length] })) };
    this.draw();
  }

  message(text) {
    this.data = null;
    show(this.plot, h("p", { class: "quiet" }, text));
  }

  draw() {
    if (!this.data) return;
    const { title, bands, bars = [], x_label: xLabel } = this.data;
    show(this.title, title);
    this.drawLegend(bands);
    const shown = bands.filter((band) => !this.hidden.has(band.whole_label) && band.x.length);
    this.drawnWidth = this.plot.clientWidth;
    if (!shown.length) return show(this.plot, h("p", { class: "quiet" }, bands.length ? "All lines are hidden." : "No run has recorded this."));
    const width = Math.max(240, this.drawnWidth || 420);
    const frame = this.frame = new Frame(shown, bars, width, this.height);
    this.shown = shown;
    this.cross = s("g", { class: "cross" });
    const said = shown.slice(0, 8).map((band) => `${band.label}: ${number(band.mean.at(-1))} at ${shortNumber(band.x.at(-1))}`);
    show(this.plot, s("svg", {
      width, height: this.height, viewBox: `0 0 ${width} ${this.height}`, role: "img", tabindex: 0,
      "aria-label": `${title} against ${xLabel}. ${said.join("; ")}`,
      onpointermove: (event) => this.point(event), onpointerleave: () => this.leave(), onblur: () => this.leave(),
      onkeydown: (event) => this.key(event),
    }, axes(frame, xLabel), shown.map((band) => line(band, frame)), bars.map((bar) => barLine(bar, frame)), this.cross));
  }

  drawLegend(bands) {
    if (bands.length < 2) return show(this.legend);
    show(this.legend, bands.map((band) => h("li", {}, h("button", {
      type: "button", class: "plain", "aria-pressed": String(!this.hidden.has(band.whole_label)), title: band.whole_label,
      color: band.color, onclick: () => this.toggle(band.whole_label),
    }, band.label + (band.runs?.length > 1 ? ` (${band.runs.length} runs)` : "")))));
  }

  toggle(label) {
    if (!this.hidden.delete(label)) this.hidden.add(label);
    this.draw();
  }

  point(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width * this.frame.width;
    const [low, high] = this.frame.xRange;
    const x = low + (share - MARGIN.left) / (this.frame.right - MARGIN.left) * (high - low);
    this.mark(Math.min(high, Math.max(low, x)));
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") return this.leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    const xs = this.shown[0].x;
    const now = this.marked === undefined ? xs.length : nearest(xs, this.marked);
    this.mark(xs[Math.min(xs.length - 1, Math.max(0, now + moves[event.key]))]);
  }

  mark(x) {
    this.marked = x;
    const frame = this.frame;
    const found = this.shown.map((band) => ({ band, i: nearest(band.x, x) }))
      .filter(({ band }) => x >= band.x[0] && x <= band.x.at(-1));
    if (!found.length) return this.leave();
    const at = found[0].band.x[found[0].i];
    show(this.cross,
      s("line", { x1: frame.x(at), x2: frame.x(at), y1: MARGIN.top, y2: frame.bottom }),
      found.map(({ band, i }) => s("circle", { cx: frame.x(band.x[i]), cy: frame.y(band.mean[i]), r: 3.5, fill: band.color })));
    const rows = found.sort((a, b) => b.band.mean[b.i] - a.band.mean[a.i]).slice(0, 12);
    show(this.tip, h("b", {}, shortNumber(at)), rows.map(({ band, i }) => h("div", { color: band.color, class: "swatch" },
      `${this.shown.length > 1 ? `${band.label}: ` : ""}${number(band.mean[i])}`
      + (band.low && band.high[i] > band.low[i] ? ` (${number(band.low[i])} to ${number(band.high[i])})` : ""))));
    this.tip.hidden = false;
    const left = frame.x(at) / frame.width > 0.5;
    this.tip.style.left = left ? "auto" : `${frame.x(at) + 12}px`;
    this.tip.style.right = left ? `${frame.width - frame.x(at) + 12}px` : "auto";
  }

  leave() {
    this.marked = undefined;
    this.tip.hidden = true;
    if (this.cross) show(this.cross);
  }
}

// Returns of single episodes: one dot each, with the mean of each evaluation.
export function episodeChart(evaluations, bars) {
  const usable = evaluations.filter((one) => Array.isArray(one.returns) && typeof one.mean_return === "number"
    && typeof one.env_steps === "number");
  if (!usable.length) return null;
  const band = {
    label: "mean", whole_label: "mean", x: usable.map((one) => one.env_steps), mean: usable.map((one) => one.mean_return),
    low: usable.map((one) => one.ci95?.[0] ?? one.mean_return), high: usable.map((one) => one.ci95?.[1] ?? one.mean_return),
    seeds: [], color: COLORS[0],
  };
  const width = 760, height = 280;
  const every = usable.flatMap((one) => one.returns);
  const frame = new Frame([band, { x: band.x, mean: every, seeds: [] }], bars, width, height);
  const dots = usable.flatMap((one) => one.returns.slice(0, 200).map((value) =>
    s("circle", { cx: frame.x(one.env_steps), cy: frame.y(value), r: 2.5, class: "dot" }, s("title", {}, number(value)))));
  return h("figure", { class: "chart" }, h("figcaption", {}, "Return of every evaluation episode"),
    s("svg", { viewBox: `0 0 ${width} ${height}`, class: "scaled", role: "img", "aria-label": "Return of every evaluation episode" },
      axes(frame, "environment steps"), line(band, frame), dots, bars.map((bar) => barLine(bar, frame))));
}
