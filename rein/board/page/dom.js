// Elements without markup: whatever comes from a run becomes a text node or an attribute, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else if (name === "width%") element.style.width = `${value}%`;
    else if (name === "color") element.style.setProperty("--color", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

// An HTML element: h("p", {class: "quiet", onclick: act}, "text", other).
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// An SVG element.
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function show(container, ...children) {
  container.replaceChildren(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
}

// A table; each column is {title, cell: (row) => node or text, number, sort: (row) => key, span}. On a narrow screen a row
// becomes a card, in which `span` gives a cell a line of its own: "first" the first one.
export function table(columns, rows, { rowClass = () => null, sorted = null, onsort = null, caption = null } = {}) {
  const head = columns.map((column, index) => {
    const sign = sorted && sorted.column === index ? (sorted.down ? " ↓" : " ↑") : "";
    const order = sorted && sorted.column === index ? (sorted.down ? "descending" : "ascending") : null;
    const title = onsort && column.sort
      ? h("button", { type: "button", class: "plain", onclick: () => onsort(index) }, column.title + sign)
      : column.title;
    return h("th", { scope: "col", class: column.number && "number", "aria-sort": order }, title);
  });
  const body = rows.map((row) => h("tr", { class: rowClass(row) }, columns.map((column) =>
    h("td", { class: [column.number && "number", column.span].filter(Boolean).join(" ") || null, "data-label": column.title }, column.cell(row) ?? ""))));
  return h("div", { class: "wide" },
    h("table", {}, caption && h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}
