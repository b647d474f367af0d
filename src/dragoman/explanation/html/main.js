/* ---- the header, and the start ---- */

function drawHeader() {
  for (const [id, text, side] of [["sentence", data.sentence, 0], ["translation", data.translation, 1]]) {
    byId(id).textContent = text;
    byId(id).dir = "auto";
    byId(id).lang = data.languages[side];
  }
  const probability = data.tokens.reduce((product, token) => product * token.probability, 1);
  const [sourceCount, targetCount] = data.tokenCounts;
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const searchName = `${search.name} search${search.beamSize > 1 ? ` with beam size ${search.beamSize}` : ""}`;
  byId("facts").textContent = [`${data.languages[0]} → ${data.languages[1]}`,
    `${plural(sourceCount, "source token")}, ${plural(targetCount, "output token")} (end tokens not counted)`,
    `probability of the whole translation ${probabilityText(probability)}`, searchName, data.model].join(" · ");
  byId("notes").replaceChildren(...data.notes.map((note) => element("p", { className: "note" }, note)));
}

function drawPage() {
  drawHeader();
  drawTokens();
  drawAlignment();
  drawSearch();
  const role = ["cross", "encoder", "decoder"].find((name) => withRole(name).length);
  if (!role) {
    byId("roles").hidden = true;
    for (const id of ["grid", "choices"]) byId(id).replaceChildren(missing("no attention"));
    byId("head-table").replaceWith(missing("no attention"));
    return;
  }
  const layers = withRole(role);
  const top = layers[layers.length - 1];
  const sharpest = top.heads.reduce((best, head, number) => (head.largest > top.heads[best].largest ? number : best), 0);
  Object.assign(state, { role, layer: layers.length - 1, head: sharpest, row: 0, column: largestColumn(top, sharpest, 0) });
  drawSelection(true, true);
  let timer = null;
  const redraw = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { drawGrid(); drawLargeMap(); if (alignments.length) drawRibbons(); }, 120);
  };
  window.addEventListener("resize", redraw);
  dark.addEventListener("change", redraw);
}

drawPage();
