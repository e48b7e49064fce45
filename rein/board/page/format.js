// Numbers, times and colours for people.

export const COLORS = ["#2563eb", "#d97706", "#059669", "#c026d3", "#dc2626", "#0891b2", "#65a30d", "#7c3aed"];

export function number(value, digits = 4) {
  if (typeof value !== "number" || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return shortNumber(value);
  return String(Number(value.toPrecision(digits)));
}

export function shortNumber(value) {
  const size = Math.abs(value);
  for (const [factor, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= factor) return `${Number((value / factor).toPrecision(4))}${letter}`;
  }
  return size < 1e-12 ? "0" : String(Number(value.toPrecision(4)));
}

export function count(value) {
  return typeof value === "number" ? value.toLocaleString("en") : "–";
}

export function duration(seconds) {
  if (typeof seconds !== "number" || !isFinite(seconds)) return "–";
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(value) {
  return value >= 2 ** 20 ? `${(value / 2 ** 20).toFixed(1)} MB` : `${Math.max(1, Math.round(value / 1024))} kB`;
}

export function interval(pair) {
  return Array.isArray(pair) && pair.length === 2 ? `${number(pair[0])} to ${number(pair[1])}` : "";
}

export function when(text) {
  return typeof text === "string" ? text.replace("T", " ").replace(/[+-]\d{4}$/, "") : "";
}

export function matches(words, ...texts) {
  const whole = texts.filter((text) => text !== null && text !== undefined).join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => whole.includes(word));
}
