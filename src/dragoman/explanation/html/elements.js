"use strict";
/* Shared by the explanation page and the dashboard: helpers for elements and numbers.

   Text is inserted as text nodes, never as markup. All script files of a page are joined into one script. */

const SPACE = "▁";
const byId = (id) => document.getElementById(id);

/* ---- elements ---- */

function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node && key !== "style") node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function svgElement(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const visibleSpaces = (token) => token.replaceAll(SPACE, "␣");
const isSpecial = (token) => token === "⟨begin⟩" || token === "⟨end⟩";

function tokenElement(token) {
  const node = element("bdi", { className: isSpecial(token) ? "token special" : "token" });
  token.split(SPACE).forEach((part, index) => {
    if (index) node.append(element("span", { className: "space", title: "a space" }, "␣"));
    node.append(part);
  });
  return node;
}

function bar(share) {
  const inner = element("i");
  inner.style.width = `${100 * share}%`;
  return element("span", { className: "bar", "aria-hidden": "true" }, inner);
}

function withCommas(parts) {
  return parts.flatMap((part, index) => (index ? [", ", ...part] : part));
}

/* ---- numbers ---- */

const percent = (share, digits = 2) => `${(100 * share).toFixed(digits)} %`;
function probabilityText(share) {
  if (share >= 0.0001 || share === 0) return percent(share);
  return `${(100 * share).toPrecision(2)} %`;
}
const signed = (value, digits) => value.toFixed(digits).replace("-", "−");
const clamp = (value, low, high) => Math.max(low, Math.min(value, high));
