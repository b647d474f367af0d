/* ---- section 1: the weights of recorded vectors, computed with other settings ---- */

const data = JSON.parse(byId("data").textContent);
const ROLES = { encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "cross-attention" };
const SIMILARITIES = {
  trained: "as trained",
  dot: "q · k",
  root: "q · k / √d",
  size: "q · k / d",
  cosine: "10 × cosine",
};
const KINDS = { soft: "soft: every key", hard: "hard: the best key", local: "local: keys near the query" };
const MASKS = { trained: "as trained", none: "no mask", causal: "no later tokens" };
const WINDOW = 1;
const START = { model: 0, sentence: 0, role: "cross", layer: 1, head: 0, similarity: "trained", kind: "soft", mask: "trained" };
const EXPERIMENTS = [
  ["As trained", {}, "The weights as the model computed them. A row is the token that attends, a column is a token that it attends to."],
  ["Without ÷ √d", { similarity: "dot" }, "Scores grow with the square root of the vector size. Without the division, the softmax gives nearly all weight to one key, and its gradient becomes small."],
  ["÷ d instead of √d", { similarity: "size" }, "Dividing by d makes the scores too small: every key gets nearly the same weight."],
  ["Directions only", { similarity: "cosine" }, "The cosine ignores the length of the vectors. A factor is needed, because a cosine is at most one: with factor 1, the weights would be nearly equal."],
  ["Look ahead", { role: "decoder", mask: "none" }, "Without the mask, a target token attends to tokens that are not written yet. In training it would copy the answer instead of learning to predict it."],
  ["Hard attention", { kind: "hard" }, "Only the best key has a weight. This is not a smooth function of the scores, so the choice has no gradient."],
  ["Local attention", { kind: "local" }, "Only keys next to the position of the query have a weight. In cross-attention this fails where the languages order words differently."],
  ["No positions", { model: 1, role: "encoder", layer: 0, sentence: 3 }, "The words of the first sentence in another order, and the same translation: this model cannot see the order of the source. A token has the same vectors wherever it stands. Choose the first sentence to compare the rows; with sinusoidal positions they differ."],
  ["Relative positions", { model: 2, role: "encoder", layer: 0 }, "Rotary positions turn queries and keys by an angle that grows with the position, so a score depends on the distance of two tokens."],
  ["A network as similarity", { model: 3 }, "The additive similarity compares with a small network, v · tanh(Wq + Uk). Its scores are recorded; a dot product cannot replace it."],
];
const state = { ...START, row: 0, column: 0, experiment: 0 };

const recordedSentence = () => data.models[state.model].sentences[state.sentence];

/* One attention module of a sentence, with unpacked arrays. */
const unpacked = new Map();
function viewOf(model, sentence, role, layer) {
  const key = [model, sentence, role, layer].join();
  if (!unpacked.has(key)) {
    const view = data.models[model].sentences[sentence].attention.find((one) => one.role === role && one.layer === layer);
    const { vectors } = view;
    unpacked.set(key, {
      ...view,
      heads: view.shape[0],
      rows: view.shape[1],
      columns: view.shape[2],
      recorded: unpack(view.weights),
      scores: view.scores ? unpack(view.scores) : null,
      queries: vectors ? unpack(vectors.queries) : null,
      keys: vectors ? unpack(vectors.keys) : null,
    });
  }
  return unpacked.get(key);
}

const selectedView = () => viewOf(state.model, state.sentence, state.role, state.layer);

/* The similarity of a query and a key. */
function scoreOf(view, head, row, column, similarity) {
  if (!view.queries) return view.scores.at((head * view.rows + row) * view.columns + column);
  const { size, scale } = view.vectors;
  const from = [(head * view.rows + row) * size, (head * view.columns + column) * size];
  let [product, querySquare, keySquare] = [0, 0, 0];
  for (let index = 0; index < size; index += 1) {
    const [q, k] = [view.queries.at(from[0] + index), view.keys.at(from[1] + index)];
    product += q * k;
    querySquare += q * q;
    keySquare += k * k;
  }
  const factors = { trained: scale, dot: 1, root: 1 / Math.sqrt(size), size: 1 / size, cosine: 10 / Math.max(Math.sqrt(querySquare * keySquare), 1e-12) };
  return product * factors[similarity];
}

/* Whether a query may attend to a key. */
function isAllowed(view, row, column, { mask, kind }) {
  const isCausal = mask === "causal" || (mask === "trained" && view.role === "decoder");
  if (isCausal && column > row) return false;
  return kind !== "local" || Math.abs(column - Math.min(row, view.columns - 1)) <= WINDOW;
}

/* Scores and weights of one row; a key that is not allowed has the weight 0. */
function rowOf(view, head, row, settings) {
  const columns = Array.from({ length: view.columns }, (_, column) => column);
  const scores = columns.map((column) => scoreOf(view, head, row, column, settings.similarity));
  const allowed = columns.map((column) => isAllowed(view, row, column, settings));
  const largest = Math.max(...scores.filter((_, column) => allowed[column]));
  const best = columns.find((column) => allowed[column] && scores[column] === largest);
  const powers = columns.map((column) => {
    if (!allowed[column]) return 0;
    return settings.kind === "hard" ? Number(column === best) : Math.exp(scores[column] - largest);
  });
  const sum = powers.reduce((a, b) => a + b, 0);
  return { scores, allowed, weights: powers.map((power) => power / sum) };
}

const rowsOf = (view, head, settings) => Array.from({ length: view.rows }, (_, row) => rowOf(view, head, row, settings));

/* Means over the rows: entropy in bits, and the largest weight. */
function measuresOf(rows) {
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const entropy = (weights) => weights.reduce((sum, weight) => (weight > 0 ? sum - weight * Math.log2(weight) : sum), 0);
  return { entropy: mean(rows.map(({ weights }) => entropy(weights))), largest: mean(rows.map(({ weights }) => Math.max(...weights))) };
}

const AS_TRAINED = { similarity: "trained", kind: "soft", mask: "trained" };
const isChanged = () => Object.keys(AS_TRAINED).some((name) => state[name] !== AS_TRAINED[name]);

function tokensOf(role) {
  const sentence = recordedSentence();
  if (role === "encoder") return [sentence.source_tokens, sentence.source_tokens];
  if (role === "decoder") return [sentence.decoder_input, sentence.decoder_input];
  return [sentence.output_tokens, sentence.source_tokens];
}

/* ---- controls ---- */

function change(changes, experiment = -1) {
  const before = state.role + state.model + state.sentence;
  Object.assign(state, changes, { experiment });
  const view = selectedView();
  state.head = Math.min(state.head, view.heads - 1);
  if (before !== state.role + state.model + state.sentence) state.row = Math.min(2, view.rows - 1);
  state.row = clamp(state.row, 0, view.rows - 1);
  state.column = clamp(state.column, 0, view.columns - 1);
  draw();
}

/* The head that shows most: the one that a changed setting changes most, or else the one with the most peaked weights. */
function bestHead() {
  const view = selectedView();
  const largest = (head, settings) => measuresOf(rowsOf(view, head, settings)).largest;
  const values = Array.from({ length: view.heads }, (_, head) =>
    (isChanged() ? Math.abs(largest(head, state) - largest(head, AS_TRAINED)) : largest(head, AS_TRAINED)));
  return values.indexOf(Math.max(...values));
}

function runExperiment(number) {
  Object.assign(state, START, EXPERIMENTS[number][1]);
  const [head, row] = [bestHead(), 2];
  const { weights } = rowOf(selectedView(), head, row, state);
  change({ head, row, column: weights.indexOf(Math.max(...weights)) }, number);
}

function control(name, title, options, isDisabled = false) {
  const entries = options.map(([value, text]) => element("option", { value, selected: String(value) === String(state[name]) }, text));
  const read = (text) => (typeof state[name] === "number" ? Number(text) : text);
  return element("label", {}, title, element("select", {
    id: `choose-${name}`, disabled: isDisabled, onchange: (event) => change({ [name]: read(event.target.value) }),
  }, ...entries));
}

function drawControls(view) {
  const focused = document.activeElement && document.activeElement.id;
  const numbered = (count) => Array.from({ length: count }, (_, index) => [index, String(index + 1)]);
  const layers = new Set(recordedSentence().attention.map(({ layer }) => layer)).size;
  byId("recorded").replaceChildren(
    control("sentence", "sentence", data.models[0].sentences.map(({ sentence }, index) => [index, sentence])),
    control("model", "model", data.models.map(({ name }, index) => [index, name])),
    control("role", "attention", Object.entries(ROLES)),
    control("layer", "layer", numbered(layers)),
    control("head", "head", numbered(view.heads)));
  byId("computed").replaceChildren(
    control("similarity", "similarity", Object.entries(SIMILARITIES), !view.queries),
    control("kind", "kind", Object.entries(KINDS)),
    control("mask", "mask", Object.entries(MASKS)));
  if (focused && focused.startsWith("choose-")) byId(focused).focus();
  byId("experiments").replaceChildren(...EXPERIMENTS.map(([title], number) => element("button", {
    type: "button", "aria-pressed": String(number === state.experiment), onclick: () => { runExperiment(number); byId("experiments").children[number].focus(); },
  }, title)));
  byId("experiment-text").textContent = state.experiment < 0 ? "" : EXPERIMENTS[state.experiment][2];
}

/* ---- the map ---- */

function drawMap(view, rows) {
  const drawable = {
    rows: view.rows,
    columns: view.columns,
    isVisible: (row, column) => rows[row].allowed[column],
    weight: (_, row, column) => rows[row].weights[column],
  };
  const hadFocus = document.activeElement && document.activeElement.id === "map";
  const [rowTokens, columnTokens] = tokensOf(view.role);
  const box = byId("map-box");
  const cellSize = clamp((box.clientWidth - 110) / view.columns, 10, 34);
  const canvas = element("canvas", {
    id: "map", tabIndex: 0, role: "application", "aria-roledescription": "attention map",
    "aria-label": "Attention map. Use the arrow keys to move from pair to pair; the table shows the row.",
    onpointerdown: (event) => {
      const frame = canvas.getBoundingClientRect();
      moveTo(Math.floor(((event.clientY - frame.top) / frame.height) * view.rows), Math.floor(((event.clientX - frame.left) / frame.width) * view.columns));
    },
    onkeydown: (event) => {
      const offset = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!offset) return;
      event.preventDefault();
      moveTo(state.row + offset[0], state.column + offset[1]);
    },
  });
  paintMap(canvas, drawable, 0);
  canvas.style.width = `${cellSize * view.columns}px`;
  canvas.style.height = `${cellSize * view.rows}px`;
  const label = (selected) => (token, index) => element("span", { className: index === selected ? "on" : "" }, tokenElement(token));
  const down = element("div", { className: "down", "aria-hidden": "true" }, ...rowTokens.map(label(state.row)));
  const across = element("div", { className: "across", "aria-hidden": "true" }, ...columnTokens.map(label(state.column)));
  down.style.gridTemplateRows = `repeat(${view.rows}, ${cellSize}px)`;
  across.style.gridTemplateColumns = `repeat(${view.columns}, ${cellSize}px)`;
  const cursor = element("div", { className: "cursor" });
  Object.assign(cursor.style, { left: `${state.column * cellSize}px`, top: `${state.row * cellSize}px`, width: `${cellSize}px`, height: `${cellSize}px` });
  box.replaceChildren(element("div", { className: "map" }, element("span"), across, down, element("div", { className: "frame" }, canvas, cursor)), legend());
  byId("map-title").textContent = `${ROLES[view.role]}, layer ${state.layer + 1}, head ${state.head + 1}`;
  if (hadFocus) canvas.focus();
}

function moveTo(row, column) {
  change({ row, column }, state.experiment);
}

/* ---- the selected row ---- */

function drawRow(view, rows, trained) {
  const [rowTokens, columnTokens] = tokensOf(view.role);
  const { scores, allowed, weights } = rows[state.row];
  byId("row-title").replaceChildren("The row of ", tokenElement(rowTokens[state.row]));
  const number = (text, className = "") => element("td", { className: `number ${className}` }, text);
  const lines = columnTokens.map((token, column) => {
    const before = trained[state.row].weights[column];
    const className = column === state.column ? "on" : allowed[column] ? "" : "hidden-key";
    return element("tr", { className, onclick: () => moveTo(state.row, column) },
      element("td", {}, tokenElement(token)), number(allowed[column] ? signed(scores[column], 2) : "masked"),
      number(percent(weights[column], 1), Math.abs(weights[column] - before) >= 0.05 ? "changed" : ""), element("td", {}, bar(weights[column])), number(percent(before, 1)));
  });
  byId("row-table").replaceChildren(
    element("thead", {}, element("tr", {}, ...["key", "score", "weight", "", "as trained"].map((title, index) => element(title ? "th" : "td", title ? { scope: "col", className: index && index !== 3 ? "number" : "" } : {}, title)))),
    element("tbody", {}, ...lines));
  byId("row-text").textContent = "Weights in orange differ from the trained ones by five points or more.";
}

function draw() {
  const view = selectedView();
  const model = data.models[state.model];
  const [rows, trained] = [rowsOf(view, state.head, state), rowsOf(view, state.head, AS_TRAINED)];
  drawControls(view);
  byId("translation").replaceChildren("This model translates it as ", element("b", { lang: "de" }, recordedSentence().translation),
    element("span", { className: "soft" }, ` (of ${model.items.toLocaleString("en")} unseen items it translates ${percent(model.exact / model.items, 1)} exactly)`));
  drawMap(view, rows);
  drawRow(view, rows, trained);
  const [now, before] = [measuresOf(rows), measuresOf(trained)];
  byId("summary").textContent = `Mean over the rows: largest weight ${percent(now.largest, 0)} (as trained ${percent(before.largest, 0)}), `
    + `entropy ${now.entropy.toFixed(2)} bits (as trained ${before.entropy.toFixed(2)}; two keys with equal weights have 1 bit).`;
  byId("warning").hidden = !isChanged();
  byId("warning").textContent = "The vectors are those of the model as it was trained. A model that is trained with the changed setting has other vectors, "
    + "and its translation would differ: the experiments of the lab train such models.";
}

let redrawTimer = null;
function redraw() {
  clearTimeout(redrawTimer);
  redrawTimer = setTimeout(() => { draw(); drawClocks(); }, 120);
}
window.addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
// Inside a page of the docs, which has the title already, the header is not shown.
document.body.classList.toggle("embedded", window.self !== window.top);
runExperiment(0);
