"use strict";
/* Draws the page from the numbers in #data. One state, one function that draws each part. Text goes in as
   text, never as markup. */

const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = {
  encoder: ["Source reads source", "Encoder self-attention: each source token gathers what it needs from the others."],
  decoder: ["Target reads target", "Decoder self-attention: each token looks back at those before it, and at itself. What comes later is hidden."],
  cross: ["Target reads source", "Cross-attention: while a token is written, the source is asked for what belongs there."],
};
const FATES = {
  kept: ["●", "kept", (width) => (width > 1 ? `among the best ${width} that go on` : "the likeliest goes on")],
  ended: ["◆", "put away", () => "it has ended; compared with others when the search is over"],
  cut: ["◆", "cut", () => "the length limit; compared as it is"],
  dropped: ["○", "dropped", (width) => (width > 1 ? `its score is below that of number ${width}` : "its score is below the best")],
  late: ["○", "dropped", (width) => `it has ended, but not among the best ${width}`],
  left: ["○", "left", () => "enough others have ended: the search is over"],
};
const byId = (id) => document.getElementById(id);

/* ---- small helpers ---- */

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "style") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const SPACE = "▁";
const seen = (token) => token.replaceAll(SPACE, "␣");
const isSpecial = (token) => token === "⟨begin⟩" || token === "⟨end⟩";

function piece(token) {
  const made = element("bdi", { className: isSpecial(token) ? "token special" : "token" });
  const parts = token.split(SPACE);
  parts.forEach((part, place) => {
    if (place) made.append(element("span", { className: "space", title: "a space" }, "␣"));
    made.append(part);
  });
  return made;
}

const percent = (share, digits = 2) => `${(100 * share).toFixed(digits)} %`;
function chance(share) {
  if (share >= 0.0001 || share === 0) return percent(share);
  return `${(100 * share).toPrecision(2)} %`;
}
const signed = (value, digits) => value.toFixed(digits).replace("-", "−");

function bar(share) {
  const inner = element("i");
  inner.style.width = `${100 * share}%`;
  return element("span", { className: "bar", "aria-hidden": "true" }, inner);
}

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function fixed({ decimals, data: text, bits }) {
  const raw = bytes(text).buffer;
  const whole = bits === 32 ? new Int32Array(raw) : new Int16Array(raw);
  return { decimals, whole, at: (place) => whole[place] / 10 ** decimals };
}

/* ---- the numbers ---- */

const looks = data.looks.map((look) => {
  const [heads, rows, columns] = look.shape;
  const [weights, scores, mask] = [fixed(look.weights), fixed(look.scores), bytes(look.mask)];
  const place = (head, row, column) => (head * rows + row) * columns + column;
  const vectors = look.vectors && !look.vectors.isLeftOut
    ? { ...look.vectors, queries: fixed(look.vectors.queries), keys: fixed(look.vectors.keys) } : null;
  return {
    ...look, count: heads, rows, columns, vectors, hasProduct: look.vectors !== null,
    decimals: Math.min(scores.decimals, 3),
    weight: (head, row, column) => weights.at(place(head, row, column)),
    score: (head, row, column) => scores.at(place(head, row, column)),
    mayLook(row, column) {
      const bit = row * columns + column;
      return Boolean(mask[bit >> 3] & (128 >> (bit & 7)));
    },
  };
});
const kinds = Object.keys(KINDS);
const ofKind = (kind) => looks.filter((look) => look.kind === kind).sort((a, b) => a.layer - b.layer);
const written = data.words.map((word) => word.token);
const names = {
  encoder: [data.source, data.source],
  decoder: [data.read, data.read],
  cross: [written, data.source],
};

const state = { kind: "cross", layer: 0, head: 0, row: 0, column: 0, step: 1 };

function look() {
  return ofKind(state.kind)[state.layer];
}

function best(one, head, row) {
  let found = 0;
  for (let column = 1; column < one.columns; column += 1) {
    if (one.weight(head, row, column) > one.weight(head, row, found)) found = column;
  }
  return found;
}

function choose(change) {
  const before = { ...state };
  Object.assign(state, change);
  const layers = ofKind(state.kind);
  if (!layers.length) return;
  state.layer = Math.min(state.layer, layers.length - 1);
  const one = look();
  state.head = Math.min(state.head, one.count - 1);
  state.row = Math.max(0, Math.min(state.row, one.rows - 1));
  if (state.kind !== before.kind && !("column" in change)) state.column = best(one, state.head, state.row);
  state.column = Math.max(0, Math.min(state.column, one.columns - 1));
  const isOther = ["kind", "layer", "head"].some((name) => state[name] !== before[name]);
  drawAttention(isOther, state.kind !== before.kind);
}

/* ---- colours: one hue, from faint to strong; the same order of lightness for everybody ---- */

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const SCALES = {
  light: ["#f7f9fb", "#cfe0ef", "#8fbadd", "#3f86bf", "#14568f", "#06264a"],
  dark: ["#161d24", "#1b3a55", "#235f8f", "#3f90c9", "#8fcbf5", "#f1f9ff"],
};
function colours() {
  const stops = SCALES[dark.matches ? "dark" : "light"].map((stop) =>
    [1, 3, 5].map((from) => parseInt(stop.slice(from, from + 2), 16)));
  return (weight) => {
    const at = Math.sqrt(Math.min(Math.max(weight, 0), 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, channel) => Math.round(from + (at - low) * (stops[low + 1][channel] - from)));
  };
}

function paint(canvas, one, head) {
  canvas.width = one.columns;
  canvas.height = one.rows;
  const context = canvas.getContext("2d");
  const picture = context.createImageData(one.columns, one.rows);
  const colour = colours();
  for (let row = 0; row < one.rows; row += 1) {
    for (let column = 0; column < one.columns; column += 1) {
      const place = 4 * (row * one.columns + column);
      const hidden = dark.matches ? [44, 50, 57] : [226, 228, 230];
      const [red, green, blue] = one.mayLook(row, column) ? colour(one.weight(head, row, column)) : hidden;
      picture.data.set([red, green, blue, 255], place);
    }
  }
  context.putImageData(picture, 0, 0);
}

function legend() {
  const canvas = element("canvas", { width: 100, height: 1, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const colour = colours();
  for (let place = 0; place < 100; place += 1) {
    context.fillStyle = `rgb(${colour((place / 99) ** 2).join(" ")})`;
    context.fillRect(place, 0, 1, 1);
  }
  return element("div", { className: "legend" }, "0 %", canvas, "100 %",
    element("span", {}, "a quarter of the weight has half of the colour; grey is out of sight"));
}

/* ---- 1: words ---- */

function drawWords() {
  byId("cards").replaceChildren(...data.words.map((word) => {
    const others = word.alternatives.map(([token, share]) =>
      element("div", {}, element("dt", {}, piece(token)), element("dd", { className: "number" }, chance(share))));
    return element("li", {},
      element("div", { className: "said" }, piece(word.token), element("span", { className: "number" }, chance(word.probability))),
      bar(word.probability),
      element("dl", { "aria-label": "instead" }, ...others));
  }));
}

/* ---- 2: alignment ---- */

const alignments = data.alignments.map(fixed);
function drawAlignment() {
  const select = byId("alignment-layer");
  if (!alignments.length) {
    select.closest(".controls").hidden = true;
    byId("ribbons").replaceChildren(nothing("no cross-attention"));
    return;
  }
  alignments.forEach((_, layer) => select.append(element("option", { value: layer },
    `layer ${layer + 1}${layer === alignments.length - 1 ? " (the top)" : ""}, mean of its heads`)));
  select.value = alignments.length - 1;
  select.addEventListener("change", () => drawRibbons());
  drawRibbons();
}

function drawRibbons() {
  const table = alignments[Number(byId("alignment-layer").value)];
  const columns = data.source.length;
  const weight = (row, column) => table.at(row * columns + column);
  const box = byId("ribbons");
  const chip = (token, side, place) => {
    const show = () => mark(side, place);
    return element("button", { className: "chip", type: "button", onmouseenter: show, onfocus: show, onclick: show,
      "data-side": side, "data-place": place }, piece(token));
  };
  const above = element("div", { className: "row", dir: data.directions[0], role: "group", "aria-label": "source" },
    ...data.source.map((token, place) => chip(token, "source", place)));
  const below = element("div", { className: "row", dir: data.directions[1], role: "group", "aria-label": "target" },
    ...written.map((token, place) => chip(token, "target", place)));
  const svg = drawn("svg", { "aria-hidden": "true" });
  box.replaceChildren(svg, element("div", { className: "side" }, `source (${data.languages[0]})`), above,
    element("div", { className: "gap" }), below, element("div", { className: "side" }, `target (${data.languages[1]})`));
  box.classList.remove("dense");
  box.classList.toggle("dense", box.scrollWidth > box.parentElement.clientWidth);
  box.onmouseleave = () => mark(null);
  const lines = [];
  const frame = box.getBoundingClientRect();
  [...below.children].forEach((to, row) => [...above.children].forEach((from, column) => {
    const share = weight(row, column);
    if (share < 0.01) return;
    const [start, end] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
    const [x, y] = [start.left + start.width / 2 - frame.left, start.bottom - frame.top];
    const [u, v] = [end.left + end.width / 2 - frame.left, end.top - frame.top];
    const line = drawn("path", { d: `M${x} ${y}C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}`,
      "stroke-width": 0.6 + 12 * share });
    lines.push({ row, column, share, line });
    svg.append(line);
  }));
  const rest = (share) => (share < 0.05 ? 0 : 0.16 + 0.6 * share);
  function mark(side, place) {
    for (const { row, column, share, line } of lines) {
      const isOn = side === "target" ? row === place : column === place;
      line.style.opacity = side === null ? rest(share) : isOn ? 0.3 + 0.7 * share : 0.04;
    }
    for (const one of box.querySelectorAll(".chip")) {
      const [own, here] = [one.dataset.side, Number(one.dataset.place)];
      const share = own === side ? Number(here === place) : side === "target" ? weight(place, here) : side === "source" ? weight(here, place) : 0;
      one.classList.toggle("on", side !== null && share >= 0.1);
    }
    tell(side, place);
  }
  function tell(side, place) {
    const target = byId("alignment-read");
    if (side === null) {
      target.replaceChildren(element("span", { className: "soft" }, "Lines below 5 % are not drawn until you point at a token."));
      return;
    }
    const [tokens, own] = side === "target" ? [data.source, written[place]] : [written, data.source[place]];
    const shares = tokens.map((token, other) => [token, side === "target" ? weight(place, other) : weight(other, place)])
      .sort((a, b) => b[1] - a[1]).filter(([, share]) => share >= 0.005).slice(0, 6);
    const words = side === "target" ? " takes " : shares.length ? " is looked at: " : " is hardly looked at: always below 0.5 %";
    target.replaceChildren(piece(own), words, ...joined(shares.map(([token, share]) => side === "target"
      ? [element("b", { className: "number" }, percent(share)), " from ", piece(token)]
      : [element("b", { className: "number" }, percent(share)), " by ", piece(token)])), ".");
  }
  mark(null);
}

function joined(parts) {
  return parts.flatMap((part, place) => (place ? [", ", ...part] : part));
}

function nothing(what) {
  return element("p", { className: "soft" }, `This model has ${what}, so there is nothing to show here.`);
}

/* ---- 3: maps ---- */

function drawAttention(isOther, isOtherKind) {
  if (isOtherKind) drawKinds();
  if (isOther) drawGrid();
  drawLarge();
  if (isOther) drawJobs();
  drawArithmetic(isOther);
}

function drawKinds() {
  byId("kinds").replaceChildren(...kinds.map((kind) => {
    const none = ofKind(kind).length === 0;
    return element("button", { type: "button", disabled: none, "aria-pressed": String(kind === state.kind),
      "data-kind": kind, onclick: () => choose({ kind }) }, KINDS[kind][0] + (none ? " (none here)" : ""));
  }));
  byId("kind-words").textContent = KINDS[state.kind][1];
}

function drawGrid() {
  const grid = byId("grid");
  const hadFocus = grid.contains(document.activeElement);
  const layers = ofKind(state.kind);
  const across = Math.min(layers[0].count, 8);
  grid.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
  grid.replaceChildren(...layers.flatMap((one, layer) => [
    element("div", { className: "layer" }, `layer ${layer + 1}${layers.length > 1 && layer === 0 ? " (bottom)" : ""}${layers.length > 1 && layer === layers.length - 1 ? " (top)" : ""}`),
    ...Array.from({ length: one.count }, (_, head) => {
      const isChosen = layer === state.layer && head === state.head;
      const canvas = element("canvas", { "aria-hidden": "true" });
      paint(canvas, one, head);
      const ratio = Math.min(Math.max(one.columns / one.rows, 0.6), 2.5);
      canvas.style.aspectRatio = ratio;
      const { job } = one.heads[head];
      return element("button", { type: "button", title: job, tabIndex: isChosen ? 0 : -1, "aria-pressed": String(isChosen),
        "aria-label": `Enlarge layer ${layer + 1}, head ${head + 1}: ${job}`, "data-layer": layer, "data-head": head,
        onclick: () => choose({ layer, head, column: best(one, head, state.row) }) },
      canvas, across > 4 ? null : element("span", { className: "job" }, job));
    }),
  ]));
  if (hadFocus) grid.querySelector("[aria-pressed=true]").focus();
}

byId("grid").addEventListener("keydown", (event) => {
  const buttons = [...byId("grid").querySelectorAll("button")];
  const here = buttons.indexOf(document.activeElement);
  const across = ofKind(state.kind)[0].count;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  if (by === undefined || here < 0 || !buttons[here + by]) return;
  event.preventDefault();
  buttons[here + by].focus();
});

function sentenceOf(one, row, column) {
  const [rows, columns] = names[one.kind];
  const share = one.weight(state.head, row, column);
  const start = {
    encoder: () => ["At ", piece(rows[row])],
    decoder: () => ["Having read ", piece(rows[row]), " and about to write ", piece(written[row])],
    cross: () => ["Writing ", piece(written[row])],
  }[one.kind]();
  if (!one.mayLook(row, column)) {
    return [...start, ", this head cannot see ", piece(columns[column]), one.kind === "decoder" ? ": it comes later." : ": it is out of reach."];
  }
  return [...start, ", this head takes ", element("b", { className: "number", id: "weight" }, percent(share)), " from ", piece(columns[column]), "."];
}

function drawLarge() {
  const one = look();
  const box = byId("large");
  const [rows, columns] = names[one.kind];
  if (box.dataset.of === [state.kind, state.layer, state.head, box.clientWidth, dark.matches].join()) {
    point(one);
    return;
  }
  const hadFocus = document.activeElement && document.activeElement.id === "map";
  box.dataset.of = [state.kind, state.layer, state.head, box.clientWidth, dark.matches].join();
  const room = box.clientWidth - 110;
  const cell = Math.max(3, Math.min(46, room / one.columns, Math.max(460 / one.rows, 14)));
  const canvas = element("canvas", { id: "map", tabIndex: 0, role: "application", "aria-roledescription": "attention map",
    "aria-label": "Arrow keys move from pair to pair; the weight is read out below, and section 5 shows its arithmetic", "aria-describedby": "map-read" });
  paint(canvas, one, state.head);
  canvas.style.height = `${cell * one.rows}px`;
  canvas.style.width = `${cell * one.columns}px`;
  const place = (event) => {
    const frame = canvas.getBoundingClientRect();
    return { row: Math.floor(((event.clientY - frame.top) / frame.height) * one.rows),
      column: Math.floor(((event.clientX - frame.left) / frame.width) * one.columns) };
  };
  canvas.addEventListener("pointermove", (event) => point(one, place(event)));
  canvas.addEventListener("pointerleave", () => point(one));
  canvas.addEventListener("pointerdown", (event) => choose(place(event)));
  canvas.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    choose({ row: state.row + down, column: state.column + right });
  });
  const isRoomy = cell >= 11;
  const label = (token, index) => element("span", { "data-place": index, title: seen(token) }, isRoomy ? piece(token) : "");
  const down = element("div", { className: "down", "aria-hidden": "true" }, ...rows.map(label));
  const across = element("div", { className: "across", "aria-hidden": "true" }, ...columns.map(label));
  down.style.gridTemplateRows = `repeat(${one.rows}, ${cell}px)`;
  across.style.gridTemplateColumns = `repeat(${one.columns}, ${cell}px)`;
  const { job } = one.heads[state.head];
  const axis = { encoder: "asked: source tokens", decoder: "asked: target tokens so far", cross: "asked: source tokens" }[one.kind];
  box.replaceChildren(
    element("h3", {}, `Layer ${state.layer + 1}, head ${state.head + 1}: ${job}`),
    element("div", { className: "map" }, element("div", { className: "axis" }, `${axis} →`), element("span"), across, down,
      element("div", { className: "frame" }, canvas, element("div", { className: "cursor" }))),
    legend(),
    element("p", { className: "read", id: "map-read", "aria-live": "polite" }),
    element("div", { id: "map-row", className: "soft small" }));
  // The spare cell stands before the labels of the columns.
  box.querySelector(".map").insertBefore(box.querySelector(".map > span"), box.querySelector(".axis"));
  if (hadFocus) canvas.focus();
  point(one);
}

/* Reads a pair out: the one under the pointer, or the one that was chosen. */
function point(one, at = state) {
  const row = Math.max(0, Math.min(at.row, one.rows - 1));
  const column = Math.max(0, Math.min(at.column, one.columns - 1));
  const box = byId("large");
  const canvas = byId("map");
  const [width, height] = [canvas.offsetWidth / one.columns, canvas.offsetHeight / one.rows];
  const cursor = box.querySelector(".cursor");
  Object.assign(cursor.style, { left: `${column * width}px`, top: `${row * height}px`, width: `${width}px`, height: `${height}px` });
  for (const [kind, place] of [["down", row], ["across", column]]) {
    for (const label of box.querySelectorAll(`.${kind} > span`)) label.classList.toggle("on", Number(label.dataset.place) === place);
  }
  byId("map-read").replaceChildren(...sentenceOf(one, row, column));
  const shares = Array.from({ length: one.columns }, (_, other) => [names[one.kind][1][other], one.weight(state.head, row, other)])
    .sort((a, b) => b[1] - a[1]).slice(0, 5).filter(([, share]) => share > 0);
  byId("map-row").replaceChildren("The whole row: ", ...joined(shares.map(([token, share]) => [piece(token), ` ${percent(share)}`])),
    one.columns > shares.length ? ", …" : "");
}

/* ---- 4: heads ---- */

const MEASURES = [
  ["entropy", "entropy", "bits; 2 to this power is about how many tokens are looked at", false],
  ["largest", "largest", "mean of the largest weight of each row", true],
  ["diagonal", "diagonal", "on the token itself; in cross-attention, within one place of the straight line", true],
  ["previous", "previous", "on the token before", true],
  ["next", "next", "on the token behind", true],
  ["first", "first", "on the first token", true],
  ["last", "last word", "on the last word", true],
  ["end", "end", "on the end of the source", true],
];

function drawJobs() {
  const layers = ofKind(state.kind);
  const { main, even, sharp } = data.thresholds;
  const shown = MEASURES.filter(([name]) => layers[0].heads[0][name] !== null);
  const top = element("tr", {}, element("th", { scope: "col" }, "layer, head"), element("th", { scope: "col" }, "what it does here"),
    ...shown.map(([, title, words]) => element("th", { scope: "col", className: "number", title: words }, title)));
  const rows = layers.flatMap((one, layer) => one.heads.map((head, place) => {
    const isChosen = layer === state.layer && place === state.head;
    const cells = shown.map(([name, , , isShare]) => {
      const isLarge = isShare && head[name] >= main && name !== "largest";
      const words = head[name] === null ? "–" : isShare ? percent(head[name], 1) : head[name].toFixed(2);
      return element("td", { className: isLarge ? "number strong" : "number" }, words);
    });
    const pick = element("button", { type: "button", onclick: () => choose({ layer, head: place, column: best(one, place, state.row) }) },
      `layer ${layer + 1}, head ${place + 1}`);
    return element("tr", { className: isChosen ? "on" : "" }, element("td", {}, pick), element("td", {}, head.job), ...cells);
  }));
  byId("jobs").replaceChildren(element("caption", { className: "soft small" }, `${KINDS[state.kind][0]}: choose the kind above`),
    element("thead", {}, top), element("tbody", {}, ...rows));
  const about = shown.map(([, title, words]) => `${title}: ${words}`).join("; ");
  byId("thresholds").textContent = `How a head gets its name: the largest of the shares names it if it is ${percent(main, 0)} or more. `
    + `If its entropy is ${percent(even, 0)} or more of the largest possible, it looks everywhere alike. Of the rest, it picks single tokens `
    + `where its largest weights are ${percent(sharp, 0)} or more on average, and mixes several where not. ${about}.`;
}

/* ---- 5: arithmetic ---- */

function option(value, text, chosen) {
  return element("option", { value, selected: value === chosen }, text);
}

function drawArithmetic(isOther) {
  const one = look();
  const [rows, columns] = names[one.kind];
  if (isOther || !byId("choices").children.length) {
    const select = (id, title, options, change) => element("label", {}, `${title} `,
      element("select", { id, onchange: (event) => choose(change(event.target.value)) }, ...options));
    const layers = ofKind(state.kind);
    byId("choices").replaceChildren(
      select("pick-kind", "attention", kinds.filter((kind) => ofKind(kind).length).map((kind) => option(kind, KINDS[kind][0], state.kind)), (value) => ({ kind: value })),
      select("pick-head", "head", layers.flatMap((each, layer) => each.heads.map((_, head) =>
        option(`${layer},${head}`, `layer ${layer + 1}, head ${head + 1}`, `${state.layer},${state.head}`))),
      (value) => ({ layer: Number(value.split(",")[0]), head: Number(value.split(",")[1]) })),
      select("pick-row", "who asks", rows.map((token, place) => option(String(place), `${place + 1}  ${seen(token)}`, String(state.row))), (value) => ({ row: Number(value) })),
      select("pick-column", "who is asked", columns.map((token, place) => option(String(place), `${place + 1}  ${seen(token)}`, String(state.column))), (value) => ({ column: Number(value) })));
  }
  byId("pick-row").value = state.row;
  byId("pick-column").value = state.column;
  byId("arithmetic-words").replaceChildren(
    "Whoever asks has a ", element("i", {}, "query"), " q, whoever is asked a ", element("i", {}, "key"), " k: two lists of numbers that this head has learned to make. "
    + `How alike they are is a score; this model's is `, element("b", {}, one.similarity), ". Then a row of scores becomes a row of weights.");
  byId("sum").replaceChildren(...(one.vectors ? strips(one) : [without(one)]), ...equation(one), row(one));
}

function without(one) {
  const words = one.hasProduct ? "The vectors of this head were left out to keep the page small; its scores and weights are all here."
    : "This score is not the dot product of two vectors alone, so there are no products to lay side by side: here it is as the model computed it.";
  return element("p", { className: "soft" }, words);
}

let feature = 0;
function strips(one) {
  const { size, queries, keys } = one.vectors;
  const digits = queries.decimals;
  const q = Array.from({ length: size }, (_, place) => queries.at((state.head * one.rows + state.row) * size + place));
  const k = Array.from({ length: size }, (_, place) => keys.at((state.head * one.columns + state.column) * size + place));
  const products = q.map((value, place) => value * k[place]);
  const largest = (values) => Math.max(...values.map(Math.abs), 1e-9);
  const both = largest([...q, ...k]);
  const strip = (values, most) => {
    const made = element("div", { className: "strip", "aria-hidden": "true" }, ...values.map((value) => {
      const cell = element("span", { title: signed(value, digits) });
      const strength = 0.06 + 0.94 * (Math.abs(value) / most);
      cell.style.background = `rgb(var(${value < 0 ? "--minus" : "--plus"}) / ${strength})`;
      return cell;
    }));
    made.style.gridTemplateColumns = `repeat(${size}, 1fr)`;
    return made;
  };
  const told = element("p", { className: "small soft read", id: "feature", "aria-live": "polite" });
  const lines = [strip(q, both), strip(k, both), strip(products, largest(products))];
  const tell = (place) => {
    feature = Math.max(0, Math.min(place, size - 1));
    for (const line of lines) [...line.children].forEach((cell, index) => cell.classList.toggle("on", index === feature));
    told.textContent = `number ${feature + 1} of ${size}: ${signed(q[feature], digits)} × ${signed(k[feature], digits)} = ${signed(products[feature], digits)}`
      + "   (blue: above zero, orange: below; the stronger the colour, the larger)";
  };
  const box = element("div", { className: "strips", tabIndex: 0, role: "application", "aria-label": "Numbers of query and key; arrow keys move along",
    onkeydown: (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by) { event.preventDefault(); tell(feature + by); }
    } });
  const [rows, columns] = names[one.kind];
  const name = (...words) => element("span", { className: "name" }, ...words);
  box.append(name("q of ", piece(one.kind === "cross" ? written[state.row] : rows[state.row])), lines[0],
    name("k of ", piece(columns[state.column])), lines[1], name("q × k"), lines[2]);
  lines.forEach((line) => [...line.children].forEach((cell, place) => cell.addEventListener("mouseenter", () => tell(place))));
  tell(feature);
  const all = element("details", {}, element("summary", {}, `All ${size} numbers`), element("div", { className: "scroll" }, element("table", {},
    element("tr", {}, ...["", "q", "k", "q × k"].map((title) => element("th", { className: "number" }, title))),
    ...q.map((value, place) => element("tr", {}, ...[String(place + 1), signed(value, digits), signed(k[place], digits), signed(products[place], digits)]
      .map((text) => element("td", { className: "number" }, text)))))));
  return [box, told, all];
}

function equation(one) {
  const score = one.score(state.head, state.row, state.column);
  const weight = one.weight(state.head, state.row, state.column);
  const term = (title, text, isFinal = false) => element("span", { className: isFinal ? "term number final" : "term number" }, element("small", {}, `${title} `), text);
  const parts = [];
  if (one.vectors) {
    const { scale, size } = one.vectors;
    const sum = score / scale;
    const isRoot = Math.abs(scale * Math.sqrt(size) - 1) < 1e-9;
    parts.push(term("sum of the products, q · k =", signed(sum, 2)));
    if (isRoot) parts.push(` ÷ √${size} `, element("small", {}, `(${Math.sqrt(size).toFixed(3)}) `), " = ");
    else parts.push(scale === 1 ? " = " : ` × ${scale} = `);
  }
  const shown = element("span", { id: "score" }, signed(score, one.decimals));
  parts.push(term("score", shown));
  const isSeen = one.mayLook(state.row, state.column);
  parts.push(isSeen ? (one.isSoftmax ? " → softmax over the row → " : ` → ${one.reach} → `) : " → out of sight → ", term("weight", percent(weight), true));
  return [element("p", { className: "equation" }, ...parts)];
}

function row(one) {
  const { head, row: asking } = state;
  const columns = names[one.kind][1];
  const visible = columns.map((_, column) => one.mayLook(asking, column));
  const scores = columns.map((_, column) => one.score(head, asking, column));
  const most = Math.max(...scores.filter((_, column) => visible[column]));
  const powers = scores.map((score, column) => (visible[column] ? Math.exp(score - most) : 0));
  const isSoft = one.isSoftmax;
  const titles = ["who is asked", "score s", ...(isSoft ? [`e to the s − ${signed(most, 2)}`] : []), "weight", ""];
  const lines = columns.map((token, column) => element("tr", { className: column === state.column ? "on" : visible[column] ? "" : "hidden-key",
    onclick: () => choose({ column }) },
  element("td", {}, piece(token)), element("td", { className: "number" }, signed(scores[column], one.decimals)),
  ...(isSoft ? [element("td", { className: "number" }, visible[column] ? powers[column].toFixed(4) : "hidden")] : []),
  element("td", { className: "number" }, percent(one.weight(head, asking, column))), element("td", {}, bar(one.weight(head, asking, column)))));
  const sum = powers.reduce((a, b) => a + b, 0);
  const foot = isSoft ? element("tfoot", {}, element("tr", {}, element("td", {}, "sum"), element("td"),
    element("td", { className: "number" }, sum.toFixed(4)), element("td", { className: "number" }, "100 %"), element("td"))) : null;
  const why = isSoft ? "The softmax raises e to each score (less the largest, so that no number grows too large) and divides by the sum: what is left are shares."
    : `Here weights are not the softmax of all scores in sight: ${one.reach}.`;
  return element("div", {}, element("p", { className: "soft small" }, why), element("div", { className: "scroll" }, element("table", { id: "row-table" },
    element("thead", {}, element("tr", {}, ...titles.map((title, place) => element("th", { scope: "col", className: place && place < titles.length - 1 ? "number" : "" }, title)))),
    element("tbody", {}, ...lines), foot)));
}

/* ---- 6: search ---- */

const search = data.search;
const steps = search.steps.map((step) => step.map(([parent, token, text, score, fate]) => ({ parent, token, text, score, fate })));
const keptOf = (step) => steps[step].filter((each) => each.fate === "kept");

function answerPath() {
  const [text, length, total] = search.finalists[0];
  const path = new Set();
  let one = steps[length - 1].find((each) => (each.fate === "ended" || each.fate === "cut") && each.text === text && each.score === total);
  for (let step = length - 1; one && step >= 0; step -= 1) {
    path.add(one);
    one = step ? keptOf(step - 1)[one.parent] : null;
  }
  return path;
}

function drawSearch() {
  const words = byId("search-words");
  if (!steps.length) {
    words.textContent = `The tokens were drawn by chance (decoding.search: ${search.name}), from probabilities that temperature and cuts of the recipe may have changed; those shown are the model's own. No beginnings were compared, so there is no search to replay.`;
    return;
  }
  words.textContent = search.width > 1
    ? `Beam search keeps the ${search.width} best beginnings side by side. At each step every one of them is tried with every token; the score of a beginning is the sum of the logarithms of its probabilities, so it is below zero, and larger is better. Shown are the ${2 * search.width} best of each step, which is as far as the search itself looks.`
    : "Greedy search takes the likeliest token, again and again: a beam of one. Beside the token that was taken stands the one that came next. A score is the sum of the logarithms of the probabilities.";
  let timer = null;
  const last = steps.length + 1;
  const slider = element("input", { type: "range", min: 1, max: last, value: 1, id: "step", "aria-label": "Step of the search", oninput: () => go(Number(slider.value)) });
  const button = (text, id, act, label) => element("button", { type: "button", id, onclick: act, "aria-label": label }, text);
  const play = button("▶ play", "play", () => (timer ? stop() : start()), "Play or pause");
  const back = button("← back", "back", () => { stop(); go(state.step - 1); }, "One step back");
  const on = button("on →", "on", () => { stop(); go(state.step + 1); }, "One step on");
  const where = element("span", { className: "number soft", id: "where" });
  const tree = element("div", { className: "tree", tabIndex: 0, role: "img" });
  const table = element("div", { className: "scroll" });
  const told = element("p", { className: "read", id: "search-read", "aria-live": "polite" });
  byId("player").replaceChildren(element("div", { className: "player" }, back, play, on, slider, where), tree, told, table);
  byId("player").addEventListener("keydown", (event) => {
    const to = { ArrowRight: state.step + 1, ArrowLeft: state.step - 1, Home: 1, End: last }[event.key];
    if (to === undefined || event.target === slider) return;
    event.preventDefault();
    stop();
    go(to);
  });
  function start() {
    if (state.step === last) go(1);
    timer = setInterval(() => (state.step === last ? stop() : go(state.step + 1)), 1100);
    play.textContent = "❚❚ pause";
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
  }
  function go(step) {
    state.step = Math.max(1, Math.min(step, last));
    slider.value = state.step;
    // Not disabled, or who uses the keyboard would lose the place.
    back.setAttribute("aria-disabled", state.step === 1);
    on.setAttribute("aria-disabled", state.step === last);
    const isEnd = state.step === last;
    where.textContent = isEnd ? "the end" : `step ${state.step} of ${steps.length}`;
    if (isEnd) stop();
    const shown = Math.min(state.step, steps.length);
    tree.replaceChildren(drawTree(shown, isEnd));
    tree.setAttribute("aria-label", `Tree of beginnings after ${shown} steps; the table below says the same`);
    const now = tree.querySelector(".now");
    if (now) tree.scrollLeft = Number(now.dataset.x) - tree.clientWidth + 220;
    table.replaceChildren(isEnd ? finalTable() : stepTable(steps[state.step - 1]));
    told.textContent = isEnd ? endWords() : stepWords(steps[state.step - 1]);
  }
  go(1);
}

function stepWords(step) {
  const count = (fate) => step.filter((each) => each.fate === fate).length;
  const parts = [`${count("kept")} kept`, `${count("dropped") + count("late") + count("left")} dropped`];
  const away = count("ended") + count("cut");
  return `${parts.join(", ")}${away ? `, ${away} complete and put away` : ""}.`;
}

function endWords() {
  const { lengthPenalty, lengthForm } = search;
  if (search.finalists.length === 1) return "One translation is complete: it is the answer.";
  if (!lengthPenalty) return "Complete translations are compared by their scores; the best is the answer.";
  const by = lengthForm === "power" ? `the length to the power of ${lengthPenalty}` : `((5 + length) / 6) to the power of ${lengthPenalty}`;
  return `Every token costs probability, so short ones would win: the sum is divided by ${by}. The largest is the answer.`;
}

function stepTable(step) {
  const rows = step.map((one, place) => {
    const [sign, name, why] = FATES[one.fate];
    const fullText = element("td", {}, element("bdi", {}, one.text || "–"));
    return element("tr", { className: one.fate === "kept" || one.fate === "ended" || one.fate === "cut" ? "on" : "" },
      element("td", { className: "number" }, String(place + 1)), fullText, element("td", {}, piece(one.token)),
      element("td", { className: "number" }, signed(one.score, 4)), element("td", { className: "fate" }, `${sign} ${name}`),
      element("td", { className: "why" }, why(search.width)));
  });
  const titles = ["", "beginning", "its new token", "score", "what happens", "why"];
  return element("table", { id: "step-table" }, element("thead", {}, element("tr", {}, ...titles.map((title) =>
    element("th", { scope: "col", className: title === "score" ? "number" : "" }, title)))), element("tbody", {}, ...rows));
}

function finalTable() {
  const rows = search.finalists.map(([text, length, total, score], place) => element("tr", { className: place ? "" : "on" },
    element("td", { className: "number" }, String(place + 1)), element("td", {}, element("bdi", {}, text)),
    element("td", { className: "number" }, signed(total, 4)), element("td", { className: "number" }, String(length)),
    element("td", { className: "number" }, signed(score, 4)), element("td", { className: "fate" }, place ? "" : "◆ the answer")));
  const titles = ["", "complete translation", "sum", "tokens, with the end", "made up for length", ""];
  return element("table", { id: "final-table" }, element("thead", {}, element("tr", {}, ...titles.map((title, place) =>
    element("th", { scope: "col", className: place > 1 ? "number" : "" }, title)))), element("tbody", {}, ...rows));
}

const ruler = document.createElement("canvas").getContext("2d");
function drawTree(shown, isEnd) {
  ruler.font = "600 13px system-ui, sans-serif";
  const high = 38;
  const widths = steps.map((step) => Math.max(58, ...step.map((one) => ruler.measureText(seen(one.token)).width + 18)));
  const lefts = [];
  widths.reduce((left, width, place) => { lefts[place] = left; return left + width + 34; }, 12);
  const total = lefts[shown - 1] + widths[shown - 1] + 14;
  const tall = Math.max(...steps.map((step) => step.length)) * high + 30;
  const svg = drawn("svg", { width: total, height: tall, viewBox: `0 0 ${total} ${tall}` });
  const path = isEnd ? answerPath() : new Set();
  const middle = (rank) => 36 + rank * high;
  const [lines, later] = [[], []];
  for (let number = 0; number < shown; number += 1) {
    const head = drawn("text", { class: "head", x: lefts[number], y: 10 });
    head.textContent = `${number + 1}`;
    svg.append(head);
    const kept = number ? keptOf(number - 1) : [];
    steps[number].forEach((one, rank) => {
      const isAnswer = path.has(one);
      const isNow = number === shown - 1 && !isEnd;
      if (number) {
        const from = steps[number - 1].indexOf(kept[one.parent]);
        const [x, y, u, v] = [lefts[number - 1] + widths[number - 1], middle(from), lefts[number], middle(rank)];
        const line = drawn("path", { class: isAnswer ? "answer" : one.fate, d: `M${x} ${y}C${x + 18} ${y} ${u - 18} ${v} ${u} ${v}` });
        (isAnswer ? later : lines).push(line);
      }
      const token = drawn("text", { x: lefts[number] + widths[number] / 2, y: middle(rank) - 5, "text-anchor": "middle" });
      token.textContent = seen(one.token);
      const score = drawn("text", { class: "score", x: lefts[number] + widths[number] / 2, y: middle(rank) + 9, "text-anchor": "middle" });
      score.textContent = signed(one.score, 2);
      const group = drawn("g", { class: [one.fate, isAnswer ? "answer" : "", isNow ? "now" : ""].join(" "), "data-x": lefts[number] },
        drawn("rect", { x: lefts[number], y: middle(rank) - 15, width: widths[number], height: 31, rx: 6 }), token, score);
      svg.append(group);
    });
  }
  svg.prepend(...lines, ...later);
  return svg;
}

/* ---- all of it ---- */

function drawHeader() {
  for (const [id, text, place] of [["sentence", data.sentence, 0], ["translation", data.translation, 1]]) {
    byId(id).textContent = text;
    byId(id).dir = "auto";
    byId(id).lang = data.languages[place];
  }
  const p = data.words.reduce((product, word) => product * word.probability, 1);
  byId("facts").textContent = `${data.languages[0]} → ${data.languages[1]} · ${data.source.length - 1} source tokens, ${written.length} written · `
    + `probability of the whole ${chance(p)} · ${search.name} search${search.width > 1 ? ` with a beam of ${search.width}` : ""} · ${data.model}`;
  byId("notes").replaceChildren(...data.notes.map((note) => element("p", { className: "note" }, note)));
}

function begin() {
  drawHeader();
  drawWords();
  drawAlignment();
  drawSearch();
  const kind = ["cross", "encoder", "decoder"].find((name) => ofKind(name).length);
  if (!kind) {
    byId("kinds").hidden = true;
    for (const id of ["grid", "choices"]) byId(id).replaceChildren(nothing("no attention"));
    byId("jobs").replaceWith(nothing("no attention"));
    return;
  }
  const layers = ofKind(kind);
  const top = layers[layers.length - 1];
  const sharpest = top.heads.reduce((found, head, place) => (head.largest > top.heads[found].largest ? place : found), 0);
  Object.assign(state, { kind, layer: layers.length - 1, head: sharpest, row: 0, column: best(top, sharpest, 0) });
  drawAttention(true, true);
  let waiting = null;
  const again = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { drawGrid(); drawLarge(); if (alignments.length) drawRibbons(); }, 120);
  };
  window.addEventListener("resize", again);
  dark.addEventListener("change", again);
}

begin();
