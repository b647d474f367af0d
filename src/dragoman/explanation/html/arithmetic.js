/* ---- section 5: from two vectors to one weight ---- */

let selectedFeature = 0;

function drawArithmetic(isNewHead) {
  const view = selectedView();
  if (isNewHead || !byId("choices").children.length) drawChoices(view);
  byId("pick-row").value = state.row;
  byId("pick-column").value = state.column;
  byId("arithmetic-text").replaceChildren(
    "The token that attends has a ", element("i", {}, "query"), " vector q. The token that it attends to has a ", element("i", {}, "key"),
    " vector k. The head computes both with learned matrices. Their similarity is the score. This model uses: ",
    element("b", {}, view.similarity), ". Then a row of scores becomes a row of weights.");
  byId("sum").replaceChildren(...(view.vectors ? vectorStrips(view) : [noVectors(view)]), equation(view), rowTable(view));
}

function drawChoices(view) {
  const option = (value, text, selected) => element("option", { value, selected: value === selected }, text);
  const choice = (id, title, options, change) => element("label", {}, `${title} `,
    element("select", { id, onchange: (event) => select(change(event.target.value)) }, ...options));
  const tokenOptions = (tokens, selected) => tokens.map((token, position) =>
    option(String(position), `${position + 1}  ${visibleSpaces(token)}`, String(selected)));
  const [rowTokens, columnTokens] = labels[view.role];
  const roles = Object.keys(ROLES).filter((role) => withRole(role).length);
  const heads = withRole(state.role).flatMap((layerView, layer) => layerView.heads.map((_, head) =>
    option(`${layer},${head}`, `layer ${layer + 1}, head ${head + 1}`, `${state.layer},${state.head}`)));
  byId("choices").replaceChildren(
    choice("pick-role", "attention", roles.map((role) => option(role, ROLES[role][0], state.role)), (role) => ({ role })),
    choice("pick-head", "head", heads, (value) => {
      const [layer, head] = value.split(",").map(Number);
      return { layer, head };
    }),
    choice("pick-row", "query of", tokenOptions(rowTokens, state.row), (value) => ({ row: Number(value) })),
    choice("pick-column", "key of", tokenOptions(columnTokens, state.column), (value) => ({ column: Number(value) })));
}

function noVectors(view) {
  const text = view.hasProduct ? "The vectors of this head were left out to keep the page small. Its scores and weights are complete."
    : "This score is not the dot product of two vectors only, so there are no products to show. The score is the one that the model computed.";
  return element("p", { className: "soft" }, text);
}

/* The query, the key and their products, as strips of colored cells. */
function vectorStrips(view) {
  const { size, queries, keys } = view.vectors;
  const digits = queries.decimals;
  const q = Array.from({ length: size }, (_, index) => queries.at((state.head * view.rows + state.row) * size + index));
  const k = Array.from({ length: size }, (_, index) => keys.at((state.head * view.columns + state.column) * size + index));
  const products = q.map((value, index) => value * k[index]);
  const largest = (values) => Math.max(...values.map(Math.abs), 1e-9);
  const strip = (values, maximum) => {
    const node = element("div", { className: "strip", "aria-hidden": "true" }, ...values.map((value) => {
      const cell = element("span", { title: signed(value, digits) });
      const strength = 0.06 + 0.94 * (Math.abs(value) / maximum);
      cell.style.background = `rgb(var(${value < 0 ? "--minus" : "--plus"}) / ${strength})`;
      return cell;
    }));
    node.style.gridTemplateColumns = `repeat(${size}, 1fr)`;
    return node;
  };
  const vectorMaximum = largest([...q, ...k]);
  const strips = [strip(q, vectorMaximum), strip(k, vectorMaximum), strip(products, largest(products))];
  const reading = element("p", { className: "small soft read", id: "feature", "aria-live": "polite" });
  const read = (index) => {
    selectedFeature = clamp(index, 0, size - 1);
    for (const node of strips) [...node.children].forEach((cell, position) => cell.classList.toggle("on", position === selectedFeature));
    const [a, b, c] = [q, k, products].map((values) => signed(values[selectedFeature], digits));
    reading.textContent = `number ${selectedFeature + 1} of ${size}: ${a} × ${b} = ${c}   (blue: positive, orange: negative; a stronger color is a larger number)`;
  };
  const box = element("div", { className: "strips", tabIndex: 0, role: "application", "aria-label": "Numbers of query and key; use the arrow keys to move",
    onkeydown: (event) => {
      const offset = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (offset) { event.preventDefault(); read(selectedFeature + offset); }
    } });
  const [rowTokens, columnTokens] = labels[view.role];
  const name = (...parts) => element("span", { className: "name" }, ...parts);
  box.append(name("q of ", tokenElement(rowTokens[state.row])), strips[0],
    name("k of ", tokenElement(columnTokens[state.column])), strips[1], name("q × k"), strips[2]);
  strips.forEach((node) => [...node.children].forEach((cell, index) => cell.addEventListener("mouseenter", () => read(index))));
  read(selectedFeature);
  return [box, reading, numberTable(q, k, products, digits)];
}

function numberTable(q, k, products, digits) {
  const row = (values) => element("tr", {}, ...values.map((text) => element("td", { className: "number" }, text)));
  return element("details", {}, element("summary", {}, `All ${q.length} numbers`), element("div", { className: "scroll" }, element("table", {},
    element("tr", {}, ...["", "q", "k", "q × k"].map((title) => element("th", { className: "number" }, title))),
    ...q.map((value, index) => row([String(index + 1), signed(value, digits), signed(k[index], digits), signed(products[index], digits)])))));
}

/* Sum of the products, scale, score, weight. */
function equation(view) {
  const score = view.score(state.head, state.row, state.column);
  const term = (title, text, isFinal = false) => element("span", { className: isFinal ? "term number final" : "term number" }, element("small", {}, `${title} `), text);
  const parts = [];
  if (view.vectors) {
    const { scale, size } = view.vectors;
    const isScaledByRoot = Math.abs(scale * Math.sqrt(size) - 1) < 1e-9;
    parts.push(term("sum of the products, q · k =", signed(score / scale, 2)));
    if (isScaledByRoot) parts.push(` ÷ √${size} `, element("small", {}, `(${Math.sqrt(size).toFixed(3)}) `), " = ");
    else parts.push(scale === 1 ? " = " : ` × ${scale} = `);
  }
  parts.push(term("score", element("span", { id: "score" }, signed(score, view.decimals))));
  if (!view.isVisible(state.row, state.column)) parts.push(" → masked → ");
  else parts.push(view.isSoftmax ? " → softmax over the row → " : ` → ${view.attentionKind} → `);
  parts.push(term("weight", percent(view.weight(state.head, state.row, state.column)), true));
  return element("p", { className: "equation" }, ...parts);
}

/* All keys of the selected row: score, exponential, weight. */
function rowTable(view) {
  const { head, row } = state;
  const tokens = labels[view.role][1];
  const isVisible = tokens.map((_, column) => view.isVisible(row, column));
  const scores = tokens.map((_, column) => view.score(head, row, column));
  const maximum = Math.max(...scores.filter((_, column) => isVisible[column]));
  const powers = scores.map((score, column) => (isVisible[column] ? Math.exp(score - maximum) : 0));
  const number = (text) => element("td", { className: "number" }, text);
  const powerCells = (text) => (view.isSoftmax ? [number(text)] : []);
  const lines = tokens.map((token, column) => {
    const weight = view.weight(head, row, column);
    let className = isVisible[column] ? "" : "hidden-key";
    if (column === state.column) className = "on";
    return element("tr", { className, onclick: () => select({ column }) },
      element("td", {}, tokenElement(token)), number(signed(scores[column], view.decimals)),
      ...powerCells(isVisible[column] ? powers[column].toFixed(4) : "masked"), number(percent(weight)), element("td", {}, bar(weight)));
  });
  const sum = powers.reduce((a, b) => a + b, 0);
  const footer = view.isSoftmax ? element("tfoot", {}, element("tr", {}, element("td", {}, "sum"), element("td"),
    number(sum.toFixed(4)), number("100 %"), element("td"))) : null;
  const explanation = view.isSoftmax ? "The softmax computes e to the power of each score and divides by the sum. The largest score is subtracted first, so that no number becomes too large."
    : `Here the weights are not the softmax of all visible scores: ${view.attentionKind}.`;
  const titles = ["key", "score s", ...(view.isSoftmax ? [`e to the power of s − ${signed(maximum, 2)}`] : []), "weight", ""];
  const header = titles.map((title, index) => element("th", { scope: "col", className: index && index < titles.length - 1 ? "number" : "" }, title));
  return element("div", {}, element("p", { className: "soft small" }, explanation), element("div", { className: "scroll" },
    element("table", { id: "row-table" }, element("thead", {}, element("tr", {}, ...header)), element("tbody", {}, ...lines), footer)));
}
