/* ---- section 3: maps ---- */

function drawRoles() {
  byId("roles").replaceChildren(...Object.keys(ROLES).map((role) => {
    const isMissing = withRole(role).length === 0;
    return element("button", { type: "button", disabled: isMissing, "aria-pressed": String(role === state.role),
      "data-role": role, onclick: () => select({ role }) }, ROLES[role][0] + (isMissing ? " (not in this model)" : ""));
  }));
  byId("role-text").textContent = ROLES[state.role][1];
}

function layerTitle(layer, count) {
  const isOnly = count === 1;
  if (!isOnly && layer === 0) return `layer ${layer + 1} (bottom)`;
  return `layer ${layer + 1}${!isOnly && layer === count - 1 ? " (top)" : ""}`;
}

function drawGrid() {
  const grid = byId("grid");
  const hadFocus = grid.contains(document.activeElement);
  const layers = withRole(state.role);
  const columns = Math.min(layers[0].headCount, 8);
  grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  grid.replaceChildren(...layers.flatMap((view, layer) => [
    element("div", { className: "layer" }, layerTitle(layer, layers.length)),
    ...Array.from({ length: view.headCount }, (_, head) => {
      const isSelected = layer === state.layer && head === state.head;
      const canvas = element("canvas", { "aria-hidden": "true" });
      paintMap(canvas, view, head);
      canvas.style.aspectRatio = clamp(view.columns / view.rows, 0.6, 2.5);
      const { description } = view.heads[head];
      return element("button", { type: "button", title: description, tabIndex: isSelected ? 0 : -1, "aria-pressed": String(isSelected),
        "aria-label": `Enlarge layer ${layer + 1}, head ${head + 1}: ${description}`, "data-layer": layer, "data-head": head,
        onclick: () => select({ layer, head, column: largestColumn(view, head, state.row) }) },
      canvas, columns > 4 ? null : element("span", { className: "description" }, description));
    }),
  ]));
  if (hadFocus) grid.querySelector("[aria-pressed=true]").focus();
}

byId("grid").addEventListener("keydown", (event) => {
  const buttons = [...byId("grid").querySelectorAll("button")];
  const current = buttons.indexOf(document.activeElement);
  const columns = withRole(state.role)[0].headCount;
  const offset = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (offset === undefined || current < 0 || !buttons[current + offset]) return;
  event.preventDefault();
  buttons[current + offset].focus();
});

function drawLargeMap() {
  const view = selectedView();
  const box = byId("large");
  const drawn = [state.role, state.layer, state.head, box.clientWidth, dark.matches].join();
  if (box.dataset.drawn === drawn) {
    readCell(view);
    return;
  }
  box.dataset.drawn = drawn;
  const hadFocus = document.activeElement && document.activeElement.id === "map";
  const [rowTokens, columnTokens] = labels[view.role];
  const labelWidth = 110;
  const cellSize = Math.max(3, Math.min(46, (box.clientWidth - labelWidth) / view.columns, Math.max(460 / view.rows, 14)));
  const canvas = mapCanvas(view, cellSize);
  const hasLabels = cellSize >= 11;
  const label = (token, index) => element("span", { "data-position": index, title: visibleSpaces(token) }, hasLabels ? tokenElement(token) : "");
  const down = element("div", { className: "down", "aria-hidden": "true" }, ...rowTokens.map(label));
  const across = element("div", { className: "across", "aria-hidden": "true" }, ...columnTokens.map(label));
  down.style.gridTemplateRows = `repeat(${view.rows}, ${cellSize}px)`;
  across.style.gridTemplateColumns = `repeat(${view.columns}, ${cellSize}px)`;
  const axis = { encoder: "keys: source tokens", decoder: "keys: target tokens so far", cross: "keys: source tokens" }[view.role];
  box.replaceChildren(
    element("h3", {}, `Layer ${state.layer + 1}, head ${state.head + 1}: ${view.heads[state.head].description}`),
    element("div", { className: "map" }, element("span"), element("div", { className: "axis" }, `${axis} →`), across, down,
      element("div", { className: "frame" }, canvas, element("div", { className: "cursor" }))),
    legend(),
    element("p", { className: "read", id: "map-read", "aria-live": "polite" }),
    element("div", { id: "map-row", className: "soft small" }));
  if (hadFocus) canvas.focus();
  readCell(view);
}

function mapCanvas(view, cellSize) {
  const canvas = element("canvas", { id: "map", tabIndex: 0, role: "application", "aria-roledescription": "attention map",
    "aria-label": "Use the arrow keys to move from pair to pair. The weight is read out below; section 5 shows its arithmetic.", "aria-describedby": "map-read" });
  paintMap(canvas, view, state.head);
  canvas.style.height = `${cellSize * view.rows}px`;
  canvas.style.width = `${cellSize * view.columns}px`;
  const cellAt = (event) => {
    const frame = canvas.getBoundingClientRect();
    return { row: Math.floor(((event.clientY - frame.top) / frame.height) * view.rows),
      column: Math.floor(((event.clientX - frame.left) / frame.width) * view.columns) };
  };
  canvas.addEventListener("pointermove", (event) => readCell(view, cellAt(event)));
  canvas.addEventListener("pointerleave", () => readCell(view));
  canvas.addEventListener("pointerdown", (event) => select(cellAt(event)));
  canvas.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    select({ row: state.row + down, column: state.column + right });
  });
  return canvas;
}

/* Describes one cell in words: the one under the pointer, or the selected one. */
function readCell(view, cell = state) {
  const row = clamp(cell.row, 0, view.rows - 1);
  const column = clamp(cell.column, 0, view.columns - 1);
  const box = byId("large");
  const canvas = byId("map");
  const [width, height] = [canvas.offsetWidth / view.columns, canvas.offsetHeight / view.rows];
  Object.assign(box.querySelector(".cursor").style,
    { left: `${column * width}px`, top: `${row * height}px`, width: `${width}px`, height: `${height}px` });
  for (const [name, position] of [["down", row], ["across", column]]) {
    for (const label of box.querySelectorAll(`.${name} > span`)) label.classList.toggle("on", Number(label.dataset.position) === position);
  }
  byId("map-read").replaceChildren(...cellSentence(view, row, column));
  const shares = Array.from({ length: view.columns }, (_, other) => [labels[view.role][1][other], view.weight(state.head, row, other)])
    .sort((a, b) => b[1] - a[1]).slice(0, 5).filter(([, share]) => share > 0);
  byId("map-row").replaceChildren("Largest weights of this row: ", ...withCommas(shares.map(([token, share]) => [tokenElement(token), ` ${percent(share)}`])),
    view.columns > shares.length ? ", …" : "");
}

function cellSentence(view, row, column) {
  const [rowTokens, columnTokens] = labels[view.role];
  const start = {
    encoder: () => ["At ", tokenElement(rowTokens[row])],
    decoder: () => ["With the input ", tokenElement(rowTokens[row]), " and the output ", tokenElement(outputTokens[row])],
    cross: () => ["For the output ", tokenElement(outputTokens[row])],
  }[view.role]();
  const key = tokenElement(columnTokens[column]);
  if (!view.isVisible(row, column)) {
    return [...start, ", this head cannot attend to ", key, view.role === "decoder" ? ": it comes later." : ": it is masked."];
  }
  const share = percent(view.weight(state.head, row, column));
  return [...start, ", this head gives ", element("b", { className: "number", id: "weight" }, share), " of its weight to ", key, "."];
}

/* ---- section 4: heads ---- */

/* Name in the data, title, explanation, and whether it is a share. */
const MEASURES = [
  ["entropy", "entropy", "in bits; 2 to this power is about the number of tokens attended to", false],
  ["largest", "largest", "mean of the largest weight of each row", true],
  ["diagonal", "diagonal", "weight on the token itself; in cross-attention, on the straight line through both sentences", true],
  ["previous", "previous", "weight on the token before that", true],
  ["next", "next", "weight on the token after that", true],
  ["first", "first", "weight on the first token", true],
  ["last", "last", "weight on the last token before the end", true],
  ["end", "end", "weight on the end token of the source", true],
];

function drawHeadTable() {
  const layers = withRole(state.role);
  const { dominant, partial, lift, uniform, peaked, different } = data.thresholds;
  const measures = MEASURES.filter(([name]) => layers[0].heads[0][name] !== null);
  const header = element("tr", {}, element("th", { scope: "col" }, "layer, head"), element("th", { scope: "col" }, "attends mostly to"),
    ...measures.map(([, title, explanation]) => element("th", { scope: "col", className: "number", title: explanation }, title)));
  const rows = layers.flatMap((view, layer) => view.heads.map((head, number) => {
    const isSelected = layer === state.layer && number === state.head;
    const cells = measures.map(([name, , , isShare]) => {
      const isDominant = isShare && head[name] >= dominant && name !== "largest";
      let text = "–";
      if (head[name] !== null) text = isShare ? percent(head[name], 1) : head[name].toFixed(2);
      return element("td", { className: isDominant ? "number dominant" : "number" }, text);
    });
    const button = element("button", { type: "button", onclick: () => select({ layer, head: number, column: largestColumn(view, number, state.row) }) },
      `layer ${layer + 1}, head ${number + 1}`);
    return element("tr", { className: isSelected ? "on" : "" }, element("td", {}, button), element("td", {}, head.description), ...cells);
  }));
  byId("head-table").replaceChildren(element("caption", { className: "soft small" }, `${ROLES[state.role][0]} (change it in section 3)`),
    element("thead", {}, header), element("tbody", {}, ...rows));
  const definitions = measures.map(([, title, explanation]) => `${title}: ${explanation}`).join("; ");
  byId("thresholds").textContent = `How a head gets its description. “All tokens equally”: its entropy is at least ${percent(uniform, 0)} of the largest possible. `
    + `A position such as “previous token”: the largest share is at least ${percent(dominant, 0)}. `
    + `“One token per row”: the largest weights are at least ${percent(peaked, 0)} on average, but at varying positions. `
    + `“Partly”: a share is at least ${percent(partial, 0)} and at least ${lift} times that of uniform attention. `
    + "All others have no clear pattern. Heads of a layer with the same pattern are compared with each other: "
    + `“end token +12 points” means a share of the weight that is 12 percentage points larger than the mean of the other heads with this pattern; differences are shown from ${percent(different, 0)} on. ${definitions}.`;
}
