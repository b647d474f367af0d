/* ---- section 2: sinusoidal positions ---- */

const BASE = 10000;
const POSITIONS = 64;
const SIZES = [8, 16, 32, 64];
const LOWEST = -0.1; // The curves of these sizes are above zero.

/* p(t)[2i] = sin(t / base^(2i/d)), p(t)[2i + 1] = cos(t / base^(2i/d)) */
function positionVector(position, size) {
  return Array.from({ length: size }, (_, feature) => {
    const angle = position * BASE ** (-(2 * Math.floor(feature / 2)) / size);
    return feature % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

function clockFigure(position, size, wave) {
  const rate = BASE ** (-(2 * wave) / size);
  const angle = position * rate;
  const hand = svgElement("line", { x1: 50, y1: 50, x2: 50 + 40 * Math.sin(angle), y2: 50 - 40 * Math.cos(angle) });
  const face = svgElement("svg", { viewBox: "0 0 100 100", "aria-hidden": "true" }, svgElement("circle", { cx: 50, cy: 50, r: 46 }), hand);
  const period = (2 * Math.PI) / rate;
  return element("figure", {}, face, element("figcaption", {}, `one turn: ${period < 100 ? period.toFixed(1) : Math.round(period).toLocaleString("en")} tokens`));
}

function drawWaves(position, size) {
  const canvas = element("canvas", { width: size, height: POSITIONS, role: "img", "aria-label": "Position vectors as colors" });
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const [plus, minus] = ["--plus", "--minus"].map((name) => style.getPropertyValue(name));
  for (let row = 0; row < POSITIONS; row += 1) {
    positionVector(row, size).forEach((value, column) => {
      context.fillStyle = `rgb(${value < 0 ? minus : plus} / ${Math.abs(value)})`;
      context.fillRect(column, row, 1, 1);
    });
  }
  const cursor = element("div", { className: "cursor" });
  Object.assign(cursor.style, { top: `${(100 * position) / POSITIONS}%`, height: `${100 / POSITIONS}%` });
  byId("waves").replaceChildren(canvas, cursor);
}

function similarities(position, size) {
  const own = positionVector(position, size);
  return Array.from({ length: POSITIONS }, (_, other) =>
    positionVector(other, size).reduce((sum, value, feature) => sum + value * own[feature], 0) / (size / 2));
}

function drawSimilarity(position, size) {
  const [width, height, left] = [640, 180, 30];
  const x = (other) => left + ((width - left) * other) / (POSITIONS - 1);
  const y = (value) => ((1 - value) * height) / (1 - LOWEST);
  const line = similarities(position, size).map((value, other) => `${other ? "L" : "M"}${x(other).toFixed(1)},${y(value).toFixed(1)}`).join("");
  const text = (content, attributes) => svgElement("text", attributes, content);
  byId("similarity").replaceChildren(svgElement("svg", { viewBox: `0 -10 ${width} ${height + 34}`, role: "img", "aria-label": `Similarity of position ${position} with positions 0 to ${POSITIONS - 1}` },
    svgElement("line", { x1: left, x2: width, y1: y(0), y2: y(0) }),
    svgElement("line", { x1: x(position), x2: x(position), y1: 0, y2: height, class: "here" }),
    svgElement("path", { d: line }),
    text("1", { x: left - 8, y: y(1) + 4, "text-anchor": "end" }), text("0", { x: left - 8, y: y(0) + 4, "text-anchor": "end" }),
    text("position s →", { x: width, y: height + 18, "text-anchor": "end" }), text(`t = ${position}`, { x: x(position) + 5, y: height - 4 })));
}

function drawClocks() {
  const [position, size] = [Number(byId("position").value), Number(byId("size").value)];
  byId("position-value").textContent = String(position);
  byId("clocks").replaceChildren(...Array.from({ length: size / 2 }, (_, wave) => clockFigure(position, size, wave)));
  drawWaves(position, size);
  drawSimilarity(position, size);
}

byId("size").replaceChildren(...SIZES.map((size) => element("option", { value: size, selected: size === 16 }, String(size))));
byId("size").addEventListener("change", drawClocks);
byId("position").addEventListener("input", drawClocks);
drawClocks();
