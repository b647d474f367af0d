/* ---- section 6: the search, step by step ---- */

const search = data.search;
const steps = search.steps.map((step) => step.map(([parent, token, text, score, outcome]) => ({ parent, token, text, score, outcome })));
const keptIn = (step) => steps[step].filter((hypothesis) => hypothesis.outcome === "kept");
const isComplete = (hypothesis) => hypothesis.outcome === "finished" || hypothesis.outcome === "truncated";

/* Sign and name of each outcome. */
const OUTCOMES = {
  kept: ["●", "kept"],
  finished: ["◆", "finished"],
  truncated: ["◆", "truncated"],
  dropped: ["○", "dropped"],
  late: ["○", "dropped"],
  unused: ["○", "not used"],
};

/* Why a hypothesis has its outcome. Row numbers are those of the table. */
function reason(hypothesis, step) {
  const size = search.beamSize;
  const lastKept = step.findLastIndex((other) => other.outcome === "kept") + 1;
  return {
    kept: size > 1 ? `among the best ${size} unfinished hypotheses` : "the most probable token",
    finished: "it has the end token; compared with the others at the end",
    truncated: "it reached the length limit; compared with the others at the end",
    dropped: size > 1 ? `its score is below row ${lastKept}, the last row that is kept` : `its score is below row ${lastKept}`,
    late: size > 1 ? `it has the end token, but it is not in the first ${size} rows` : "it has the end token, but it is not the best",
    unused: "enough others are finished: the search stops",
  }[hypothesis.outcome];
}

/* The hypotheses from the first token to the translation. */
function bestPath() {
  const [text, length, total] = search.finished[0];
  const path = new Set();
  let hypothesis = steps[length - 1].find((other) => isComplete(other) && other.text === text && other.score === total);
  for (let step = length - 1; hypothesis && step >= 0; step -= 1) {
    path.add(hypothesis);
    hypothesis = step ? keptIn(step - 1)[hypothesis.parent] : null;
  }
  return path;
}

function searchText() {
  if (!steps.length) {
    return `The tokens were sampled at random (decoding.search: ${search.name}). Sampling uses the temperature and the limits of the recipe; `
      + "the probabilities on this page are those of the model. No hypotheses were compared, so there are no steps to show.";
  }
  if (search.beamSize === 1) {
    return "Greedy search takes the most probable token at each step: it is a beam search with beam size 1. The table also shows the second best token. "
      + "A score is the sum of the log-probabilities.";
  }
  return `Beam search keeps the ${search.beamSize} best unfinished translations (hypotheses). At each step, every hypothesis is extended with every token of the vocabulary. `
    + "The score of a hypothesis is the sum of its log-probabilities: it is negative, and larger is better. "
    + `The table shows the ${2 * search.beamSize} best of each step; the search does not use any others.`;
}

function drawSearch() {
  byId("search-text").textContent = searchText();
  if (!steps.length) return;
  let timer = null;
  const last = steps.length + 1;
  const slider = element("input", { type: "range", min: 1, max: last, value: 1, id: "step", "aria-label": "Step of the search", oninput: () => goTo(Number(slider.value)) });
  const button = (text, id, action, label) => element("button", { type: "button", id, onclick: action, "aria-label": label }, text);
  const play = button("▶ play", "play", () => (timer ? stop() : start()), "Play or pause");
  const previous = button("← previous", "previous", () => { stop(); goTo(state.step - 1); }, "Previous step");
  const next = button("next →", "next", () => { stop(); goTo(state.step + 1); }, "Next step");
  const position = element("span", { className: "number soft", id: "search-position" });
  const tree = element("div", { className: "tree", tabIndex: 0, role: "img" });
  const table = element("div", { className: "scroll" });
  const summary = element("p", { className: "read", id: "search-read", "aria-live": "polite" });
  byId("player").replaceChildren(element("div", { className: "player" }, previous, play, next, slider, position), tree, summary, table);
  byId("player").addEventListener("keydown", (event) => {
    const target = { ArrowRight: state.step + 1, ArrowLeft: state.step - 1, Home: 1, End: last }[event.key];
    if (target === undefined || event.target === slider) return;
    event.preventDefault();
    stop();
    goTo(target);
  });
  function start() {
    if (state.step === last) goTo(1);
    timer = setInterval(() => (state.step === last ? stop() : goTo(state.step + 1)), 1100);
    play.textContent = "❚❚ pause";
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
  }
  function goTo(step) {
    state.step = clamp(step, 1, last);
    slider.value = state.step;
    // aria-disabled instead of disabled: a disabled button loses the keyboard focus.
    previous.setAttribute("aria-disabled", state.step === 1);
    next.setAttribute("aria-disabled", state.step === last);
    const isEnd = state.step === last;
    position.textContent = isEnd ? "end of the search" : `step ${state.step} of ${steps.length}`;
    if (isEnd) stop();
    const shown = Math.min(state.step, steps.length);
    tree.replaceChildren(drawTree(shown, isEnd));
    tree.setAttribute("aria-label", `Tree of hypotheses after ${shown} steps; the table below has the same content`);
    const current = tree.querySelector(".current");
    if (current) tree.scrollLeft = Number(current.dataset.x) - tree.clientWidth + 220;
    table.replaceChildren(isEnd ? finishedTable() : stepTable(steps[state.step - 1]));
    summary.textContent = isEnd ? endSummary() : stepSummary(steps[state.step - 1]);
  }
  goTo(1);
}

function stepSummary(step) {
  const count = (...outcomes) => step.filter((hypothesis) => outcomes.includes(hypothesis.outcome)).length;
  const complete = count("finished", "truncated");
  const parts = [`${count("kept")} kept`, `${count("dropped", "late", "unused")} dropped`, ...(complete ? [`${complete} complete`] : [])];
  return `${parts.join(", ")}.`;
}

function endSummary() {
  const { lengthPenalty, lengthNormalization, coveragePenalty } = search;
  if (search.finished.length === 1) return "One translation is complete: it is the result.";
  const coverage = coveragePenalty ? ` Then ${coveragePenalty} times the coverage penalty is added, which is 0 if every source token was attended to.` : "";
  if (!lengthPenalty) return `The complete translations are compared by their scores.${coverage} The best one is the result.`;
  const divisor = lengthNormalization === "power" ? `the length to the power of ${lengthPenalty}` : `((5 + length) / 6) to the power of ${lengthPenalty}`;
  return `Every token makes the sum smaller, so short translations would win. Therefore the sum is divided by ${divisor}.${coverage} The largest result wins.`;
}

function tableWith(id, titles, isNumber, rows) {
  const header = titles.map((title, index) => element("th", { scope: "col", className: isNumber(index) ? "number" : "" }, title));
  return element("table", { id }, element("thead", {}, element("tr", {}, ...header)), element("tbody", {}, ...rows));
}

function stepTable(step) {
  const rows = step.map((hypothesis, index) => {
    const [sign, name] = OUTCOMES[hypothesis.outcome];
    return element("tr", { className: hypothesis.outcome === "kept" || isComplete(hypothesis) ? "on" : "" },
      element("td", { className: "number" }, String(index + 1)), element("td", {}, element("bdi", {}, hypothesis.text || "–")),
      element("td", {}, tokenElement(hypothesis.token)), element("td", { className: "number" }, signed(hypothesis.score, 4)),
      element("td", { className: "outcome" }, `${sign} ${name}`), element("td", { className: "reason" }, reason(hypothesis, step)));
  });
  return tableWith("step-table", ["row", "hypothesis", "new token", "score", "outcome", "reason"], (index) => index === 0 || index === 3, rows);
}

function finishedTable() {
  const rows = search.finished.map(([text, length, total, score], index) => element("tr", { className: index ? "" : "on" },
    element("td", { className: "number" }, String(index + 1)), element("td", {}, element("bdi", {}, text)),
    element("td", { className: "number" }, signed(total, 4)), element("td", { className: "number" }, String(length)),
    element("td", { className: "number" }, signed(score, 4)), element("td", { className: "outcome" }, index ? "" : "◆ the result")));
  return tableWith("finished-table", ["row", "complete translation", "sum", "tokens (with end)", "length-normalized", ""], (index) => index !== 1 && index < 5, rows);
}

const textMeasure = document.createElement("canvas").getContext("2d");
function drawTree(shown, isEnd) {
  textMeasure.font = "600 13px system-ui, sans-serif";
  const rowHeight = 38;
  const widths = steps.map((step) => Math.max(58, ...step.map(({ token }) => textMeasure.measureText(visibleSpaces(token)).width + 18)));
  const lefts = [];
  widths.reduce((left, width, index) => { lefts[index] = left; return left + width + 34; }, 12);
  const totalWidth = lefts[shown - 1] + widths[shown - 1] + 14;
  const totalHeight = Math.max(...steps.map((step) => step.length)) * rowHeight + 30;
  const svg = svgElement("svg", { width: totalWidth, height: totalHeight, viewBox: `0 0 ${totalWidth} ${totalHeight}` });
  const path = isEnd ? bestPath() : new Set();
  const middle = (row) => 36 + row * rowHeight;
  const [lines, bestLines] = [[], []];
  for (let number = 0; number < shown; number += 1) {
    const [left, width] = [lefts[number], widths[number]];
    const stepNumber = svgElement("text", { class: "step-number", x: left, y: 10 });
    stepNumber.textContent = `${number + 1}`;
    svg.append(stepNumber);
    const parents = number ? keptIn(number - 1) : [];
    steps[number].forEach((hypothesis, row) => {
      const isBest = path.has(hypothesis);
      const isCurrent = number === shown - 1 && !isEnd;
      if (number) {
        const parentRow = steps[number - 1].indexOf(parents[hypothesis.parent]);
        const [x1, y1, x2, y2] = [lefts[number - 1] + widths[number - 1], middle(parentRow), left, middle(row)];
        const line = svgElement("path", { class: isBest ? "best" : hypothesis.outcome, d: `M${x1} ${y1}C${x1 + 18} ${y1} ${x2 - 18} ${y2} ${x2} ${y2}` });
        (isBest ? bestLines : lines).push(line);
      }
      const token = svgElement("text", { x: left + width / 2, y: middle(row) - 5, "text-anchor": "middle" });
      token.textContent = visibleSpaces(hypothesis.token);
      const score = svgElement("text", { class: "score", x: left + width / 2, y: middle(row) + 9, "text-anchor": "middle" });
      score.textContent = signed(hypothesis.score, 2);
      svg.append(svgElement("g", { class: [hypothesis.outcome, isBest ? "best" : "", isCurrent ? "current" : ""].join(" "), "data-x": left },
        svgElement("rect", { x: left, y: middle(row) - 15, width, height: 31, rx: 6 }), token, score));
    });
  }
  svg.prepend(...lines, ...bestLines);
  return svg;
}
