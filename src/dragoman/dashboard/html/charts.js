/* The curves: one SVG per quantity, drawn from the journals of the runs.

   A reader can point at a chart, or select it with the Tab key and use the arrow keys. All charts then show the
   values at the same update, in their legends. Otherwise the legends show the newest values. */

const CHARTS = [
  { id: "loss", title: "Loss", unit: "nats per target token", isWide: true, height: 300, digits: 3,
    lines: [["progress", "loss", "training", "training"], ["validations", "loss", "validation", "validation"]] },
  { id: "bleu", title: "Validation BLEU", unit: "greedy search, 0 to 100", fromZero: true, height: 220, digits: 1,
    lines: [["validations", "bleu", "validation", "validation"], ["validations", "general_bleu", "general text", "validation dotted"]] },
  { id: "rate", title: "Learning rate", unit: "per update", fromZero: true, height: 220, digits: null,
    lines: [["progress", "learning_rate", "learning rate", "plain"]] },
  { id: "speed", title: "Speed", unit: "target tokens per second", fromZero: true, height: 220, digits: 0,
    lines: [["progress", "tokens_per_second", "speed", "plain"]] },
  { id: "norm", title: "Gradient norm", unit: "last gradient, before clipping", fromZero: true, height: 220, digits: 3,
    lines: [["progress", "grad_norm", "gradient norm", "plain"]] },
];
const MARGIN = { left: 54, right: 16, top: 14, bottom: 40 };
const drawn = new Map(); /* What pointing at a chart needs, by the name of the chart. */

/* ---- the points of a chart ---- */

function seriesOf(chart) {
  return runs.flatMap((run) => chart.lines.map(([list, name, label, style]) => ({
    run, label: isOverlay ? `${run.heading.name}${chart.lines.length > 1 ? `, ${label}` : ""}` : label, style,
    isValidation: list === "validations",
    points: run[list].filter((entry) => typeof entry[name] === "number")
      .map((entry) => ({ x: axisValue(run, entry), y: entry[name], step: entry.step }))
      .filter((point) => point.x !== null),
  }))).filter((series) => series.points.length);
}

function axisValue(run, entry) {
  if (chosen.axis === "updates") return entry.step;
  return typeof entry.seconds === "number" ? entry.seconds : secondsAt(run, entry.step);
}

function axisEnd() {
  const ends = runs.flatMap((run) => [last(run.progress), last(run.validations)])
    .map((entry, index) => (entry ? axisValue(runs[index >> 1], entry) : 0));
  return Math.max(...ends, chosen.axis === "updates" ? 10 : 1);
}

function numberText(chart, value) {
  return chart.digits === null ? value.toExponential(2).replace("e-", "e−") : value.toLocaleString("en-US",
    { minimumFractionDigits: chart.digits, maximumFractionDigits: chart.digits });
}

/* The point nearest to a position on the horizontal axis. */
function nearest(points, x) {
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle].x < x) low = middle;
    else high = middle;
  }
  return Math.abs(points[low].x - x) <= Math.abs(points[high].x - x) ? points[low] : points[high];
}

/* A path through the points. Where several share a pixel column, it shows the lowest and the highest. */
function pathOf(points, toX, toY) {
  const parts = [];
  let column = null;
  const flush = () => {
    if (!column) return;
    const extremes = column.low === column.high ? [column.low] : [column.low, column.high].sort((a, b) => a.x - b.x);
    for (const point of extremes) parts.push(`${parts.length ? "L" : "M"}${toX(point.x).toFixed(1)} ${toY(point.y).toFixed(1)}`);
  };
  for (const point of points) {
    const pixel = Math.round(toX(point.x));
    if (column && column.pixel === pixel) {
      if (point.y < column.low.y) column.low = point;
      if (point.y > column.high.y) column.high = point;
    } else {
      flush();
      column = { pixel, low: point, high: point };
    }
  }
  flush();
  return parts.join("");
}

/* ---- drawing ---- */

function buildCharts() {
  byId("charts").replaceChildren(...CHARTS.map((chart) => {
    const svg = svgElement("svg", { id: `chart-${chart.id}`, tabindex: 0, role: "application", "aria-roledescription": "chart" });
    svg.addEventListener("pointermove", (event) => pointAt(chart, event));
    svg.addEventListener("pointerdown", (event) => pointAt(chart, event));
    svg.addEventListener("pointerleave", () => point(null));
    svg.addEventListener("keydown", (event) => moveByKey(chart, event));
    svg.addEventListener("blur", () => point(null));
    return element("figure", { className: chart.isWide ? "chart wide" : "chart" },
      element("h3", {}, `${chart.title} `, element("small", {}, chart.unit)), element("ul", { id: `legend-${chart.id}` }), svg);
  }));
  byId("axes").replaceChildren(...[["updates", "By update"], ["seconds", "By training time"]].map(([axis, label]) =>
    element("button", { type: "button", "data-axis": axis, "aria-pressed": String(axis === chosen.axis),
      onclick: () => {
        Object.assign(chosen, { axis, pointer: null });
        for (const button of byId("axes").children) button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
        drawCharts();
      } }, label)));
}

function drawCharts() {
  const end = axisEnd();
  for (const chart of CHARTS) drawChart(chart, end);
  drawPointer();
}

function drawChart(chart, end) {
  const svg = byId(`chart-${chart.id}`);
  const width = Math.max(svg.clientWidth, 200);
  const series = seriesOf(chart);
  svg.setAttribute("viewBox", `0 0 ${width} ${chart.height}`);
  svg.setAttribute("height", chart.height);
  const [low, high] = valueRange(series.flatMap((line) => line.points.map((entry) => entry.y)), chart.fromZero);
  const [right, bottom] = [width - MARGIN.right, chart.height - MARGIN.bottom];
  const toX = (x) => MARGIN.left + (x / end) * (right - MARGIN.left);
  const toY = (y) => bottom - ((y - low) / (high - low)) * (bottom - MARGIN.top);
  const guides = svgElement("g", { class: "guides" });
  svg.replaceChildren(...axisParts(low, high, end, { width, right, bottom, toX, toY }), ...skipParts(chart, toX, bottom),
    ...series.flatMap((line) => lineParts(line, toX, toY)), ...bestParts(chart, toX, toY), guides);
  if (!series.length) {
    svg.append(svgElement("text", { x: (MARGIN.left + right) / 2, y: bottom / 2 + 6, "text-anchor": "middle" }, "no values yet"));
  }
  svg.setAttribute("aria-label", `${chart.title}. ${series.map((line) => {
    const [from, to] = [line.points[0], last(line.points)];
    return `${line.label}: ${numberText(chart, from.y)} at ${updates(from.step)}, ${numberText(chart, to.y)} at ${updates(to.step)}`;
  }).join(". ") || "No values yet"}. Use the arrow keys to read other values.`);
  drawn.set(chart.id, { series, toX, toY, right, bottom, end, guides });
}

function axisParts(low, high, end, { width, right, bottom, toX, toY }) {
  const rows = ticks(low, high, Math.max(3, Math.round(bottom / 42)));
  const [unit, size] = chosen.axis === "updates" ? ["updates", 1] : timeUnit(end);
  const columns = ticks(0, end / size, Math.max(2, Math.round((right - MARGIN.left) / 75)));
  return [
    ...rows.numbers.flatMap((value) => [
      svgElement("line", { class: "gridline", x1: MARGIN.left, x2: right, y1: toY(value), y2: toY(value) }),
      svgElement("text", { x: MARGIN.left - 7, y: toY(value) + 4, "text-anchor": "end" }, tickText(value, rows.step)),
    ]),
    ...columns.numbers.map((value) => {
      const isLast = toX(value * size) > width - 24;
      return svgElement("text", { x: isLast ? width - 2 : toX(value * size), y: bottom + 17, "text-anchor": isLast ? "end" : "middle" }, tickText(value, columns.step));
    }),
    ...columns.numbers.map((value) => svgElement("line", { class: "baseline", x1: toX(value * size), x2: toX(value * size), y1: bottom, y2: bottom + 4 })),
    svgElement("line", { class: "baseline", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    svgElement("text", { x: (MARGIN.left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, unit === "updates" ? unit : `training time (${unit})`),
  ];
}

function lineParts({ run, style, points, isValidation }, toX, toY) {
  const parts = [svgElement("path", { class: `line ${style} ${run.style}`, d: pathOf(points, toX, toY) })];
  const isSparse = points.length * 14 < toX(last(points).x) - toX(points[0].x) || points.length === 1;
  if (isValidation && isSparse) {
    parts.push(...points.map((entry) => svgElement("circle", { class: `dot ${run.style}`, cx: toX(entry.x), cy: toY(entry.y), r: 3 })));
  }
  return parts;
}

/* A ring around the best validation; the legend has its numbers. */
function bestParts(chart, toX, toY) {
  if (chart.id !== "bleu") return [];
  return runs.flatMap((run) => {
    const best = bestOf(run);
    if (!best || best.bleu === null) return [];
    return [svgElement("circle", { class: `best ${run.style}`, cx: toX(axisValue(run, best)), cy: toY(best.bleu), r: 7 })];
  });
}

function bestText(chart, { run, style }) {
  const best = bestOf(run);
  if (chart.id !== "bleu" || style !== "validation" || !best || best.bleu === null) return null;
  return element("span", {}, `best ${best.bleu.toFixed(1)} at ${updates(best.step)}`);
}

function skipParts(chart, toX, bottom) {
  if (chart.id !== "loss") return [];
  return runs.flatMap((run) => run.skipped.map((step) => {
    const x = toX(axisValue(run, { step }));
    return svgElement("line", { class: "skip", x1: x, x2: x, y1: bottom - 9, y2: bottom });
  }));
}

/* ---- pointing at a value ---- */

function pointAt(chart, event) {
  const { end, right } = drawn.get(chart.id);
  const frame = byId(`chart-${chart.id}`).getBoundingClientRect();
  const x = ((event.clientX - frame.left - MARGIN.left) / (right - MARGIN.left)) * end;
  point(clamp(x, 0, end));
}

function moveByKey(chart, event) {
  const { series, end } = drawn.get(chart.id);
  const offset = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
  if (offset === undefined || !series.length) return;
  event.preventDefault();
  const { points } = series.reduce((longest, line) => (line.points.length > longest.points.length ? line : longest));
  const current = points.indexOf(nearest(points, chosen.pointer === null ? end : chosen.pointer));
  point(points[clamp(current + offset, 0, points.length - 1)].x);
  byId("chart-reading").textContent = `${chart.title}, ${byId("pointer-text").textContent}: ${byId(`legend-${chart.id}`).innerText.replaceAll("\n", " ")}`;
}

function point(x) {
  chosen.pointer = x;
  drawPointer();
}

function drawPointer() {
  const x = chosen.pointer;
  for (const chart of CHARTS) {
    const { series, toX, toY, bottom, guides } = drawn.get(chart.id);
    const shown = series.map((line) => [line, x === null ? last(line.points) : nearest(line.points, x)]);
    byId(`legend-${chart.id}`).replaceChildren(...shown.map(([line, entry]) => element("li", {}, lineKey(line.run, line.style),
      `${line.label} `, element("b", {}, numberText(chart, entry.y)), bestText(chart, line))));
    guides.replaceChildren(...(x === null ? [] : [svgElement("line", { class: "guide", x1: toX(x), x2: toX(x), y1: MARGIN.top, y2: bottom }),
      ...shown.map(([line, entry]) => svgElement("circle", { class: `dot at ${line.run.style}`, cx: toX(entry.x), cy: toY(entry.y), r: 4.5 }))]));
  }
  const [unit, size] = timeUnit(x || 0);
  if (x === null) byId("pointer-text").textContent = "newest values; point at a chart for others";
  else byId("pointer-text").textContent = chosen.axis === "updates" ? `values nearest to ${updates(x)}` : `values nearest to ${(x / size).toFixed(1)} ${unit}`;
}

function lineKey(run, style) {
  const svg = svgElement("svg", { class: "key", viewBox: "0 0 30 12", "aria-hidden": "true" },
    svgElement("line", { class: `${run.style} ${style}`, x1: 1, x2: 29, y1: 6, y2: 6 }));
  if (style.startsWith("validation")) svg.append(svgElement("circle", { class: `dot ${run.style}`, cx: 15, cy: 6, r: 3 }));
  return svg;
}

/* ---- notes and table ---- */

function drawNotes() {
  const smoothing = runs.map((run) => run.heading.label_smoothing);
  const smoothed = smoothing.some((value) => value > 0)
    ? `The training loss includes label smoothing (${[...new Set(smoothing)].join(" and ")}); the validation loss does not, so they cannot be compared. ` : "";
  const skipped = runs.reduce((sum, run) => sum + run.skipped.length, 0);
  const skips = skipped ? `${whole(skipped)} skipped update${skipped === 1 ? "" : "s"} (loss or gradient not finite), marked at the bottom of the loss chart. ` : "";
  byId("curve-notes").textContent = `${smoothed}${skips}`;
}

function drawTables() {
  byId("tables").replaceChildren(...runs.map((run) => {
    const hasGeneral = run.validations.some((validation) => validation.general_bleu !== null);
    const names = ["update", "validation loss", "BLEU", ...(hasGeneral ? ["general BLEU"] : []), ""];
    const best = bestOf(run);
    const text = (value, digits) => (value === null ? "–" : value.toFixed(digits));
    return element("table", {}, element("caption", { className: "soft small" }, run.heading.name),
      element("thead", {}, element("tr", {}, ...names.map((name) => (name ? element("th", { scope: "col", className: "number" }, name) : element("td"))))),
      element("tbody", {}, ...run.validations.map((validation) => element("tr", { className: validation === best ? "on" : "" },
        element("td", { className: "number" }, whole(validation.step)), element("td", { className: "number" }, text(validation.loss, 3)),
        element("td", { className: "number" }, text(validation.bleu, 1)),
        hasGeneral ? element("td", { className: "number" }, text(validation.general_bleu, 1)) : null,
        element("td", {}, validation === best ? "best" : "")))));
  }));
}
