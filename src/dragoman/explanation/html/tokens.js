/* ---- section 1: output tokens ---- */

function drawTokens() {
  byId("cards").replaceChildren(...data.tokens.map(({ token, probability, alternatives }) => {
    const rows = alternatives.map(([other, share]) =>
      element("div", {}, element("dt", {}, tokenElement(other)), element("dd", { className: "number" }, probabilityText(share))));
    return element("li", {},
      element("div", { className: "output" }, tokenElement(token), element("span", { className: "number" }, probabilityText(probability))),
      bar(probability),
      element("dl", { "aria-label": "alternatives" }, ...rows));
  }));
}

/* ---- section 2: alignment ---- */

const alignments = data.alignments.map(unpack);
const MIN_DRAWN = 0.05;

function drawAlignment() {
  const layerSelect = byId("alignment-layer");
  if (!alignments.length) {
    layerSelect.closest(".controls").hidden = true;
    byId("ribbons").replaceChildren(missing("no cross-attention"));
    return;
  }
  alignments.forEach((_, layer) => layerSelect.append(element("option", { value: layer },
    `layer ${layer + 1}${layer === alignments.length - 1 ? " (top)" : ""}, mean of its heads`)));
  layerSelect.value = alignments.length - 1;
  layerSelect.addEventListener("change", () => drawRibbons());
  drawRibbons();
}

function drawRibbons() {
  const alignment = alignments[Number(byId("alignment-layer").value)];
  const weight = (row, column) => alignment.at(row * data.source_tokens.length + column);
  const box = byId("ribbons");
  const chip = (token, side, position) => {
    const show = () => highlight(side, position);
    return element("button", { className: "chip", type: "button", onmouseenter: show, onfocus: show, onclick: show,
      "data-side": side, "data-position": position }, tokenElement(token));
  };
  const tokenRow = (tokens, side, direction) => element("div", { className: "row", dir: direction, role: "group", "aria-label": side },
    ...tokens.map((token, position) => chip(token, side, position)));
  const sourceRow = tokenRow(data.source_tokens, "source", data.directions[0]);
  const targetRow = tokenRow(outputTokens, "target", data.directions[1]);
  const svg = svgElement("svg", { "aria-hidden": "true" });
  box.replaceChildren(svg, element("div", { className: "side" }, `source (${data.languages[0]})`), sourceRow,
    element("div", { className: "gap" }), targetRow, element("div", { className: "side" }, `output (${data.languages[1]})`));
  box.classList.remove("dense");
  box.classList.toggle("dense", box.scrollWidth > box.parentElement.clientWidth);
  box.onmouseleave = () => highlight(null);
  const lines = [];
  const frame = box.getBoundingClientRect();
  [...targetRow.children].forEach((target, row) => [...sourceRow.children].forEach((source, column) => {
    const share = weight(row, column);
    if (share < 0.01) return;
    const [start, end] = [source.getBoundingClientRect(), target.getBoundingClientRect()];
    const [x1, y1] = [start.left + start.width / 2 - frame.left, start.bottom - frame.top];
    const [x2, y2] = [end.left + end.width / 2 - frame.left, end.top - frame.top];
    const middle = (y1 + y2) / 2;
    const line = svgElement("path", { d: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`, "stroke-width": 0.6 + 12 * share });
    lines.push({ row, column, share, line });
    svg.append(line);
  }));

  /* Highlights the lines of one token; of none if side is null. */
  function highlight(side, position) {
    const restOpacity = (share) => (share < MIN_DRAWN ? 0 : 0.16 + 0.6 * share);
    for (const { row, column, share, line } of lines) {
      const isOn = side === "target" ? row === position : column === position;
      line.style.opacity = side === null ? restOpacity(share) : isOn ? 0.3 + 0.7 * share : 0.04;
    }
    for (const node of box.querySelectorAll(".chip")) {
      const [ownSide, ownPosition] = [node.dataset.side, Number(node.dataset.position)];
      let share = 0;
      if (ownSide === side) share = Number(ownPosition === position);
      else if (side === "target") share = weight(position, ownPosition);
      else if (side === "source") share = weight(ownPosition, position);
      node.classList.toggle("on", side !== null && share >= 0.1);
    }
    readAlignment(side, position, weight);
  }
  highlight(null);
}

/* Writes the weights of one token below the drawing. */
function readAlignment(side, position, weight) {
  const paragraph = byId("alignment-read");
  if (side === null) {
    paragraph.replaceChildren(element("span", { className: "soft" }, `Lines below ${percent(MIN_DRAWN, 0)} are hidden until you point at a token.`));
    return;
  }
  const isTarget = side === "target";
  const [tokens, token] = isTarget ? [data.source_tokens, outputTokens[position]] : [outputTokens, data.source_tokens[position]];
  const shares = tokens.map((other, index) => [other, isTarget ? weight(position, index) : weight(index, position)])
    .sort((a, b) => b[1] - a[1]).filter(([, share]) => share >= 0.005).slice(0, 6);
  let text = " gets attention from ";
  if (isTarget) text = " attends to ";
  else if (!shares.length) text = " gets less than 0.5 % attention from every output token";
  paragraph.replaceChildren(tokenElement(token), text, ...withCommas(shares.map(([other, share]) =>
    [tokenElement(other), " (", element("b", { className: "number" }, percent(share)), ")"])), ".");
}
