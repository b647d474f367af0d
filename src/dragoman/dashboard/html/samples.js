/* The sample translations: fixed validation sentences, as the model translates them at each validation. */

const SCALE = 1000; /* Weights are stored in thousandths. */

/* All steps with samples, of all runs. */
function sampleSteps() {
  return [...new Set(runs.flatMap((run) => run.samples.map((samples) => samples.step)))].sort((a, b) => a - b);
}

/* The sentences of all runs: two runs of the same corpus have the same ones. */
function sampleSentences() {
  const sources = new Map();
  for (const run of runs) for (const samples of run.samples.slice(0, 1)) {
    for (const sentence of samples.sentences) if (!sources.has(sentence.source)) sources.set(sentence.source, sentence.reference);
  }
  return [...sources];
}

const sentenceIn = (samples, source) => samples.sentences.find((sentence) => sentence.source === source);

/* What a run has at a step: its newest samples up to there. */
function samplesAt(run, step) {
  return last(run.samples.filter((samples) => samples.step <= step));
}

function drawSamples() {
  const [steps, sentences] = [sampleSteps(), sampleSentences()];
  byId("sample-box").hidden = !steps.length || !sentences.length;
  byId("samples-text").textContent = samplesText(steps.length);
  if (byId("sample-box").hidden) return;
  chosen.sentence = Math.min(chosen.sentence, sentences.length - 1);
  const [source, reference] = sentences[chosen.sentence];
  drawSentences(sentences);
  byId("pair").replaceChildren(element("dt", {}, "Source"), element("dd", { lang: runs[0].heading.languages[0] }, element("bdi", {}, source)),
    element("dt", {}, "Reference"), element("dd", { lang: runs[0].heading.languages[1] }, element("bdi", {}, reference)));
  const step = chosen.step === null ? last(steps) : chosen.step;
  const index = Math.max(0, steps.findLastIndex((other) => other <= step));
  Object.assign(byId("step"), { max: steps.length - 1, value: index });
  byId("step").setAttribute("aria-valuetext", updates(steps[index]));
  byId("step-text").textContent = updates(steps[index]);
  byId("newest").disabled = chosen.step === null || index === steps.length - 1;
  drawLayers(source);
  drawColumns(source, steps[index]);
  drawHistory(source, steps[index]);
}

function samplesText(count) {
  if (count) {
    return "The same validation sentences at each validation, translated by greedy search, with the cross-attention of one decoder layer "
      + "(mean over its heads): a row is an output token, a column is a source token. Each row sums to one.";
  }
  if (initial.is_live) return "The first sample translations appear at the first validation (training.validate_every).";
  return "No sample translations were recorded. “dragoman train RECIPE --dashboard” records them at each validation.";
}

function drawSentences(sentences) {
  const box = byId("sentences");
  if (box.children.length !== sentences.length) {
    box.replaceChildren(...sentences.map((_, index) => element("button", { type: "button", onclick: () => { chosen.sentence = index; drawSamples(); } }, `Sentence ${index + 1}`)));
  }
  [...box.children].forEach((button, index) => button.setAttribute("aria-pressed", String(index === chosen.sentence)));
}

function drawLayers(source) {
  const counts = runs.flatMap((run) => run.samples.slice(-1)).map((samples) => sentenceIn(samples, source)).map((sentence) => (sentence ? sentence.layers.length : 0));
  const count = Math.max(0, ...counts);
  byId("layer-label").hidden = count < 2;
  if (byId("layer").options.length === count) return;
  byId("layer").replaceChildren(...Array.from({ length: count }, (_, layer) => {
    let position = "";
    if (layer === 0) position = " (bottom)";
    if (layer === count - 1) position = " (top)";
    return element("option", { value: layer }, `${layer + 1}${position}`);
  }));
  byId("layer").value = String(chosen.layer === null ? count - 1 : Math.min(chosen.layer, count - 1));
}

function runTitle(run, text) {
  return element("h3", {}, isOverlay ? lineKey(run, "plain") : null, isOverlay ? `${run.heading.name}, ${text}` : text);
}

function drawColumns(source, step) {
  byId("columns").replaceChildren(...runs.map((run) => {
    const samples = samplesAt(run, step);
    const sentence = samples && sentenceIn(samples, source);
    if (!sentence) return element("div", { className: "column" }, runTitle(run, "no translation of this sentence yet"));
    return element("div", { className: "column" }, runTitle(run, isOverlay ? `translation at ${updates(samples.step)}` : `Translation at ${updates(samples.step)}`),
      translationElement(run, sentence.translation, "p"), ...mapParts(sentence));
  }));
  const hasMap = byId("columns").querySelector("canvas") !== null;
  byId("map-legend").replaceChildren(...(hasMap ? [legend()] : []));
  for (const note of byId("map-legend").querySelectorAll("span")) note.textContent = "square-root scale: 25 % is in the middle";
  sizeMaps();
}

function translationElement(run, text, tag) {
  const body = text ? element("bdi", { lang: run.heading.languages[1] }, text) : element("span", { className: "empty" }, "(nothing)");
  return element(tag, { className: "translation" }, body);
}

/* The attention map, with its tokens; `sizeMaps` gives it its size. */
function mapParts({ source_tokens: columnsTokens, target_tokens: rowTokens, layers }) {
  if (!layers.length) return [element("p", { className: "soft" }, "This model has no cross-attention.")];
  const weights = layers[Math.min(Number(byId("layer").value || 0), layers.length - 1)];
  if (!weights.length) return [element("p", { className: "soft" }, "No output token, so there is no map.")];
  const view = { rows: weights.length, columns: columnsTokens.length, isVisible: () => true, weight: (_, row, column) => weights[row][column] / SCALE };
  const canvas = element("canvas", { role: "img", "aria-label": mapText(view, rowTokens, columnsTokens) });
  paintMap(canvas, view, 0);
  const reading = element("p", { className: "map-read soft" });
  const cursor = element("div", { className: "cursor", hidden: true });
  const label = (token) => element("span", { title: visibleSpaces(token) }, tokenElement(token));
  canvas.addEventListener("pointermove", (event) => {
    const frame = canvas.getBoundingClientRect();
    const row = clamp(Math.floor(((event.clientY - frame.top) / frame.height) * view.rows), 0, view.rows - 1);
    const column = clamp(Math.floor(((event.clientX - frame.left) / frame.width) * view.columns), 0, view.columns - 1);
    const [width, height] = [frame.width / view.columns, frame.height / view.rows];
    cursor.hidden = false;
    Object.assign(cursor.style, { left: `${column * width}px`, top: `${row * height}px`, width: `${width}px`, height: `${height}px` });
    reading.replaceChildren("For the output ", tokenElement(rowTokens[row]), ", ", element("b", { className: "number" }, percent(view.weight(0, row, column), 1)),
      " of the attention goes to ", tokenElement(columnsTokens[column]), ".");
  });
  canvas.addEventListener("pointerleave", () => { cursor.hidden = true; reading.replaceChildren("Point at the map to read a weight."); });
  reading.textContent = "Point at the map to read a weight.";
  return [element("div", { className: "map", "data-rows": view.rows, "data-columns": view.columns },
    element("span"), element("div", { className: "axis" }, "source tokens →"),
    element("span"), element("div", { className: "across", "aria-hidden": "true" }, ...columnsTokens.map(label)),
    element("div", { className: "down", "aria-hidden": "true" }, ...rowTokens.map(label)),
    element("div", { className: "frame" }, canvas, cursor)), reading];
}

/* The map in words: where each output token looks most. */
function mapText(view, rowTokens, columnTokens) {
  const largest = rowTokens.map((token, row) => {
    let best = 0;
    for (let column = 1; column < view.columns; column += 1) if (view.weight(0, row, column) > view.weight(0, row, best)) best = column;
    return `${visibleSpaces(token)}: ${visibleSpaces(columnTokens[best])} ${percent(view.weight(0, row, best), 0)}`;
  });
  return `Attention map. Largest weight of each output token: ${largest.join(", ")}`;
}

function sizeMaps() {
  for (const box of byId("columns").querySelectorAll(".map")) {
    const [rows, columns] = [Number(box.dataset.rows), Number(box.dataset.columns)];
    const width = box.parentElement.clientWidth - 32 - box.querySelector(".down").offsetWidth - 8;
    const size = clamp(width / columns, 4, 38);
    const height = clamp(Math.min(size, 460 / rows), 12, 27);
    const canvas = box.querySelector("canvas");
    Object.assign(canvas.style, { width: `${size * columns}px`, height: `${height * rows}px` });
    box.querySelector(".down").style.gridTemplateRows = `repeat(${rows}, ${height}px)`;
    box.querySelector(".across").style.gridTemplateColumns = `repeat(${columns}, ${size}px)`;
    box.querySelector(".across").hidden = size < 10;
  }
}

/* The validations at which the translation of a sentence changed, newest first. */
function drawHistory(source, step) {
  const hadFocus = byId("history").contains(document.activeElement);
  byId("history").replaceChildren(...runs.map((run) => {
    const changes = [];
    for (const samples of run.samples) {
      const sentence = sentenceIn(samples, source);
      if (sentence && (!changes.length || last(changes).text !== sentence.translation)) changes.push({ step: samples.step, text: sentence.translation });
    }
    const current = last(changes.filter((change) => change.step <= step));
    return element("div", { className: "column" }, runTitle(run, isOverlay ? "changes, newest first" : "How it changed, newest first"),
      element("ol", { className: "changes" }, ...changes.reverse().map((change) => element("li", {}, element("button", {
        type: "button", "aria-pressed": String(change === current), onclick: () => { chosen.step = change.step; drawSamples(); } },
      element("span", { className: "number" }, whole(change.step)),
      change.text ? element("bdi", { lang: run.heading.languages[1] }, change.text) : element("span", { className: "empty" }, "(nothing)"))))));
  }));
  if (hadFocus) byId("history").querySelector("[aria-pressed=true]")?.focus();
}

function listenToSamples() {
  byId("sample-grid").classList.toggle("overlay", isOverlay);
  byId("step").addEventListener("input", (event) => {
    const steps = sampleSteps();
    const index = Number(event.target.value);
    chosen.step = index === steps.length - 1 ? null : steps[index];
    drawSamples();
  });
  byId("newest").addEventListener("click", () => { chosen.step = null; drawSamples(); });
  byId("layer").addEventListener("change", (event) => { chosen.layer = Number(event.target.value); drawSamples(); });
}
