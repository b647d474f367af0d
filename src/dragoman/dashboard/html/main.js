/* The header, the start, and asking the server for what is new. */

const POLL_MILLISECONDS = 2000;

function drawHeader() {
  const names = runs.map((run) => run.heading.name);
  byId("title").textContent = names.join(" and ");
  byId("headings").replaceChildren(...runs.map((run) => {
    const { heading } = run;
    const best = bestOf(run);
    const facts = [`${heading.languages[0]} → ${heading.languages[1]}`, heading.model, progressText(run)];
    if (best && best.bleu !== null) facts.push(`best validation BLEU ${best.bleu.toFixed(1)} at ${updates(best.step)}`);
    return element("p", { className: "run-name soft" }, isOverlay ? lineKey(run, "plain") : null,
      isOverlay ? element("b", {}, heading.name) : null, facts.join(" · "));
  }));
}

function progressText(run) {
  if (run.heading.cost) return run.heading.cost;
  const step = Math.max(0, ...[last(run.progress), last(run.validations)].map((entry) => (entry ? entry.step : 0)));
  return initial.is_live ? `at most ${whole(run.heading.steps)} updates` : `not finished: ${whole(step)} of at most ${whole(run.heading.steps)} updates`;
}

function drawCurves() {
  drawHeader();
  drawCharts();
  drawNotes();
  drawTables();
}

/* ---- live ---- */

const ENDINGS = {
  training: "Training",
  finished: "Training has ended. The run folder contains this page as dashboard.html.",
  stopped: "Training was stopped.",
  failed: "Training has failed. The terminal says why.",
  lost: "No answer from the training: it has ended, or it is busy. This page tries again. After the end, dashboard.html in the run folder has all values.",
};

/* Changes the text only if it is another one, because screen readers read it out. */
function drawStatus(status) {
  const box = byId("status");
  box.hidden = false;
  box.dataset.state = status.state;
  const text = status.text ? `${ENDINGS[status.state].split(".")[0]}: ${status.text}` : ENDINGS[status.state];
  if (byId("status-text").textContent !== text) byId("status-text").textContent = text;
  if (status.state === "lost") return;
  const { steps } = runs[0].heading;
  const numbers = [`${updates(status.step)} of at most ${whole(steps)}`];
  if (status.elapsed_seconds) numbers.push(`${duration(status.elapsed_seconds)} trained`);
  if (status.seconds_left !== null) numbers.push(`about ${duration(status.seconds_left)} left`);
  byId("status-numbers").textContent = numbers.join(" · ");
  byId("progress-bar").style.width = `${Math.min(100, (100 * status.step) / steps)}%`;
}

async function poll() {
  const [run] = runs;
  let isEnded = false;
  try {
    const { journal, samples } = run.position;
    const answer = await fetch(`data?journal=${journal}&samples=${samples}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const { points, status } = await answer.json();
    addPoints(run, points);
    drawStatus(status);
    if (points.progress.length || points.validations.length || points.skipped.length) drawCurves();
    if (points.samples.length) drawSamples();
    isEnded = status.state !== "training";
  } catch {
    drawStatus({ state: "lost" });
  }
  if (!isEnded) setTimeout(poll, POLL_MILLISECONDS);
}

/* ---- the start ---- */

buildCharts();
listenToSamples();
drawCurves();
drawSamples();
let redrawTimer = null;
const redraw = () => {
  clearTimeout(redrawTimer);
  redrawTimer = setTimeout(() => { drawCharts(); drawSamples(); }, 120);
};
window.addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
byId("footer").textContent = initial.is_live
  ? "This page comes from the training process on this machine and asks it for new values every two seconds. It asks no other server."
  : "This page is one file. It loads nothing and sends nothing.";
if (initial.is_live) poll();
