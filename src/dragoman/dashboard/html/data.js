/* The runs of the page, and what the reader has chosen. */

const initial = JSON.parse(byId("data").textContent);
const runs = initial.runs.map(({ heading, points }, index) => ({ heading, ...points, index, style: index ? "second" : "first" }));
const isOverlay = runs.length > 1;
const chosen = { axis: "updates", pointer: null, sentence: 0, step: null, layer: null };

function addPoints(run, points) {
  for (const name of ["progress", "validations", "skipped", "samples"]) run[name] = run[name].concat(points[name]);
  run.position = points.position;
}

const last = (list) => list[list.length - 1];
const bestOf = (run) => last(run.validations.filter((validation) => validation.is_best));

/* The training time at an update, between the two entries of the journal around it. */
function secondsAt(run, step) {
  const { progress } = run;
  if (!progress.length) return null;
  let [low, high] = [0, progress.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (progress[middle].step < step) low = middle + 1;
    else high = middle;
  }
  const after = progress[Math.min(low, progress.length - 1)];
  const before = low ? progress[low - 1] : { step: 0, seconds: 0 };
  if (after.step <= step || after.step === before.step) return after.seconds;
  return before.seconds + ((step - before.step) / (after.step - before.step)) * (after.seconds - before.seconds);
}

/* ---- text ---- */

const whole = (number) => Math.round(number).toLocaleString("en-US");
const updates = (step) => `update ${whole(step)}`;

function duration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
