/* Shared by all sections: the data, and the selected pair.

   The page has one state and one function that draws each section. */

const data = JSON.parse(document.getElementById("data").textContent);
const ROLES = {
  encoder: ["Source → source", "Encoder self-attention: each source token collects information from the other source tokens."],
  decoder: ["Target → target", "Decoder self-attention: each target token attends to itself and to the tokens before it. Later tokens are masked."],
  cross: ["Target → source", "Cross-attention: each output token attends to the source tokens."],
};

function missing(what) {
  return element("p", { className: "soft" }, `This model has ${what}, so there is nothing to show here.`);
}

const views = data.attention.map((view) => {
  const [headCount, rows, columns] = view.shape;
  const [weights, scores, mask] = [unpack(view.weights), unpack(view.scores), bytes(view.mask)];
  const indexOf = (head, row, column) => (head * rows + row) * columns + column;
  const vectors = view.vectors && !view.vectors.isLeftOut
    ? { ...view.vectors, queries: unpack(view.vectors.queries), keys: unpack(view.vectors.keys) } : null;
  return {
    ...view, headCount, rows, columns, vectors, hasProduct: view.vectors !== null,
    decimals: Math.min(scores.decimals, 3),
    weight: (head, row, column) => weights.at(indexOf(head, row, column)),
    score: (head, row, column) => scores.at(indexOf(head, row, column)),
    isVisible(row, column) {
      const bit = row * columns + column;
      return Boolean(mask[bit >> 3] & (128 >> (bit & 7)));
    },
  };
});
const withRole = (role) => views.filter((view) => view.role === role).sort((a, b) => a.layer - b.layer);
const outputTokens = data.tokens.map((token) => token.token);
/* The tokens of rows and columns. */
const labels = {
  encoder: [data.source_tokens, data.source_tokens],
  decoder: [data.decoder_input, data.decoder_input],
  cross: [outputTokens, data.source_tokens],
};

/* ---- the selected head and pair ---- */

const state = { role: "cross", layer: 0, head: 0, row: 0, column: 0, step: 1 };

function selectedView() {
  return withRole(state.role)[state.layer];
}

function largestColumn(view, head, row) {
  let largest = 0;
  for (let column = 1; column < view.columns; column += 1) {
    if (view.weight(head, row, column) > view.weight(head, row, largest)) largest = column;
  }
  return largest;
}

function select(change) {
  const before = { ...state };
  Object.assign(state, change);
  const layers = withRole(state.role);
  if (!layers.length) return;
  state.layer = Math.min(state.layer, layers.length - 1);
  const view = selectedView();
  state.head = Math.min(state.head, view.headCount - 1);
  state.row = clamp(state.row, 0, view.rows - 1);
  if (state.role !== before.role && !("column" in change)) state.column = largestColumn(view, state.head, state.row);
  state.column = clamp(state.column, 0, view.columns - 1);
  const isNewHead = ["role", "layer", "head"].some((name) => state[name] !== before[name]);
  drawSelection(isNewHead, state.role !== before.role);
}

function drawSelection(isNewHead, isNewRole) {
  if (isNewRole) drawRoles();
  if (isNewHead) drawGrid();
  drawLargeMap();
  if (isNewHead) drawHeadTable();
  drawArithmetic(isNewHead);
}
